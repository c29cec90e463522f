package foreign

import (
	"context"
	"errors"
	"net"
	"sync/atomic"

	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/kube"
)

// HubCA does the same as kube.CAFor for the hub's URL in a user's kubeconfig Secret. It connects only to addresses that
// the user's kubeconfigs may lead to. For any other it returns ErrHubAddress, unless the mode needs no connection.
func (f Options) HubCA(ctx context.Context, cfg *rest.Config, mode string, rooted bool) ([]byte, error) {
	base, _, err := rest.DefaultServerUrlFor(cfg)
	connects := err == nil && mode == config.TLSModeSystemStore && len(cfg.CAData) > 0
	if !connects || f.AnyAddress {
		return kube.CAFor(ctx, cfg, mode, rooted)
	}
	cfg = rest.CopyConfig(cfg)
	if err := f.restrict(cfg, base); err != nil {
		return nil, ErrHubAddress
	}
	// CAFor treats every error as an untrusted certificate and would keep the CA after a refused connection.
	var refused atomic.Bool
	if dial := cfg.Dial; dial != nil {
		cfg.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			connection, err := dial(ctx, network, address)
			if errors.Is(err, ErrKubeconfigAddress) {
				refused.Store(true)
			}
			return connection, err
		}
	}
	ca, err := kube.CAFor(ctx, cfg, mode, rooted)
	if refused.Load() {
		return nil, ErrHubAddress
	}
	return ca, err
}
