package kube

import (
	"net/http"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
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

// soon is the maximum pause that RetrySoon accepts.
const soon = 2 * time.Second

// RetrySoon returns a copy of cfg whose requests client-go tries again after at most two seconds, although an overloaded server
// asks for more. It is for a few small requests that must not be late, such as the renewal of a lease: API servers ask for up to
// half a minute, and client-go would wait that long, even if the server has recovered.
func RetrySoon(cfg *rest.Config) *rest.Config { return RetryWithin(cfg, soon) }

// RetryWithin returns a copy of cfg whose requests client-go tries again after at most longest, whole seconds. A proxy in front of
// a server may ask for an hour, for which client-go would wait, up to ten times for one request.
func RetryWithin(cfg *rest.Config, longest time.Duration) *rest.Config {
	const header = "Retry-After"
	most := int(longest / time.Second)
	return WrapTransport(cfg, func(next http.RoundTripper, request *http.Request) (*http.Response, error) {
		answer, err := next.RoundTrip(request)
		if err != nil {
			return answer, err
		}
		if seconds, invalid := strconv.Atoi(answer.Header.Get(header)); invalid == nil && seconds > most {
			answer.Header.Set(header, strconv.Itoa(most))
		}
		return answer, nil
	})
}
