package kube

import (
	"net/http"

	"k8s.io/client-go/rest"
)

// sending handles a request, usually by passing it on to next.
type sending func(next http.RoundTripper, request *http.Request) (*http.Response, error)

// WrapTransport returns a copy of cfg whose requests are handled by send.
func WrapTransport(cfg *rest.Config, send sending) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return roundTripper{next, send} })
	return cfg
}

type roundTripper struct {
	next http.RoundTripper
	send sending
}

func (r roundTripper) RoundTrip(request *http.Request) (*http.Response, error) {
	return r.send(r.next, request)
}

// WrappedRoundTripper lets callers close idle connections.
func (r roundTripper) WrappedRoundTripper() http.RoundTripper { return r.next }
