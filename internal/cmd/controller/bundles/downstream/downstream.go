package downstream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"

	"github.com/fleet-hub/fleet/internal/cmd/controller/bundles/index"
	"github.com/fleet-hub/fleet/internal/cmd/controller/bundles/queue"
	"github.com/fleet-hub/fleet/internal/cmd/controller/hub"
	"github.com/fleet-hub/fleet/internal/kube"
	"github.com/fleet-hub/fleet/internal/reconcile"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

// byOriginal is the index of BundleDeployments by the originals that they want copied, as original.String.
const byOriginal = "fleet.by-downstream-resource"

// notEverywhere excludes the ConfigMap that exists in every namespace.
const notEverywhere = "metadata.name!=kube-root-ca.crt"

// The number of BundleDeployments whose originals are copied concurrently, in all and for Clusters of one workspace: a tenant
// may have thousands of Clusters, and a Bundle with thousands of originals.
const workers, perWorkspace = 6, 4

// Report reports what is wrong with the copies of a BundleDeployment. The trouble is empty if nothing is wrong.
type Report func(bd *fleet.BundleDeployment, trouble string)

type handler struct {
	app    *hub.App
	queue  *queue.Queue
	report Report

	originals *originals
	copied    *copyRecords
	refusals  *refusals
	// restoreAfter is how long a copy that others have changed waits to be restored. Another client may change it again and again,
	// and the agent deploys the Bundle each time.
	restoreAfter time.Duration
	// names lists the objects of a namespace without their data.
	names metadata.Interface
}

// Register watches BundleDeployments and what they want copied.
func Register(ctx context.Context, a *hub.App, report Report) error {
	names, err := metadata.NewForConfig(a.RESTConfig)
	if err != nil {
		return fmt.Errorf("building the client for the names of copies: %w", err)
	}
	h := &handler{app: a, report: report, originals: newOriginals(), copied: newCopyRecords(), refusals: newRefusals(), restoreAfter: 10 * time.Second, names: names}
	h.queue = h.newQueue(h.handle)
	h.addIndex()
	configMaps, err := kube.NamesInformer(a.RESTConfig, corev1.SchemeGroupVersion.WithResource("configmaps"), notEverywhere)
	if err != nil {
		return err
	}
	err = errors.Join(
		reconcile.WatchChanges(a.BundleDeployments.Informer(), h.onDeployment),
		a.OnSecret(one, func(key types.NamespacedName) { h.onObject(original{kindSecret, key}, a.SecretVersion(key)) }),
		reconcile.WatchChanges(configMaps, h.onConfigMap),
		h.watchOthers(),
	)
	if err != nil {
		return err
	}
	go configMaps.RunWithContext(ctx)
	go h.queue.Run(ctx, a.MayReconcile, a.BundleDeployments.Informer().HasSynced, configMaps.HasSynced, a.Bundles.Informer().HasSynced,
		a.Clusters.Informer().HasSynced, a.ClusterGroups.Informer().HasSynced, a.BundleNamespaceMappings.Informer().HasSynced,
		a.AllNamespaces.Informer().HasSynced)
	return nil
}

func (h *handler) newQueue(handle queue.Handle) *queue.Queue {
	return queue.New(queue.Options{Name: "downstream", Workers: workers, PerWorkspace: perWorkspace, Workspace: h.workspace, Log: h.app.Log}, handle)
}

// workspace returns the workspace of the Cluster that a BundleDeployment is for. Its labels would not do: a tenant could name
// the workspace of another tenant in them.
func (h *handler) workspace(bd types.NamespacedName) string {
	clusters, err := h.app.Clusters.Cache().GetByIndex(index.ClustersByNamespace, bd.Namespace)
	if err != nil || len(clusters) == 0 {
		return bd.Namespace
	}
	return clusters[0].Namespace
}

// addIndex adds the index byOriginal to the cache.
func (h *handler) addIndex() {
	h.app.BundleDeployments.Cache().AddIndexer(byOriginal, func(bd *fleet.BundleDeployment) (keys []string, err error) {
		for _, original := range originalsOf(bd) {
			keys = append(keys, original.String())
		}
		return keys, nil
	})
}

func one(key types.NamespacedName) []types.NamespacedName { return []types.NamespacedName{key} }

// onDeployment enqueues a BundleDeployment that is new or whose downstreamResources have changed. If it has had copies
// before, some of them may have to be deleted, even if this process sees the BundleDeployment for the first time.
func (h *handler) onDeployment(change reconcile.Change[*fleet.BundleDeployment]) {
	older, newer := change.Old, change.New
	if older != nil && (newer == nil || older.UID != newer.UID) {
		h.forget(older)
	}
	switch {
	case newer == nil:
	case older == nil || older.UID != newer.UID:
		had := newer.Spec.DownstreamResourcesGeneration > 0
		if had {
			h.copied.search(newer.UID)
		}
		if had || len(newer.Spec.Options.DownstreamResources) > 0 {
			h.queue.Add(reconcile.KeyOf(newer))
		}
	case !equality.Semantic.DeepEqual(older.Spec.Options.DownstreamResources, newer.Spec.Options.DownstreamResources),
		older.Labels[fleet.LabelShardRef] != newer.Labels[fleet.LabelShardRef]: // this process has not handled it until now
		h.copied.search(newer.UID)
		h.queue.Add(reconcile.KeyOf(newer))
	case claimOf(older) != claimOf(newer):
		h.queue.Add(reconcile.KeyOf(newer))
	}
}

// forget drops everything that is known of a BundleDeployment that was deleted.
func (h *handler) forget(bd *fleet.BundleDeployment) {
	h.copied.forget(bd.UID)
	h.refusals.forget(reconcile.KeyOf(bd))
	h.report(bd, "")
}

// forgetDeleted forgets a BundleDeployment that was deleted while it was handled, after its event.
func (h *handler) forgetDeleted(bd *fleet.BundleDeployment) {
	found, err := reconcile.Optional(h.app.BundleDeployments.Cache().Get(bd.Namespace, bd.Name))
	if err == nil && (found == nil || found.UID != bd.UID) {
		h.forget(bd)
	}
}

func (h *handler) onConfigMap(change reconcile.Change[*metav1.PartialObjectMetadata]) {
	older, newer := change.Old, change.New
	switch {
	case newer == nil:
		h.onObject(original{kindConfigMap, reconcile.KeyOf(older)}, "")
	case older == nil || older.ResourceVersion != newer.ResourceVersion:
		h.onObject(original{kindConfigMap, reconcile.KeyOf(newer)}, newer.ResourceVersion)
	}
}

// onObject handles a change of an object that may be an original, a copy, or in the place of a copy. version is its resource
// version, or "" if it is gone.
func (h *handler) onObject(changed original, version string) {
	h.onOriginal(changed)
	deployments, err := h.app.BundleDeployments.Cache().List(changed.key.Namespace, labels.Everything())
	if err != nil {
		return // only if the cache has not started; nothing has been copied then
	}
	for _, bd := range deployments {
		if h.copied.isStale(bd.UID, changed.kind, changed.key.Name, version) {
			h.queue.AddAfter(reconcile.KeyOf(bd), h.restoreAfter)
		}
	}
}

// onOriginal enqueues the BundleDeployments that want this original copied, and those that were refused because of an object
// in its place.
func (h *handler) onOriginal(changed original) {
	h.originals.forget(changed)
	h.enqueueFor(changed)
	h.retry(func(bd types.NamespacedName, of claim) bool {
		return of.inNamespace && bd.Namespace == changed.key.Namespace
	})
}

// enqueueFor enqueues the BundleDeployments that want an original copied.
func (h *handler) enqueueFor(changed original) {
	deployments, err := h.app.BundleDeployments.Cache().GetByIndex(byOriginal, changed.String())
	if err != nil {
		return // only if the index is missing, which it is not
	}
	for _, bd := range deployments {
		h.queue.Add(reconcile.KeyOf(bd))
	}
}

func (h *handler) handle(ctx context.Context, key types.NamespacedName) error {
	bd, err := reconcile.Optional(h.app.BundleDeployments.Cache().Get(key.Namespace, key.Name))
	if err != nil || bd == nil || bd.DeletionTimestamp != nil || !h.app.Owns(bd) {
		return err
	}
	defer h.forgetDeleted(bd)
	pruned := h.prune(ctx, bd)
	of := claimOf(bd)
	of.inNamespace = true
	h.refusals.add(key, of) // noted before the other objects are read: later changes trigger a retry
	requested, err := h.requestedOriginals(bd)
	if errors.Is(err, errForged) {
		h.refuse(bd)
		return pruned
	}
	if err != nil {
		return errors.Join(pruned, err)
	}
	trouble, err := h.copyAll(ctx, bd, requested)
	h.report(bd, trouble)
	if trouble == "" && containsAll(requested, originalsOf(bd)) {
		h.refusals.forget(key)
	}
	if err == nil && h.copied.compare(bd.UID) && isUnreported(bd, h.copied.versions(bd.UID)) {
		h.copied.setChanged(bd.UID)
	}
	return errors.Join(pruned, err, h.notifyAgent(bd))
}

// notifyAgent makes the agent read the copies again if one of them has changed since the last time. It also records the
// versions of the copies that the agent knows, so that the next process can catch up if this one ends early.
func (h *handler) notifyAgent(bd *fleet.BundleDeployment) error {
	if !h.copied.takeChanged(bd.UID) {
		return nil
	}
	there := h.copied.versions(bd.UID).String()
	_, err := reconcile.Patch(h.app.BundleDeployments, bd, func(bd *fleet.BundleDeployment) {
		bd.Spec.DownstreamResourcesGeneration++
		metav1.SetMetaDataAnnotation(&bd.ObjectMeta, annotation.CopiesTold, there)
	})
	if err != nil {
		h.copied.setChanged(bd.UID)
	}
	return err
}

func containsAll(requested map[original]bool, wanted []original) bool {
	return !slices.ContainsFunc(wanted, func(o original) bool { return !requested[o] })
}

// copyAll copies what the Bundle asks for. An error with one copy does not stop the others. What the Bundle does not
// ask for, or no longer asks for while a change is held back, stays unchanged. trouble is an error that a retry does
// not fix.
func (h *handler) copyAll(ctx context.Context, bd *fleet.BundleDeployment, requested map[original]bool) (trouble string, err error) {
	for i, resource := range bd.Spec.Options.DownstreamResources {
		one, known := originalOf(bd, resource)
		failure := errKind
		if known && requested[one] {
			failure = h.copy(ctx, bd, one)
		}
		switch {
		case failure == nil, known && !requested[one]:
		case isTrouble(failure):
			if trouble == "" {
				trouble = fmt.Sprintf("downstreamResources[%d]: %s %s: %v", i, resource.Kind, resource.Name, failure)
			}
		default:
			err = errors.Join(err, fmt.Errorf("copying %s into %s: %w", one, bd.Namespace, failure))
		}
	}
	return trouble, err
}

// originalOf returns the original that an entry of downstreamResources names. It is in the namespace of the Bundle.
func originalOf(bd *fleet.BundleDeployment, resource fleet.DownstreamResource) (original, bool) {
	kind, known := kindOf(resource.Kind)
	bundle := index.BundleOf(bd)
	return original{kind, types.NamespacedName{Namespace: bundle.Namespace, Name: resource.Name}}, known && bundle.Namespace != "" && resource.Name != ""
}

func originalsOf(bd *fleet.BundleDeployment) (all []original) {
	for _, resource := range bd.Spec.Options.DownstreamResources {
		if one, known := originalOf(bd, resource); known {
			all = append(all, one)
		}
	}
	return all
}
