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
	credentials, from := target.auth.forURL(*address)
	client, err := newRegistry(ctx, credentials, into.Limits, from.Host)
	if err != nil {
		return err
	}
	reference, err := client.ValidateReference(from.String(), target.version, &from)
	if err != nil {
		return err
	}
	pulled, err := client.Pull(strings.TrimPrefix(reference.String(), schemeOCI))
	if err := client.received.check(err); err != nil {
		return err
	}
	return unpack.WriteTgz(bytes.NewReader(pulled.Chart.Data), into)
}

// limited is a client of registries that keeps all answers in memory, and the limit for all of them together.
type limited struct {
	*registry.Client
	received *budget
}

// newRegistry returns a client that sends user name and password only to the given hosts. A host may name another server
// that issues tokens.
func newRegistry(ctx context.Context, credentials Auth, limits unpack.Limits, hosts ...string) (limited, error) {
	transport, err := newTransport(credentials)
	if err != nil {
		return limited{}, err
	}
	allowed := map[string]bool{}
	for _, host := range hosts {
		allowed[host] = true
	}
	received := newBudget(limits.Memory)
	options := []registry.ClientOption{
		registry.ClientOptWriter(io.Discard),
		registry.ClientOptAuthorizer(auth.Client{
			Client: &http.Client{Timeout: requestTimeout, Transport: &carried{ctx, transport, received}},
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
	client, err := registry.NewClient(options...)
	return limited{client, received}, err
}

// budget is the number of bytes that may be received.
type budget struct {
	limit int64
	left  atomic.Int64
}

func newBudget(limit int64) *budget {
	b := &budget{limit: limit}
	b.left.Store(limit)
	return b
}

// spend returns an error if more than the limit has been received, with these bytes.
func (b *budget) spend(bytes int) error {
	if b.left.Add(-int64(bytes)) < 0 {
		return fmt.Errorf("more than %d bytes received", b.limit)
	}
	return nil
}

// check adds an exceeded limit to the client's error, unless the error names it. The client reads several answers at once,
// and may report that there is data beyond what the registry announced.
func (b *budget) check(err error) error {
	exceeded := b.spend(0)
	if err == nil || exceeded == nil || strings.Contains(err.Error(), exceeded.Error()) {
		return err
	}
	return fmt.Errorf("%w: %w", exceeded, err)
}

// carried applies a context and a limit to the requests of a client that knows neither.
type carried struct {
	ctx       context.Context //nolint:containedctx // Helm's client has no context
	transport http.RoundTripper
	received  *budget
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
		Reader: &shared{body, c.received},
		close:  func() error { defer stop(); defer cancel(nil); return body.Close() },
	}
	return response, nil
}

// shared is a reader that fails after it and others have read too many bytes.
type shared struct {
	from     io.Reader
	received *budget
}

// Read reads.
func (s *shared) Read(p []byte) (int, error) {
	n, err := s.from.Read(p)
	if exceeded := s.received.spend(n); exceeded != nil {
		return n, exceeded
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
