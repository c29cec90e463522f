package hub

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/internal/kube"
	foreignkube "github.com/fleet-hub/fleet/internal/kube/foreign"
)

// Downstream is another cluster's API server; see kube.Downstream, which it is outside of tests.
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

// DialFunc leads from a user's kubeconfig to that cluster, trusting what the TLS mode says. Local is the hub's own
// Cluster, which may be anywhere. The errors are the sentinels of package kube. It may send one request; nothing is
// proven by its success (ask ServerVersion).
type DialFunc func(ctx context.Context, kubeconfig []byte, tlsMode string, local bool) (Downstream, error)

// ReachFunc asks whether anybody answers where a user's kubeconfig leads, waiting for the connection as long as connect
// says; see kube.Reach. A kubeconfig that cannot be used is no error here: Dial says what is wrong with it.
type ReachFunc func(ctx context.Context, kubeconfig []byte, connect time.Duration, local bool) error

// ForeignFunc says how a kubeconfig is used now.
type ForeignFunc func(local bool) foreignkube.Options

// Dialer is the way to downstream clusters outside of tests. guard is put on the way; nil: nothing is.
func Dialer(foreign ForeignFunc, guard func(*rest.Config) *rest.Config) DialFunc {
	return func(ctx context.Context, kubeconfig []byte, tlsMode string, local bool) (Downstream, error) {
		cfg, err := foreignkube.Config(kubeconfig, foreign(local))
		if err != nil {
			return nil, err
		}
		if tlsMode != kube.TLSModeStrict { // which takes the kubeconfig at its word, with a CA or without
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

// Reacher asks downstream clusters outside of tests whether they are there.
func Reacher(foreign ForeignFunc) ReachFunc {
	return func(ctx context.Context, kubeconfig []byte, connect time.Duration, local bool) error {
		cfg, err := foreignkube.Config(kubeconfig, foreign(local))
		if err != nil {
			return nil //nolint:nilerr // Dial tells it
		}
		return foreignkube.Reach(ctx, cfg, connect)
	}
}
