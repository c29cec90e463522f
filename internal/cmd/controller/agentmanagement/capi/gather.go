package capi

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub"
	"github.com/fleet-hub/fleet/internal/config"
	kubeconfigs "github.com/fleet-hub/fleet/internal/kube/kubeconfig"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/reconcile"
	capirule "github.com/fleet-hub/fleet/internal/rules/capi"
)

// gather reads what the rule decides from. It sends a request only for a kubeconfig Secret that has changed.
func (h *handler) gather(ctx context.Context, clusters store, key types.NamespacedName) (capirule.Input, error) {
	in := capirule.Input{Now: h.app.Clock(), Key: key}
	found, exists, err := clusters.GetByKey(key.String())
	if err != nil {
		return in, err
	}
	if exists {
		in.Cluster, _ = found.(*capirule.Cluster) // the watch stores nothing else
	} else {
		in.Last = h.lastOf(key)
	}
	if in.Fleet, err = reconcile.Optional(h.app.Clusters.Cache().Get(key.Namespace, key.Name)); err != nil {
		return in, err
	}
	secret := types.NamespacedName{Namespace: key.Namespace, Name: capirule.SecretName(key.Name)}
	if in.SameSecret, err = h.app.Clusters.Cache().GetByIndex(hub.ClustersByKubeconfig, secret.String()); err != nil {
		return in, err
	}
	if in.Cluster == nil {
		return in, nil
	}
	if in.Selected, err = h.selects(h.app.Config.Get().CAPI, in.Cluster); err != nil {
		return in, err
	}
	if capirule.NeedsSecret(in) {
		in.Secret, err = h.secret(ctx, key, secret)
	}
	return in, err
}

func (h *handler) lastOf(key types.NamespacedName) *capirule.Cluster {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.gone[key]
}

// selects reports whether the configuration selects a Cluster of Cluster API. It selects none in a namespace that the
// cache does not have yet, which is an event when it does.
func (h *handler) selects(conf config.CAPI, cluster *capirule.Cluster) (bool, error) {
	namespaces, err := metav1.LabelSelectorAsSelector(&conf.NamespaceSelector)
	if err != nil {
		return false, fmt.Errorf("capi.namespaceSelector: %w", err)
	}
	clusters, err := metav1.LabelSelectorAsSelector(&conf.ClusterSelector)
	if err != nil {
		return false, fmt.Errorf("capi.clusterSelector: %w", err)
	}
	namespace, err := reconcile.Optional(h.app.AllNamespaces.Cache().Get(cluster.Namespace))
	if err != nil || namespace == nil {
		return false, err
	}
	return namespaces.Matches(labels.Set(namespace.Labels)) && clusters.Matches(labels.Set(cluster.Selectable)), nil
}

// secret returns what the rule needs of a kubeconfig Secret. It reads the Secret if the watched version is not the known
// one.
func (h *handler) secret(ctx context.Context, key, name types.NamespacedName) (capirule.Secret, error) {
	version := h.version(name)
	if version == "" {
		return capirule.Secret{}, nil // its creation is an event
	}
	h.mu.Lock()
	known := h.secrets[key]
	h.mu.Unlock()
	if known.version == version {
		return known.secret, nil
	}
	found, err := reconcile.Optional(h.app.Kube.CoreV1().Secrets(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{}))
	if err != nil || found == nil {
		return capirule.Secret{}, err
	}
	from, until := kubeconfigs.ValidityOf(found.Data[protocol.KubeconfigValueKey])
	known = knownSecret{found.ResourceVersion, capirule.ReadSecret(found, capirule.Validity{From: from, Until: until})}
	h.mu.Lock()
	h.secrets[key] = known
	h.mu.Unlock()
	return known.secret, nil
}
