package kube

import (
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// LongestRetryAfter is the longest a server may tell us to wait.
const LongestRetryAfter = 5 * time.Minute

// RetryAfter is how long the server asked us to wait in an answer of 429 or 5xx, but not more than
// LongestRetryAfter. Zero: it asked for nothing. It is for clients that make the pauses between attempts
// themselves: client-go's own attempts (rest.Request.MaxRetries) wait to the second, and all together.
func RetryAfter(err error) time.Duration {
	seconds, _ := apierrors.SuggestsClientDelay(err)
	return min(time.Duration(max(seconds, 0))*time.Second, LongestRetryAfter)
}
