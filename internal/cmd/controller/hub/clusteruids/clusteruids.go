package clusteruids

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/rancher/wrangler/v3/pkg/generic"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/fleet-hub/fleet/internal/kube/answers"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/reconcile"
	"github.com/fleet-hub/fleet/internal/rules/clusters"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

// byUID is the index of Namespaces by the recorded UID.
const byUID = "fleet.cluster-namespaces-by-system-uid"

// maxUID is the length of the longest UID that is recorded. Another cluster returns it.
const maxUID = 128

// NamespaceReader is what Read needs of a client for another cluster.
type NamespaceReader interface {
	NamespaceUID(ctx context.Context, name string) (types.UID, error)
}

// Read returns the UID of the namespace kube-system of a cluster. It returns "" for a cluster without that namespace or
// with an unusable UID.
func Read(ctx context.Context, cluster NamespaceReader) (types.UID, error) {
	uid, err := cluster.NamespaceUID(ctx, metav1.NamespaceSystem)
	if answers.IsDeleted(err) || len(uid) > maxUID {
		return "", nil
	}
	return uid, err
}

// Namespaces is what an Identities needs of the hub's Namespaces.
type Namespaces interface {
	Cache() generic.NonNamespacedCacheInterface[*corev1.Namespace]
	Patch(name string, pt types.PatchType, data []byte, subresources ...string) (*corev1.Namespace, error)
}

// Hub is what an Identities reads and writes. The functions are called at each use.
type Hub struct {
	Kube       func() kubernetes.Interface
	Namespaces func() Namespaces
	// Cluster returns a Cluster from the cache.
	Cluster func(namespace, name string) (*fleet.Cluster, error)
}

// Identities holds the identities of Clusters. Create it with New.
type Identities struct {
	hub Hub

	mu  sync.Mutex // guards the fields below
	own types.UID
	// noted contains what this process has read, which the cache of Namespaces may not have yet.
	noted map[types.NamespacedName]note
}

type note struct{ cluster, system types.UID }

// New returns Identities that know only what is recorded.
func New(hub Hub) *Identities {
	return &Identities{hub: hub, noted: map[types.NamespacedName]note{}}
}

// AddIndex adds the index that Holders uses to the cache of Namespaces, before it is filled.
func AddIndex(namespaces Namespaces) {
	namespaces.Cache().AddIndexer(byUID, func(namespace *corev1.Namespace) ([]string, error) {
		if uid := namespace.Annotations[annotation.SystemUID]; uid != "" {
			return []string{uid}, nil
		}
		return nil, nil
	})
}

// Own returns the UID of the hub's own cluster. It is read once.
func (i *Identities) Own(ctx context.Context) (types.UID, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.own != "" {
		return i.own, nil
	}
	own, err := i.hub.Kube().CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("reading the hub's own identity: %w", err)
	}
	i.own = own.UID
	return i.own, nil
}

// Note remembers the UID that was read for a Cluster.
func (i *Identities) Note(cluster *fleet.Cluster, system types.UID) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.noted[reconcile.KeyOf(cluster)] = note{cluster.UID, system}
}

// NoteFirst is Note for a UID that was read beside the import, whose own result is newer and stays.
func (i *Identities) NoteFirst(cluster *fleet.Cluster, system types.UID) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if known, is := i.noted[reconcile.KeyOf(cluster)]; !is || known.cluster != cluster.UID {
		i.noted[reconcile.KeyOf(cluster)] = note{cluster.UID, system}
	}
}

// Known reports whether the UID of a Cluster is recorded, or this process has tried to read it.
func (i *Identities) Known(cluster *fleet.Cluster) (bool, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if known, is := i.noted[reconcile.KeyOf(cluster)]; is && known.cluster == cluster.UID {
		return true, nil
	}
	uid, err := i.of(cluster)
	return uid != "", err
}

// Claim remembers the UID that was read for a Cluster, unless another Cluster has it already. It then returns that
// Cluster. Of two Clusters that claim a UID at the same time, one gets it.
func (i *Identities) Claim(cluster *fleet.Cluster, system types.UID) (other *fleet.Cluster, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	recorded, err := i.of(cluster)
	if err != nil {
		return nil, err
	}
	holders, err := i.holders(system)
	if err != nil {
		return nil, err
	}
	if holders = slices.DeleteFunc(holders, func(c *fleet.Cluster) bool { return reconcile.KeyOf(c) == reconcile.KeyOf(cluster) }); recorded != system && len(holders) > 0 {
		return holders[0], nil
	}
	i.noted[reconcile.KeyOf(cluster)] = note{cluster.UID, system}
	return nil, nil
}

// Forget removes what this process remembers of a Cluster that is gone.
func (i *Identities) Forget(cluster types.NamespacedName) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.noted, cluster)
}

// Of returns the UID of a Cluster, or "" if the hub has not read it.
func (i *Identities) Of(cluster *fleet.Cluster) (types.UID, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.of(cluster)
}

func (i *Identities) of(cluster *fleet.Cluster) (types.UID, error) {
	if known, is := i.noted[reconcile.KeyOf(cluster)]; is && known.cluster == cluster.UID {
		return known.system, nil
	}
	namespace, err := i.namespaceOf(cluster)
	if err != nil || namespace == nil {
		return "", err
	}
	return types.UID(namespace.Annotations[annotation.SystemUID]), nil
}

// Holders returns the Clusters with a UID, by namespace and name. Those that are being deleted do not count.
func (i *Identities) Holders(system types.UID) ([]*fleet.Cluster, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.holders(system)
}

func (i *Identities) holders(system types.UID) (found []*fleet.Cluster, err error) {
	if system == "" {
		return nil, nil
	}
	recorded, err := i.hub.Namespaces().Cache().GetByIndex(byUID, string(system))
	if err != nil {
		return nil, fmt.Errorf("looking up the clusters with UID %s: %w", system, err)
	}
	keys := map[types.NamespacedName]bool{}
	for _, namespace := range recorded {
		keys[clusterOf(namespace)] = true
	}
	for key, known := range i.noted {
		if known.system == system {
			keys[key] = true
		}
	}
	for key := range keys {
		cluster, err := reconcile.Optional(i.hub.Cluster(key.Namespace, key.Name))
		if err != nil {
			return nil, err
		}
		if cluster == nil || cluster.DeletionTimestamp != nil {
			continue
		}
		uid, err := i.of(cluster)
		if err != nil {
			return nil, err
		}
		if uid == system {
			found = append(found, cluster)
		}
	}
	slices.SortFunc(found, func(a, b *fleet.Cluster) int {
		return strings.Compare(reconcile.KeyOf(a).String(), reconcile.KeyOf(b).String())
	})
	return found, nil
}

// Persist writes the UID that was noted for a Cluster into an annotation of its namespace on the hub. It does nothing
// while the cache does not have that namespace.
func (i *Identities) Persist(cluster *fleet.Cluster) error {
	i.mu.Lock()
	known, is := i.noted[reconcile.KeyOf(cluster)]
	i.mu.Unlock()
	if !is || known.cluster != cluster.UID {
		return nil
	}
	namespace, err := i.namespaceOf(cluster)
	if err != nil || namespace == nil || namespace.Annotations[annotation.SystemUID] == string(known.system) {
		return err
	}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": namespace.ResourceVersion, // another namespace of this name is not changed
		"annotations":     map[string]any{annotation.SystemUID: annotationValue(known.system)},
	}})
	if err != nil {
		return fmt.Errorf("encoding a patch: %w", err)
	}
	_, err = i.hub.Namespaces().Patch(namespace.Name, types.MergePatchType, body)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // the cache does not have its last change yet, which is an event of the Cluster
	}
	if err != nil {
		return fmt.Errorf("recording the identity of cluster %s: %w", reconcile.KeyOf(cluster), err)
	}
	return nil
}

// annotationValue returns the value for a merge patch, which removes the annotation if the UID is empty.
func annotationValue(system types.UID) any {
	if system == "" {
		return nil
	}
	return string(system)
}

// namespaceOf returns the namespace that the hub made for a Cluster, or nil.
func (i *Identities) namespaceOf(cluster *fleet.Cluster) (*corev1.Namespace, error) {
	name := clusters.NamespaceOf(cluster)
	namespace, err := reconcile.Optional(i.hub.Namespaces().Cache().Get(name))
	if err != nil {
		return nil, fmt.Errorf("reading Namespace %s from the cache: %w", name, err)
	}
	if namespace == nil || namespace.DeletionTimestamp != nil || clusterOf(namespace) != reconcile.KeyOf(cluster) {
		return nil, nil
	}
	return namespace, nil
}

// clusterOf returns the Cluster that a namespace was made for, or the zero value.
func clusterOf(namespace *corev1.Namespace) types.NamespacedName {
	claim := types.NamespacedName{
		Namespace: namespace.Annotations[fleet.AnnotationClusterNamespace], Name: namespace.Annotations[fleet.AnnotationCluster],
	}
	if namespace.Labels[fleet.LabelManaged] != "true" || namespace.Name != names.ClusterNamespace(claim.Namespace, claim.Name) {
		return types.NamespacedName{}
	}
	return claim
}
