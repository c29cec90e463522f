package charts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"

	"helm.sh/helm/v3/pkg/registry"
	"oras.land/oras-go/v2/registry/remote/auth"

	"github.com/fleet-hub/fleet/internal/pack/charts/unpack"
)

const schemeOCI = "oci://"

// isOCI reports whether an address belongs to an OCI registry.
func isOCI(text string) bool { return strings.HasPrefix(text, schemeOCI) }

// pull unpacks a chart of an OCI registry.
func pull(ctx context.Context, target target, into *unpack.Sink) error {
	address, err := url.Parse(target.text)
	if err != nil || address.Host == "" {
		return errors.New("the address is not a valid OCI reference")
	}
	credentials := target.auth
	if address.User != nil {
		credentials.Username = address.User.Username()
		credentials.Password, _ = address.User.Password()
		address.User = nil
	}
	client, err := newRegistry(ctx, credentials, into.Limits, address.Host)
	if err != nil {
		return err
	}
	reference, err := client.ValidateReference(address.String(), target.version, address)
	if err != nil {
		return err
	}
	pulled, err := client.Pull(strings.TrimPrefix(reference.String(), schemeOCI))
	if err != nil {
		return err
	}
	return unpack.WriteTgz(bytes.NewReader(pulled.Chart.Data), into)
}

// newRegistry returns a client that sends user name and password only to the given hosts. A host may name another server
// that issues tokens.
func newRegistry(ctx context.Context, credentials Auth, limits unpack.Limits, hosts ...string) (*registry.Client, error) {
	transport, err := newTransport(credentials)
	if err != nil {
		return nil, err
	}
	allowed := map[string]bool{}
	for _, host := range hosts {
		allowed[host] = true
	}
	left := &atomic.Int64{}
	left.Store(limits.Memory)
	options := []registry.ClientOption{
		registry.ClientOptWriter(io.Discard),
		registry.ClientOptAuthorizer(auth.Client{
			Client: &http.Client{Timeout: requestTimeout, Transport: &carried{ctx, transport, limits.Memory, left}},
			Cache:  auth.NewCache(),
			Credential: func(_ context.Context, host string) (auth.Credential, error) {
				if !allowed[host] || credentials.Username == "" && credentials.Password == "" {
					return auth.EmptyCredential, nil
				}
				return auth.Credential{Username: credentials.Username, Password: credentials.Password}, nil
			},
		}),
	}
	if credentials.BasicHTTP {
		options = append(options, registry.ClientOptPlainHTTP())
	}
	return registry.NewClient(options...)
}

// carried applies a context and a limit to the requests of a client that knows neither. The client keeps all answers in
// memory, so the limit is for all of them together.
type carried struct {
	ctx       context.Context //nolint:containedctx // Helm's client has no context
	transport http.RoundTripper
	limit     int64
	left      *atomic.Int64
}

// RoundTrip sends a request.
func (c *carried) RoundTrip(request *http.Request) (*http.Response, error) {
	if err := c.ctx.Err(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(request.Context())
	stop := context.AfterFunc(c.ctx, func() { cancel(context.Cause(c.ctx)) })
	response, err := c.transport.RoundTrip(request.WithContext(ctx))
	if err != nil {
		stop()
		cancel(nil)
		return nil, err
	}
	body := response.Body
	response.Body = &closing{
		Reader: &shared{body, c.left, c.limit},
		close:  func() error { defer stop(); defer cancel(nil); return body.Close() },
	}
	return response, nil
}

// shared is a reader that fails after it and others have read too many bytes.
type shared struct {
	from  io.Reader
	left  *atomic.Int64
	limit int64
}

// Read reads.
func (s *shared) Read(p []byte) (int, error) {
	n, err := s.from.Read(p)
	if s.left.Add(-int64(n)) < 0 {
		return n, fmt.Errorf("more than %d bytes received", s.limit)
	}
	return n, err
}

// closing is a body with its own way to close.
type closing struct {
	io.Reader
	close func() error
}

// Close closes the body.
func (c *closing) Close() error { return c.close() }
