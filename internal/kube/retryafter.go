package kube

import (
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// LongestRetryAfter is the maximum pause that is accepted from a server.
const LongestRetryAfter = 5 * time.Minute

// RetryAfter returns the Retry-After of a 429 or 5xx response, limited to LongestRetryAfter, or zero if there is
// none. It is for clients that schedule their own retries: the retries of client-go (rest.Request.MaxRetries)
// wait exactly as long, so all clients retry together.
func RetryAfter(err error) time.Duration {
	seconds, _ := apierrors.SuggestsClientDelay(err)
	return min(time.Duration(max(seconds, 0))*time.Second, LongestRetryAfter)
}
