package hubtest

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"sync/atomic"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"

	"github.com/rancher/wrangler/v3/pkg/generic"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub"
	"github.com/fleet-hub/fleet/internal/protocol"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// object is an object that wrangler's controllers handle.
type object interface {
	generic.RuntimeMetaObject
}

// fakeKind is one kind on a Hub, with a real cache. Methods that it does not implement panic.
type fakeKind[T object, L runtime.Object] struct {
	generic.ControllerInterface[T, L]

	hub      *Hub
	gvk      schema.GroupVersionKind
	informer *following
	cache    generic.CacheInterface[T]
	spoiled  spoiled
	handlers []generic.ObjectHandler[T]
	selects  func(Object) bool
}

// listed is the resource version of an empty server, with which caches start.
const listed = 1

// following is an informer that never runs. Tests fill its store, and its version is that of the last object.
type following struct {
	cache.SharedIndexInformer

	synced atomic.Uint64 // read while handlers run
}

// LastSyncResourceVersion returns the version of the cache.
func (f *following) LastSyncResourceVersion() string { return strconv.FormatUint(f.synced.Load(), 10) }

// spoiled is wrangler's cache over a store that may contain something other than an object.
type spoiled struct {
	cache.Indexer

	keys map[string]bool
}

// GetByKey returns a value that no cache of objects can hold.
func (s spoiled) GetByKey(key string) (any, bool, error) {
	if s.keys[key] {
		return "spoiled", true, nil
	}
	return s.Indexer.GetByKey(key)
}

func newKind[T object, L runtime.Object](h *Hub, gv schema.GroupVersion, kind string, selects func(Object) bool) *fakeKind[T, L] {
	var none T
	k := &fakeKind[T, L]{
		hub: h, gvk: gv.WithKind(kind), selects: selects,
		informer: &following{SharedIndexInformer: cache.NewSharedIndexInformer(
			&cache.ListWatch{}, none, 0, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})},
	}
	k.reach(listed)
	k.spoiled = spoiled{Indexer: k.informer.GetIndexer(), keys: map[string]bool{}}
	k.cache = generic.NewCache[T](k.spoiled, k.resource())
	h.kinds = append(h.kinds, k)
	return k
}

func (h *Hub) addKinds() {
	a, fl, core, rbac := h.App, fleet.SchemeGroupVersion, corev1.SchemeGroupVersion, rbacv1.SchemeGroupVersion
	managed := func(obj Object) bool { return obj.GetLabels()[fleet.LabelManaged] == "true" }
	ofType := func(wanted corev1.SecretType) func(Object) bool {
		return func(obj Object) bool {
			found, ok := secretKind(obj)
			return ok && found == wanted
		}
	}
	a.Clusters = newKind[*fleet.Cluster, *fleet.ClusterList](h, fl, "Cluster", nil)
	a.ClusterRegistrations = newKind[*fleet.ClusterRegistration, *fleet.ClusterRegistrationList](h, fl, "ClusterRegistration", nil)
	a.ClusterRegistrationTokens = newKind[*fleet.ClusterRegistrationToken, *fleet.ClusterRegistrationTokenList](h, fl, "ClusterRegistrationToken", nil)
	a.ServiceAccounts = newKind[*corev1.ServiceAccount, *corev1.ServiceAccountList](h, core, "ServiceAccount", managed)
	a.Roles = newKind[*rbacv1.Role, *rbacv1.RoleList](h, rbac, "Role", managed)
	a.RoleBindings = newKind[*rbacv1.RoleBinding, *rbacv1.RoleBindingList](h, rbac, "RoleBinding", managed)
	bindings := newKind[*rbacv1.ClusterRoleBinding, *rbacv1.ClusterRoleBindingList](h, rbac, "ClusterRoleBinding", managed)
	a.ClusterRoleBindings = clusterKind[*rbacv1.ClusterRoleBinding, *rbacv1.ClusterRoleBindingList]{kind: bindings}
	a.CredentialSecrets = newKind[*corev1.Secret, *corev1.SecretList](h, core, "Secret", ofType(protocol.SecretTypeCredential))
	a.RecoverySecrets = newKind[*corev1.Secret, *corev1.SecretList](h, core, "Secret", ofType(protocol.SecretTypeRecovery))
	a.ValuesSecrets = newKind[*corev1.Secret, *corev1.SecretList](h, core, "Secret", ofType(protocol.SecretTypeValues))

	hub.AddIndexes(a.Clusters.Cache())
	hub.AddRequestIndexes(a.ClusterRegistrations.Cache())
}

func (k *fakeKind[T, L]) takes(obj Object) bool {
	_, ok := obj.(T)
	return ok && (k.selects == nil || k.selects(obj))
}

func (k *fakeKind[T, L]) see(obj Object) error {
	if version, err := strconv.ParseUint(obj.GetResourceVersion(), 10, 64); err == nil {
		k.reach(version)
	}
	defer k.advance()
	if err := k.hub.remember(obj); err != nil {
		return err
	}
	return k.informer.GetIndexer().Add(obj)
}

// advance sets the version of the store, which otherwise is that of the object that was added last.
func (k *fakeKind[T, L]) advance() {
	k.informer.GetIndexer().Bookmark(strconv.FormatUint(k.informer.synced.Load(), 10))
}

// reach sets the version of the cache.
func (k *fakeKind[T, L]) reach(version uint64) {
	if version > k.informer.synced.Load() { // only the test fills caches
		k.informer.synced.Store(version)
	}
	k.advance()
}

func (k *fakeKind[T, L]) unsee(namespace, name string) {
	_ = k.informer.GetIndexer().Delete(cache.ExplicitKey(keyOf(namespace, name))) // deleting a missing key is not an error
	k.advance()
}

func (k *fakeKind[T, L]) spoil(namespace, name string) { k.spoiled.keys[keyOf(namespace, name)] = true }

func (k *fakeKind[T, L]) clear() { _ = k.informer.GetIndexer().Replace(nil, "") } // an empty list has valid keys

func (k *fakeKind[T, L]) kind() string { return k.gvk.Kind }

func (k *fakeKind[T, L]) handle(key string) error {
	var current T
	if found, there, _ := k.informer.GetIndexer().GetByKey(key); there {
		current, _ = found.(T)
	}
	for _, handler := range k.handlers {
		if _, err := handler(key, current); err != nil {
			return err
		}
	}
	return nil
}

func (k *fakeKind[T, L]) resource() schema.GroupResource {
	return schema.GroupResource{Group: k.gvk.Group, Resource: k.gvk.Kind}
}

// GroupVersionKind returns the kind.
func (k *fakeKind[T, L]) GroupVersionKind() schema.GroupVersionKind { return k.gvk }

// Informer returns an informer that never runs. Only its store is used.
func (k *fakeKind[T, L]) Informer() cache.SharedIndexInformer { return k.informer }

// Cache returns wrangler's cache over the informer's store.
func (k *fakeKind[T, L]) Cache() generic.CacheInterface[T] { return k.cache }

// OnChange stores the handler for Hub.Handle.
func (k *fakeKind[T, L]) OnChange(_ context.Context, _ string, sync generic.ObjectHandler[T]) {
	k.handlers = append(k.handlers, sync)
}

// EnqueueAfter records the key. See Hub.Woken.
func (k *fakeKind[T, L]) EnqueueAfter(namespace, name string, after time.Duration) {
	k.hub.wake(k.gvk.Kind, namespace, name, after)
}

// Create creates an object, unless one with its name exists.
func (k *fakeKind[T, L]) Create(obj T) (T, error) {
	k.hub.mu.Lock()
	defer k.hub.mu.Unlock()
	var none T
	if err := k.hub.note("create", k.gvk.Kind+" "+keyOf(obj.GetNamespace(), obj.GetName())); err != nil {
		return none, err
	}
	if k.hub.objects[id(obj, obj.GetNamespace(), obj.GetName())] != nil {
		return none, apierrors.NewAlreadyExists(k.resource(), obj.GetName())
	}
	created := obj.DeepCopyObject().(T)
	k.hub.store(created)
	return created.DeepCopyObject().(T), nil
}

// Get reads from the server.
func (k *fakeKind[T, L]) Get(namespace, name string, _ metav1.GetOptions) (T, error) {
	k.hub.mu.Lock()
	defer k.hub.mu.Unlock()
	var none T
	if err := k.hub.note("get", k.gvk.Kind+" "+keyOf(namespace, name)); err != nil {
		return none, err
	}
	return k.live(namespace, name)
}

// live returns the object on the server. The caller holds the lock.
func (k *fakeKind[T, L]) live(namespace, name string) (T, error) {
	var none T
	found, ok := k.hub.objects[id(none, namespace, name)].(T)
	if !ok {
		return none, apierrors.NewNotFound(k.resource(), name)
	}
	return found.DeepCopyObject().(T), nil
}

// Update writes an object without its status. It fails if another client has written since the object was read.
func (k *fakeKind[T, L]) Update(obj T) (T, error) {
	return k.update("", obj, func(live, updated T) {
		if status := statusOf(updated); status.IsValid() {
			status.Set(statusOf(live))
		}
	})
}

// UpdateStatus writes only the status. It fails if another client has written since the object was read.
func (k *fakeKind[T, L]) UpdateStatus(obj T) (T, error) {
	return k.update("/status", obj, func(live, updated T) {
		status := reflect.ValueOf(statusOf(updated).Interface())
		reflect.ValueOf(updated).Elem().Set(reflect.ValueOf(live).Elem())
		statusOf(updated).Set(status)
	})
}

func (k *fakeKind[T, L]) update(subresource string, obj T, keep func(live, updated T)) (T, error) {
	k.hub.mu.Lock()
	defer k.hub.mu.Unlock()
	var none T
	if err := k.hub.note("update", k.gvk.Kind+subresource+" "+keyOf(obj.GetNamespace(), obj.GetName())); err != nil {
		return none, err
	}
	live, err := k.live(obj.GetNamespace(), obj.GetName())
	if err != nil {
		return none, err
	}
	if obj.GetResourceVersion() != live.GetResourceVersion() || obj.GetUID() != live.GetUID() {
		return none, apierrors.NewConflict(k.resource(), obj.GetName(), fmt.Errorf("the current version is %s", live.GetResourceVersion()))
	}
	updated := obj.DeepCopyObject().(T)
	keep(live, updated)
	k.hub.store(updated)
	return updated.DeepCopyObject().(T), nil
}

// statusOf returns the status of an object. The result is invalid for a kind without a status.
func statusOf(obj any) reflect.Value { return reflect.ValueOf(obj).Elem().FieldByName("Status") }

// Patch merges into the object on the server, either into the status or into everything else.
func (k *fakeKind[T, L]) Patch(namespace, name string, pt types.PatchType, data []byte, subresources ...string) (T, error) {
	k.hub.mu.Lock()
	defer k.hub.mu.Unlock()
	var none T
	kind := k.gvk.Kind
	for _, subresource := range subresources {
		kind += "/" + subresource
	}
	if err := k.hub.note("patch", kind+" "+keyOf(namespace, name)); err != nil {
		return none, err
	}
	if pt != types.MergePatchType {
		return none, unexpected("patch by " + string(pt))
	}
	live, err := k.live(namespace, name)
	if err != nil {
		return none, err
	}
	return k.merge(live, data)
}

func (k *fakeKind[T, L]) merge(live T, data []byte) (T, error) {
	var none T
	var meta struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(data, &meta); err != nil {
		return none, err
	}
	if v := meta.Metadata.ResourceVersion; v != "" && v != live.GetResourceVersion() {
		return none, apierrors.NewConflict(k.resource(), live.GetName(), fmt.Errorf("the current version is %s", live.GetResourceVersion()))
	}
	before, err := json.Marshal(live)
	if err != nil {
		return none, err
	}
	after, err := jsonpatch.MergePatch(before, data)
	if err != nil {
		return none, err
	}
	patched, err := k.decode(after)
	if err != nil {
		return none, err
	}
	was, _ := secretKind(live)
	if is, _ := secretKind(patched); is != was { // immutable
		return none, apierrors.NewInvalid(k.gvk.GroupKind(), live.GetName(), nil)
	}
	k.hub.store(patched)
	return patched.DeepCopyObject().(T), nil
}

// Delete removes an object if the preconditions match.
func (k *fakeKind[T, L]) Delete(namespace, name string, options *metav1.DeleteOptions) error {
	k.hub.mu.Lock()
	defer k.hub.mu.Unlock()
	if err := k.hub.note("delete", k.gvk.Kind+" "+keyOf(namespace, name)); err != nil {
		return err
	}
	live, err := k.live(namespace, name)
	if err != nil {
		return err
	}
	if options != nil && options.Preconditions != nil && !isMeant(live, options.Preconditions) {
		return apierrors.NewConflict(k.resource(), name, fmt.Errorf("the object has UID %s and version %s", live.GetUID(), live.GetResourceVersion()))
	}
	var none T
	delete(k.hub.objects, id(none, namespace, name))
	return nil
}

func isMeant(live Object, only *metav1.Preconditions) bool {
	return (only.UID == nil || *only.UID == live.GetUID()) &&
		(only.ResourceVersion == nil || *only.ResourceVersion == live.GetResourceVersion())
}
