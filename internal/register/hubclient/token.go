package hubclient

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/internal/kube"
	"github.com/fleet-hub/fleet/internal/protocol"
)

// RequestToken requests a token with the wanted lifetime. A hub may deny it, as while it changes that lifetime. Then the
// lifetime of the current token is tried, and then shorter ones, down to the minimum of the TokenRequest API.
func RequestToken(ctx context.Context, hub Hub, of protocol.Renewal, wanted time.Duration) (string, error) {
	for lifetime := max(wanted, protocol.MinTokenLifetime); ; {
		token, err := hub.Renew(ctx, of.Namespace, of.Account, lifetime)
		if !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) || lifetime == protocol.MinTokenLifetime {
			return token, err
		}
		shorter := lifetime / 2
		if lifetime > of.Lifetime {
			shorter = of.Lifetime
		}
		lifetime = max(shorter, protocol.MinTokenLifetime)
	}
}

// UseToken returns a copy of cfg whose clients send the token that current holds at the time of the request. Without one,
// they send the token of cfg.
func UseToken(cfg *rest.Config, current *atomic.Pointer[string]) *rest.Config {
	return kube.WrapTransport(cfg, func(next http.RoundTripper, request *http.Request) (*http.Response, error) {
		if token := current.Load(); token != nil {
			request = request.Clone(request.Context())
			request.Header.Set("Authorization", "Bearer "+*token)
		}
		return next.RoundTrip(request)
	})
}
