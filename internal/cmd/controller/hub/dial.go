package hub

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/remote"
	"github.com/fleet-hub/fleet/internal/kube"
	foreignkube "github.com/fleet-hub/fleet/internal/kube/foreign"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/reconcile"
	clusterrule "github.com/fleet-hub/fleet/internal/rules/clusters"
	"github.com/fleet-hub/fleet/internal/rules/importing"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Downstream is the API server of another cluster. Outside of tests it is a kube.Downstream.
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
// the hub's own Cluster, which may have any address. The errors are the sentinels of package kube. It may send one
// request, but its success proves nothing: call ServerVersion.
type DialFunc func(ctx context.Context, kubeconfig []byte, tlsMode string, local bool) (Downstream, error)

// ReachFunc checks whether the address in a user's kubeconfig accepts connections within connect. See kube.Reach. An
// invalid kubeconfig is not an error here: Dial reports it.
type ReachFunc = remote.ReachFunc

// ForeignFunc returns the current options for using a kubeconfig.
type ForeignFunc func(local bool) foreignkube.Options

// Dialer returns the DialFunc for real downstream clusters. guard wraps the client configuration; it may be nil.
func Dialer(foreign ForeignFunc, guard func(*rest.Config) *rest.Config) DialFunc {
	return func(ctx context.Context, kubeconfig []byte, tlsMode string, local bool) (Downstream, error) {
		cfg, err := foreignkube.Config(kubeconfig, foreign(local))
		if err != nil {
			return nil, err
		}
		if tlsMode != kube.TLSModeStrict { // strict mode uses the kubeconfig as it is, with or without a CA
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

// addRemote prepares the work on other clusters, which begins with Start.
func (a *Context) addRemote() {
	a.Remote = remote.NewScheduler(a.Clock, func(ctx context.Context, kubeconfig []byte, connect time.Duration, local bool) error {
		return a.Reach(ctx, kubeconfig, connect, local)
	})
	a.Probes = remote.NewProbes(a.Remote, remote.Options{
		Kubeconfig: a.usableKubeconfig,
		IsLocal:    func(c *fleet.Cluster) bool { return clusterrule.IsLocal(c, a.Config.Get().Bootstrap) },
		Enqueue:    func(namespace, name string) { a.Clusters.EnqueueAfter(namespace, name, 0) },
	})
	a.First(func(ctx context.Context) { go a.Remote.Run(ctx) })
}

// usableKubeconfig returns the kubeconfig that a Cluster names, or nil if there is none that it may use.
func (a *Context) usableKubeconfig(ctx context.Context, cluster *fleet.Cluster) ([]byte, error) {
	name := importing.KubeconfigSecret(cluster)
	secret, err := reconcile.Optional(a.Kube.CoreV1().Secrets(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{}))
	if err != nil || secret == nil {
		return nil, err
	}
	if refused, _ := importing.KubeconfigRefused(cluster, secret, a.Config.Get()); refused != "" {
		return nil, nil
	}
	return secret.Data[protocol.KubeconfigValueKey], nil
}
