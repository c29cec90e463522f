package remote

import (
	"context"
	"net/netip"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/internal/cmd/env"
	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/kube"
	foreignkube "github.com/fleet-hub/fleet/internal/kube/foreign"
)

// Downstream is the API server of another cluster. Outside of tests it is a foreign.Client.
type Downstream interface {
	ServerVersion(ctx context.Context) (version.Info, error)
	NamespaceUID(ctx context.Context, name string) (types.UID, error)
	Find(ctx context.Context, into runtime.Object) (bool, error)
	List(ctx context.Context, namespace, selector string, into runtime.Object) error
	Apply(ctx context.Context, objs ...runtime.Object) error
	Remove(ctx context.Context, objs ...runtime.Object) error
	Replace(ctx context.Context, obj runtime.Object) error
	RemovePods(ctx context.Context, namespace, selector string) error
	Close()
}

// DialFunc builds a client from a user's kubeconfig, which trusts the CAs that the TLS mode allows. local is set for
// the hub's own Cluster, which may have any address. The errors are the sentinels of packages foreign and
// kubeconfig. It may send one request, but its success proves nothing: call ServerVersion.
type DialFunc func(ctx context.Context, kubeconfig []byte, tlsMode string, local bool) (Downstream, error)

// ForeignFunc returns the current options for using a kubeconfig.
type ForeignFunc func(local bool) foreignkube.Options

// ForeignOptions returns how kubeconfigs are used: those of the hub's own Cluster, which may be local, and all others,
// which must not lead into the hub's cluster.
func ForeignOptions(variables env.Controller, settings config.Config, local bool, now time.Time) foreignkube.Options {
	f := foreignkube.Options{
		Insecure: variables.AllowInsecureKubeconfigs, AnyAddress: local || settings.AllowLocalKubeconfigs, Refused: settings.RefusedNetworks(), Now: now,
	}
	if own, err := netip.ParseAddr(variables.ServiceHost); err == nil {
		f.Refused = append(f.Refused, netip.PrefixFrom(own, own.BitLen()))
	}
	return f
}

// Dialer returns the DialFunc for real downstream clusters. guard wraps the client configuration; it may be nil.
func Dialer(foreign ForeignFunc, guard func(*rest.Config) *rest.Config) DialFunc {
	return func(ctx context.Context, kubeconfig []byte, tlsMode string, local bool) (Downstream, error) {
		cfg, err := foreignkube.Config(kubeconfig, foreign(local))
		if err != nil {
			return nil, err
		}
		if tlsMode != config.TLSModeStrict { // strict mode uses the kubeconfig as it is, with or without a CA
			if cfg, err = kube.WithTLSMode(ctx, cfg, tlsMode); err != nil {
				return nil, err
			}
		}
		if guard != nil {
			cfg = guard(cfg)
		}
		return foreignkube.New(cfg)
	}
}

// Reacher returns the ReachFunc for real downstream clusters.
func Reacher(foreign ForeignFunc) ReachFunc {
	return func(ctx context.Context, kubeconfig []byte, connect time.Duration, local bool) error {
		cfg, err := foreignkube.Config(kubeconfig, foreign(local))
		if err != nil {
			return nil //nolint:nilerr // Dial reports it
		}
		return foreignkube.Reach(ctx, cfg, connect)
	}
}
