// Package downstream copies the Secrets and ConfigMaps that a Bundle wants to have downstream into the namespaces of its
// clusters, where their agents can read them.
//
//	BundleDeployment: spec.options.downstreamResources ─┐
//	Secret, ConfigMap of the Bundle's namespace ────────┴─► copy beside the BundleDeployment ─► its generation + 1, and which
//	                                                                                         copies the agent knows of
//	                                                     ├► what is wrong ─► ledger ─► the Bundle's status
//	a Secret's copy that it does not name any more ──────┴► goes
//
// A BundleDeployment is believed only about what its Bundle asks for, where the Bundle may go: see asked. Kubeconfigs,
// tokens of accounts and Fleet's own Secrets are never copied, and what is no copy is never written.
//
// Originals are watched by name and version only, and read when one is to be copied. A cluster for which that fails
// has an error of its own, and is tried again when the original changes.
package downstream

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"

	"github.com/fleet-hub/fleet/internal/cmd/controller/bundles/index"
	"github.com/fleet-hub/fleet/internal/cmd/controller/bundles/queue"
	"github.com/fleet-hub/fleet/internal/cmd/controller/hub"
	"github.com/fleet-hub/fleet/internal/kube"
	"github.com/fleet-hub/fleet/internal/reconcile"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// byOriginal is the index of BundleDeployments by what they want copied, as original.String.
const byOriginal = "fleet.by-downstream-resource"

// notEverywhere leaves out the ConfigMap that every namespace has.
const notEverywhere = "metadata.name!=kube-root-ca.crt"

// Tell is told what is wrong with the copies of a BundleDeployment; nothing is, if the trouble is empty.
type Tell func(bd *fleet.BundleDeployment, trouble string)

type handler struct {
	app   *hub.Context
	queue *queue.Queue
	tell  Tell

	originals *originals
	done      *done
	refused   *refused
	// names lists what is in a namespace without its data.
	names metadata.Interface
}

// Register watches BundleDeployments and what they want copied.
func Register(ctx context.Context, a *hub.Context, tell Tell) error {
	names, err := metadata.NewForConfig(a.RESTConfig)
	if err != nil {
		return fmt.Errorf("building the client for the names of copies: %w", err)
	}
	h := &handler{app: a, tell: tell, originals: newOriginals(), done: newDone(), refused: newRefused(), names: names}
	h.queue = queue.New(queue.Options{Name: "downstream", Log: a.Log}, h.handle)
	h.addIndex()
	configMaps, err := kube.NamesInformer(a.RESTConfig, corev1.SchemeGroupVersion.WithResource("configmaps"), notEverywhere)
	if err != nil {
		return err
	}
	err = errors.Join(
		queue.Watch(a.BundleDeployments.Informer(), h.onDeployment),
		a.OnSecret(one, func(key types.NamespacedName) { h.wake(original{kindSecret, key}) }),
		queue.Watch(configMaps, h.onConfigMap),
		h.watchOthers(),
	)
	if err != nil {
		return err
	}
	go configMaps.RunWithContext(ctx)
	go h.queue.Run(ctx, a.Begun, a.BundleDeployments.Informer().HasSynced, configMaps.HasSynced, a.Bundles.Informer().HasSynced,
		a.Clusters.Informer().HasSynced, a.ClusterGroups.Informer().HasSynced, a.BundleNamespaceMappings.Informer().HasSynced,
		a.AllNamespaces.Informer().HasSynced)
	return nil
}

// addIndex puts the index by original on the cache.
func (h *handler) addIndex() {
	h.app.BundleDeployments.Cache().AddIndexer(byOriginal, func(bd *fleet.BundleDeployment) (keys []string, err error) {
		for _, original := range originalsOf(bd) {
			keys = append(keys, original.String())
		}
		return keys, nil
	})
}

func one(key types.NamespacedName) []types.NamespacedName { return []types.NamespacedName{key} }

// onDeployment asks for the copies of a BundleDeployment that is new, or wants others than before. One that has had
// copies may have some that it names no more: also one that this process has not seen before.
func (h *handler) onDeployment(change queue.Change[*fleet.BundleDeployment]) {
	older, newer := change.Old, change.New
	switch {
	case newer == nil:
		h.done.forget(older.UID)
		h.refused.forget(keyOf(older))
		h.tell(older, "")
	case older == nil || older.UID != newer.UID:
		had := newer.Spec.DownstreamResourcesGeneration > 0
		if had {
			h.done.doubt(newer.UID)
		}
		if had || len(newer.Spec.Options.DownstreamResources) > 0 {
			h.queue.Add(keyOf(newer))
		}
	case !equality.Semantic.DeepEqual(older.Spec.Options.DownstreamResources, newer.Spec.Options.DownstreamResources),
		older.Labels[fleet.LabelShardRef] != newer.Labels[fleet.LabelShardRef]: // nobody, or somebody else, has looked after it
		h.done.doubt(newer.UID)
		h.queue.Add(keyOf(newer))
	case claimOf(older) != claimOf(newer):
		h.queue.Add(keyOf(newer))
	}
}

func (h *handler) onConfigMap(change queue.Change[*metav1.PartialObjectMetadata]) {
	changed := change.New
	if changed == nil {
		changed = change.Old
	}
	if change.Old == nil || change.New == nil || change.Old.ResourceVersion != change.New.ResourceVersion {
		h.wake(original{kindConfigMap, keyOf(changed)})
	}
}

// wake asks for copies of what has changed.
func (h *handler) wake(changed original) {
	h.originals.forget(changed)
	h.wakeFor(changed)
	h.retry(func(bd types.NamespacedName, of claim) bool {
		return of.beside && bd.Namespace == changed.key.Namespace
	})
}

// wakeFor enqueues the BundleDeployments that want an original copied.
func (h *handler) wakeFor(changed original) {
	deployments, err := h.app.BundleDeployments.Cache().GetByIndex(byOriginal, changed.String())
	if err != nil {
		return // only without the index, which is there
	}
	for _, bd := range deployments {
		h.queue.Add(keyOf(bd))
	}
}

func (h *handler) handle(ctx context.Context, key types.NamespacedName) error {
	bd, err := reconcile.Optional(h.app.BundleDeployments.Cache().Get(key.Namespace, key.Name))
	if err != nil || bd == nil || bd.DeletionTimestamp != nil || !h.app.Owns(bd) {
		return err
	}
	pruned := h.prune(ctx, bd)
	of := claimOf(bd)
	of.beside = true
	h.refused.note(key, of) // before the others are looked at: what changes from now on counts
	asked, err := h.asked(bd)
	if errors.Is(err, errForged) {
		h.refuse(bd)
		return pruned
	}
	if err != nil {
		return errors.Join(pruned, err)
	}
	trouble, err := h.copyAll(ctx, bd, asked)
	h.tell(bd, trouble)
	if trouble == "" && containsAll(asked, originalsOf(bd)) {
		h.refused.forget(key)
	}
	if err == nil && h.done.compare(bd.UID) && untold(bd, h.done.versions(bd.UID)) {
		h.done.owe(bd.UID)
	}
	return errors.Join(pruned, err, h.tellAgent(bd))
}

// tellAgent has the agent look at the copies again, if one has changed since it was told last, and notes of which ones it
// knows then: whatever this process has not told when it ends is told by the next.
func (h *handler) tellAgent(bd *fleet.BundleDeployment) error {
	if !h.done.takeOwed(bd.UID) {
		return nil
	}
	there := h.done.versions(bd.UID).String()
	_, err := reconcile.Patch(h.app.BundleDeployments, bd, func(bd *fleet.BundleDeployment) {
		bd.Spec.DownstreamResourcesGeneration++
		metav1.SetMetaDataAnnotation(&bd.ObjectMeta, fleet.AnnotationCopiesTold, there)
	})
	if err != nil {
		h.done.owe(bd.UID)
	}
	return err
}

func containsAll(asked map[original]bool, wanted []original) bool {
	return !slices.ContainsFunc(wanted, func(o original) bool { return !asked[o] })
}

// copyAll makes the copies that the Bundle asks for, whatever becomes of the others. What it does not ask for, or not any
// more while a change is held back, stays as it is. The trouble is one that trying again does not heal.
func (h *handler) copyAll(ctx context.Context, bd *fleet.BundleDeployment, asked map[original]bool) (trouble string, err error) {
	for i, resource := range bd.Spec.Options.DownstreamResources {
		one, known := originalOf(bd, resource)
		failure := errKind
		if known && asked[one] {
			failure = h.copy(ctx, bd, one)
		}
		switch {
		case failure == nil, known && !asked[one]:
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

func keyOf(o metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
}

// originalOf is what a BundleDeployment wants copied: something in the namespace of its Bundle.
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
