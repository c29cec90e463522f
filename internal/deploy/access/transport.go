package access

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/internal/kube"
)

// requestTimeout is the timeout of requests other than watches.
const requestTimeout = 30 * time.Second

// ErrStopped means that this agent has stopped and must not act any longer.
var ErrStopped = errors.New("the agent is stopping")

// bounded is a transport with timeouts that refuses all requests after the agent has stopped. The timeout of a
// watch is the time that it requests from the server, plus requestTimeout: otherwise a server or proxy that lost
// the watch would keep it silent forever. Helm's operations take no context. Refusing their requests leaves the
// same state as a killed process, and the next process continues from there.
type bounded struct {
	next    http.RoundTripper
	stopped <-chan struct{}
}

// WithBounds returns a copy of cfg whose clients use a bounded transport. It clears the timeout of cfg, because
// client-go would apply it to watches. It limits the pause that a server may ask for, too: client-go would wait an hour
// if a proxy asks for that, also after the agent has stopped.
func WithBounds(cfg *rest.Config, stopped <-chan struct{}) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.Timeout = 0
	cfg.QPS, cfg.Burst, cfg.RateLimiter = -1, 0, nil
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return &bounded{next: next, stopped: stopped} })
	cfg = kube.RetryWithin(cfg, requestTimeout)
	return kube.RelistAfterOutage(cfg) // a request that takes too long is an outage, too
}

// RoundTrip implements http.RoundTripper.
func (b *bounded) RoundTrip(request *http.Request) (*http.Response, error) {
	select {
	case <-b.stopped:
		return nil, ErrStopped
	default:
	}
	limit := requestTimeout
	if isStream(request) {
		asked, err := strconv.Atoi(request.URL.Query().Get("timeoutSeconds"))
		if err != nil {
			return b.next.RoundTrip(request)
		}
		limit += time.Duration(asked) * time.Second
	}
	ctx, cancel := context.WithTimeout(request.Context(), limit)
	response, err := b.next.RoundTrip(request.WithContext(ctx))
	if err != nil {
		cancel()
		return nil, err
	}
	response.Body = &bodyWithCancel{ReadCloser: response.Body, cancel: cancel}
	return response, nil
}

// isStream reports whether the answer to a request has no defined end.
func isStream(request *http.Request) bool {
	query := request.URL.Query()
	return query.Get("watch") == "true" || query.Get("follow") == "true"
}

// bodyWithCancel releases the timeout of a request when its answer is closed.
type bodyWithCancel struct {
	io.ReadCloser
	cancel context.CancelFunc
}

// Close implements io.Closer.
func (b *bodyWithCancel) Close() error {
	defer b.cancel()
	return b.ReadCloser.Close()
}
