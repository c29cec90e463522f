package reconcile

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// bySetIndex is the name of the index that finds the members of a set in a cache.
const bySetIndex = "fleet.by-set"

// Client is the part of a controller that children need: its cache and its requests. The controllers of wrangler's
// generic package implement it. For controllers of cluster-scoped objects, see ClusterKind.
type Client[T Object] interface {
	Patcher[T]
	GroupVersionKind() schema.GroupVersionKind
	Informer() cache.SharedIndexInformer
	Create(T) (T, error)
	Delete(namespace, name string, options *metav1.DeleteOptions) error
}

// ClusterClient is Client for cluster-scoped objects.
type ClusterClient[T Object] interface {
	GroupVersionKind() schema.GroupVersionKind
	Informer() cache.SharedIndexInformer
	Create(T) (T, error)
	Get(name string, options metav1.GetOptions) (T, error)
	Patch(name string, pt types.PatchType, data []byte, subresources ...string) (T, error)
	Delete(name string, options *metav1.DeleteOptions) error
}

// Kind describes one kind of children: where to find them and how to write them.
type Kind struct {
	gvk       schema.GroupVersionKind
	goType    reflect.Type
	informer  cache.SharedIndexInformer
	live      func(namespace, name string) (Object, error)
	create    func(Object) error
	patch     func(namespace, name string, body []byte) error
	written   *MutationCache[types.NamespacedName, Object]
	remove    func(namespace, name string, options *metav1.DeleteOptions) error
	owned     []path
	drops     []string
	tracks    bool
	keepAlive bool
	keeps     func(Object) bool
	adopts    func(Object) bool
}

// A path names a field that we own completely.
type path []string

// KindOf returns a Kind for a namespaced controller and indexes the controller's cache by set. Call it before the
// caches start.
func KindOf[T Object](client Client[T]) Kind {
	return newKind(client.GroupVersionKind(), client.Informer(), verbs[T]{
		create: client.Create, get: client.Get, patch: client.Patch, remove: client.Delete,
	})
}

// ClusterKind is KindOf for cluster-scoped objects.
func ClusterKind[T Object](client ClusterClient[T]) Kind {
	return newKind(client.GroupVersionKind(), client.Informer(), verbs[T]{
		create: client.Create,
		get:    func(_, name string, o metav1.GetOptions) (T, error) { return client.Get(name, o) },
		patch: func(_, name string, pt types.PatchType, data []byte, sub ...string) (T, error) {
			return client.Patch(name, pt, data, sub...)
		},
		remove: func(_, name string, o *metav1.DeleteOptions) error { return client.Delete(name, o) },
	})
}

// Owning limits the fields that we own in a child to these, written like "spec.agentNamespace". Another controller
// owns the others. Of a child's labels and annotations, we always own only those of the desired object.
func (k Kind) Owning(fields ...string) Kind {
	k.owned = nil
	for _, field := range fields {
		k.owned = append(k.owned, strings.Split(field, "."))
	}
	return k
}

// Dropping removes these annotations from a child that has them.
func (k Kind) Dropping(annotations ...string) Kind {
	k.drops = annotations
	return k
}

// TrackingLabels removes labels that are no longer desired. To know which were ours, it keeps their keys in an
// annotation (AnnotationLabelKeys).
func (k Kind) TrackingLabels() Kind {
	k.tracks = true
	return k
}

// NeverPruned keeps children that leave the set. Use it for namespaces, which may contain objects of others.
func (k Kind) NeverPruned() Kind {
	k.keepAlive = true
	return k
}

// Keeping keeps unwanted members of the set for which keeps returns true, as long as the owner has any children. Use
// it for objects that Rancher Fleet created and still needs.
func (k Kind) Keeping(keeps func(Object) bool) Kind {
	k.keeps = keeps
	return k
}

type verbs[T Object] struct {
	create func(T) (T, error)
	get    func(namespace, name string, options metav1.GetOptions) (T, error)
	patch  func(namespace, name string, pt types.PatchType, data []byte, subresources ...string) (T, error)
	remove func(namespace, name string, options *metav1.DeleteOptions) error
}

func newKind[T Object](gvk schema.GroupVersionKind, informer cache.SharedIndexInformer, v verbs[T]) Kind {
	index(informer)
	written := &MutationCache[types.NamespacedName, Object]{}
	return Kind{
		written:  written,
		gvk:      gvk,
		goType:   reflect.TypeFor[T](),
		informer: informer,
		owned:    ownedFields(gvk.Kind),
		live: func(namespace, name string) (Object, error) {
			found, err := Optional(v.get(namespace, name, metav1.GetOptions{}))
			if err != nil || isNil(found) {
				return nil, err
			}
			return found, nil
		},
		create: func(obj Object) error {
			typed, ok := obj.(T)
			if !ok {
				return fmt.Errorf("creating a %s: unsupported object type %T", gvk.Kind, obj)
			}
			made, err := v.create(typed)
			if err == nil {
				written.Note(KeyOf(made), made, nil, now())
			}
			return err
		},
		patch: func(namespace, name string, body []byte) error {
			before, err := inCache(informer, types.NamespacedName{Namespace: namespace, Name: name})
			if err != nil {
				return err
			}
			patched, err := v.patch(namespace, name, types.MergePatchType, body)
			if err == nil {
				written.Note(KeyOf(patched), patched, before, now())
			}
			return err
		},
		remove: v.remove,
	}
}

// index adds the index by set, unless it exists already.
func index(informer cache.SharedIndexInformer) {
	if _, done := informer.GetIndexer().GetIndexers()[bySetIndex]; done {
		return
	}
	err := informer.AddIndexers(cache.Indexers{bySetIndex: func(obj any) ([]string, error) {
		item, ok := obj.(Object)
		if !ok || item.GetLabels()[fleet.LabelSetHash] == "" {
			return nil, nil
		}
		return []string{item.GetLabels()[fleet.LabelSetHash]}, nil
	}})
	if err != nil {
		panic(fmt.Sprintf("indexing after the caches have started: %v", err)) // a programming error
	}
}

// Known returns an object from the cache or from the recent writes. It returns nil if it is in neither.
func (k Kind) Known(key types.NamespacedName) (Object, error) {
	passed := k.informer.GetIndexer().LastStoreSyncResourceVersion() // read first: the cache may change in between
	if passed == "" {                                                // client-go's feature gate AtomicFIFO is off
		passed = k.informer.LastSyncResourceVersion()
	}
	cached, err := inCache(k.informer, key)
	if err != nil {
		return nil, err
	}
	newest := k.written.Newest(key, cached, now())
	if cached == nil && newest != nil && !isAhead(newest.GetResourceVersion(), passed) {
		return nil, nil // the cache has passed the write, so the object was deleted
	}
	return newest, nil
}

// isAhead reports whether a cache has not reached a written version. passed is the cache's version, or "" if it has never
// had an object.
func isAhead(written, passed string) bool {
	return NewerVersion(written, passed) || passed == "" && written != ""
}

// now returns the time for the age of this process's writes. No rule uses it.
func now() time.Time { return time.Now() } //nolint:forbidigo // see above

// inCache returns an object from the cache. It returns nil if it is not there.
func inCache(informer cache.SharedIndexInformer, key types.NamespacedName) (Object, error) {
	found, there, err := informer.GetIndexer().GetByKey(cache.ObjectName(key).String())
	if err != nil || !there {
		return nil, err
	}
	object, ok := found.(Object)
	if !ok {
		return nil, fmt.Errorf("reading %s from the cache: unexpected object type %T", key, found)
	}
	return object, nil
}
