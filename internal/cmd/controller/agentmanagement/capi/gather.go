package capi

import (
	"context"
	"crypto/sha256"
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
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// gathered is what the rule decides from.
type gathered struct {
	capirule.Input

	// kubeconfig returns the kubeconfig for a job, or nil if the Secret has no valid one.
	kubeconfig func(context.Context) ([]byte, error)
}

// gather reads what the rule decides from. It sends a request only for a kubeconfig Secret that has changed.
func (h *handler) gather(ctx context.Context, clusters store, key types.NamespacedName) (gathered, error) {
	in := gathered{Input: capirule.Input{Now: h.app.Clock(), Key: key}}
	found, exists, err := clusters.GetByKey(key.String())
	if err != nil {
		return in, err
	}
	if exists {
		in.Cluster, _ = found.(*capirule.Cluster) // the watch stores nothing else
	} else {
		in.Last = h.lastOf(key)
	}
	secret, r := types.NamespacedName{Namespace: key.Namespace, Name: capirule.SecretName(key.Name)}, &reconcile.Reads{}
	in.Fleet = reconcile.Get(r, h.app.Clusters.Cache(), key.Namespace, key.Name)
	in.SameSecret = reconcile.ByIndex(r, h.app.Clusters.Cache(), hub.ClustersByKubeconfig, secret.String())
	if r.Err != nil || in.Cluster == nil {
		return in, r.Err
	}
	if capirule.IsMarked(in.Fleet) {
		if in.Recorded, err = h.app.Identities.Of(in.Fleet); err != nil {
			return in, err
		}
	}
	if in.Selected, err = h.selects(h.app.Config.Get().CAPI, in.Cluster); err != nil {
		return in, err
	}
	if in.GroupTaken, err = h.isGroupTaken(in.Cluster); err != nil || !capirule.NeedsSecret(in.Input) {
		return in, err
	}
	if err := h.gatherSecret(ctx, &in, secret); err != nil {
		return in, err
	}
	if err := h.gatherIdentity(&in); err != nil {
		return in, err
	}
	return in, h.gatherUnknown(&in)
}

// isGroupTaken reports whether the ClusterGroup of a Cluster's ClusterClass was created by a user.
func (h *handler) isGroupTaken(cluster *capirule.Cluster) (bool, error) {
	id := cluster.Labels[fleet.LabelCAPIClass]
	if id == "" {
		return false, nil
	}
	group, err := reconcile.Optional(h.app.ClusterGroups.Cache().Get(cluster.Namespace, id))
	return capirule.DecideGroup(true, group) == capirule.GroupTaken, err
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

// gatherSecret adds what the rule needs of a kubeconfig Secret. It reads the Secret if the watched version is not the
// known one.
func (h *handler) gatherSecret(ctx context.Context, in *gathered, name types.NamespacedName) error {
	in.kubeconfig = func(ctx context.Context) ([]byte, error) { return h.kubeconfigIn(ctx, name) }
	version := h.version(name)
	if version == "" {
		return nil // its creation is an event
	}
	h.mu.Lock()
	known := h.secrets[in.Key]
	h.mu.Unlock()
	if known.version == version {
		in.Secret = known.secret
		return nil
	}
	found, err := reconcile.Optional(h.app.Kube.CoreV1().Secrets(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{}))
	if err != nil || found == nil {
		return err
	}
	kubeconfig := found.Data[protocol.KubeconfigValueKey]
	from, until := kubeconfigs.ValidityOf(kubeconfig)
	known = knownSecret{found.ResourceVersion, capirule.ReadSecret(found, capirule.Validity{From: from, Until: until}), kubeconfigs.AddressHash(kubeconfig), sha256.Sum256(kubeconfig)}
	h.mu.Lock()
	h.secrets[in.Key] = known
	h.mu.Unlock()
	in.Secret, in.kubeconfig = known.secret, func(context.Context) ([]byte, error) { return kubeconfig, nil }
	return nil
}

func (h *handler) kubeconfigIn(ctx context.Context, name types.NamespacedName) ([]byte, error) {
	found, err := reconcile.Optional(h.app.Kube.CoreV1().Secrets(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{}))
	if err != nil || found == nil {
		return nil, err
	}
	return found.Data[protocol.KubeconfigValueKey], nil
}
