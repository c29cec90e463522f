package capi

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/remote"
	"github.com/fleet-hub/fleet/internal/reconcile"
	capirule "github.com/fleet-hub/fleet/internal/rules/capi"
	"github.com/fleet-hub/fleet/internal/rules/clusters"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// gatherUnknown adds the Clusters that users imported in the same workspace and of which no import has recorded which
// cluster they are: those of earlier releases, and those whose import has not come that far.
func (h *handler) gatherUnknown(in *gathered) error {
	if in.Fleet != nil && capirule.IsMarked(in.Fleet) || in.Identity.UID == "" {
		return nil
	}
	all, err := h.app.Clusters.Cache().List(in.Key.Namespace, labels.Everything())
	if err != nil {
		return fmt.Errorf("listing Clusters: %w", err)
	}
	for _, cluster := range all {
		if cluster.Spec.KubeConfigSecret == "" || cluster.DeletionTimestamp != nil || capirule.IsMarked(cluster) || clusters.IsLocal(cluster, h.app.Config.Get().Bootstrap) {
			continue
		}
		known, err := h.app.Identities.Known(cluster)
		if err != nil {
			return err
		}
		if !known {
			in.Unknown = append(in.Unknown, cluster)
		}
	}
	return nil
}

// identifyUnknown asks the clusters of such imports which ones they are, in the background. Each is asked once by a
// process, and one that does not answer counts as another cluster.
func (h *handler) identifyUnknown(in gathered) {
	for _, cluster := range in.Unknown {
		key := reconcile.KeyOf(cluster)
		h.mu.Lock()
		asked := h.asking[key]
		h.asking[key] = true
		h.mu.Unlock()
		if asked {
			continue
		}
		h.submit(remote.Job{
			Workspace:  key.Namespace,
			Kubeconfig: func(ctx context.Context) ([]byte, error) { return h.app.Probes.Kubeconfig(ctx, cluster) },
			Do:         func(ctx context.Context, kubeconfig []byte, err error) { h.identified(ctx, cluster, kubeconfig, err) },
		})
	}
}

// identified asks the cluster of an import, records the answer, and enqueues the Clusters that wait for it.
func (h *handler) identified(ctx context.Context, cluster *fleet.Cluster, kubeconfig []byte, err error) {
	key, identity := reconcile.KeyOf(cluster), capirule.Identity{}
	if err == nil && kubeconfig != nil {
		identity, err = h.ask(ctx, kubeconfig)
	}
	if err != nil {
		h.app.Log.Info("reading the UID of kube-system in an imported cluster failed", "cluster", key.String(), "error", err)
	}
	h.app.Identities.NoteFirst(cluster, identity.UID)
	if err := h.app.Identities.Persist(cluster); err != nil {
		h.app.Log.Warn("recording an identity failed", "cluster", key.String(), "error", err) // the import tries again
	}
	h.mu.Lock()
	delete(h.asking, key)
	h.mu.Unlock()
	for _, waiting := range h.watch.keysIn(cluster.Namespace) {
		h.enqueue(waiting)
	}
}
