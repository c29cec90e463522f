package deploy

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"k8s.io/client-go/rest"
)

// requestTimeout bounds one request that is no watch.
const requestTimeout = 30 * time.Second

// errStopped means that this agent is no longer the one to act.
var errStopped = errors.New("the agent is stopping")

// bounded is a transport that ends requests in time and refuses them all once the agent has stopped. A watch has the
// time that it asks the server for, and one request's more: a server, or something before it, that forgot about it
// would leave it silent for ever. Helm's operations know no context: cutting them off here leaves behind what a killed process
// would leave, and the next start goes on from there.
type bounded struct {
	next    http.RoundTripper
	stopped <-chan struct{}
}

// withBounds returns a copy of cfg whose clients are bounded. Its own timeout is taken off, since client-go
// counts a watch as one request.
func withBounds(cfg *rest.Config, stopped <-chan struct{}) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.Timeout = 0
	cfg.QPS, cfg.Burst, cfg.RateLimiter = -1, 0, nil
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return &bounded{next: next, stopped: stopped} })
	return cfg
}

// RoundTrip implements http.RoundTripper.
func (b *bounded) RoundTrip(request *http.Request) (*http.Response, error) {
	select {
	case <-b.stopped:
		return nil, errStopped
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

// isStream tells requests whose answer has no end of its own.
func isStream(request *http.Request) bool {
	query := request.URL.Query()
	return query.Get("watch") == "true" || query.Get("follow") == "true"
}

// bodyWithCancel frees the timeout of a request when its answer was read.
type bodyWithCancel struct {
	io.ReadCloser
	cancel context.CancelFunc
}

// Close implements io.Closer.
func (b *bodyWithCancel) Close() error {
	defer b.cancel()
	return b.ReadCloser.Close()
}
