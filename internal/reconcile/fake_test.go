package reconcile

import (
	"encoding/json"
	"fmt"
	"reflect"
	"sync"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// server is an API server that knows one rule, that of names, and writes down what it is asked for.
type server struct {
	mu       sync.Mutex
	objects  map[string]Object
	requests []string
	// fail answers a request, written like in requests but without its body, with an error.
	fail map[string]error
	// interfere runs before each patch and each update: somebody else who is faster.
	interfere func()
}

func newServer() *server {
	return &server{objects: map[string]Object{}, fail: map[string]error{}}
}

func (s *server) note(verb, kind, key, body string) error {
	line := verb + " " + kind + " " + key
	err := s.fail[line]
	if body != "" {
		line += " " + body
	}
	s.requests = append(s.requests, line)
	return err
}

// fakeClient is one kind on a server, with a real cache.
type fakeClient[T Object] struct {
	*server
	gvk      schema.GroupVersionKind
	informer cache.SharedIndexInformer
}

func newClient[T Object](s *server, gvk schema.GroupVersionKind, example T) *fakeClient[T] {
	return &fakeClient[T]{server: s, gvk: gvk, informer: cache.NewSharedIndexInformer(&cache.ListWatch{}, example, 0, cache.Indexers{})}
}

func (c *fakeClient[T]) GroupVersionKind() schema.GroupVersionKind { return c.gvk }
func (c *fakeClient[T]) Informer() cache.SharedIndexInformer       { return c.informer }

func (c *fakeClient[T]) id(namespace, name string) string {
	return c.gvk.Kind + " " + types.NamespacedName{Namespace: namespace, Name: name}.String()
}

func (c *fakeClient[T]) Create(obj T) (T, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.note("create", c.gvk.Kind, KeyOf(obj).String(), ""); err != nil {
		return obj, err
	}
	id := c.id(obj.GetNamespace(), obj.GetName())
	if _, exists := c.objects[id]; exists {
		return obj, apierrors.NewAlreadyExists(c.resource(), obj.GetName())
	}
	c.objects[id] = obj
	return obj, nil
}

func (c *fakeClient[T]) Get(namespace, name string, _ metav1.GetOptions) (T, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var none T
	if err := c.note("get", c.gvk.Kind, types.NamespacedName{Namespace: namespace, Name: name}.String(), ""); err != nil {
		return none, err
	}
	found, exists := c.objects[c.id(namespace, name)]
	if !exists {
		return none, apierrors.NewNotFound(c.resource(), name)
	}
	return found.DeepCopyObject().(T), nil
}

func (c *fakeClient[T]) Update(obj T) (T, error) {
	return c.update(obj, "", func(found, updated reflect.Value) { updated.FieldByName("Status").Set(found.FieldByName("Status")) })
}

func (c *fakeClient[T]) UpdateStatus(obj T) (T, error) {
	return c.update(obj, "status ", func(found, updated reflect.Value) {
		status := reflect.ValueOf(updated.FieldByName("Status").Interface())
		updated.Set(found)
		updated.FieldByName("Status").Set(status)
	})
}

// update replaces what is there by what is sent, apart from what is kept of it.
func (c *fakeClient[T]) update(obj T, subresource string, keep func(found, updated reflect.Value)) (T, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var none T
	if c.interfere != nil {
		c.interfere()
	}
	body, err := json.Marshal(obj)
	if err != nil {
		return none, err
	}
	if err := c.note("update", c.gvk.Kind, KeyOf(obj).String(), subresource+string(body)); err != nil {
		return none, err
	}
	found, exists := c.objects[c.id(obj.GetNamespace(), obj.GetName())]
	if !exists {
		return none, apierrors.NewNotFound(c.resource(), obj.GetName())
	}
	if obj.GetResourceVersion() != found.GetResourceVersion() || obj.GetUID() != found.GetUID() {
		return none, apierrors.NewConflict(c.resource(), found.GetName(), fmt.Errorf("it is %s now", found.GetResourceVersion()))
	}
	updated := obj.DeepCopyObject().(T)
	keep(reflect.ValueOf(found.DeepCopyObject()).Elem(), reflect.ValueOf(updated).Elem())
	updated.SetResourceVersion(found.GetResourceVersion() + "'")
	c.objects[c.id(obj.GetNamespace(), obj.GetName())] = updated
	return updated, nil
}

func (c *fakeClient[T]) Patch(namespace, name string, pt types.PatchType, data []byte, subresources ...string) (T, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var none T
	if c.interfere != nil {
		c.interfere()
	}
	body := string(data)
	for _, subresource := range subresources {
		body = subresource + " " + body
	}
	if err := c.note("patch", c.gvk.Kind, types.NamespacedName{Namespace: namespace, Name: name}.String(), body); err != nil {
		return none, err
	}
	if pt != types.MergePatchType {
		return none, fmt.Errorf("a patch of type %s", pt)
	}
	found, exists := c.objects[c.id(namespace, name)]
	if !exists {
		return none, apierrors.NewNotFound(c.resource(), name)
	}
	return c.merge(found, data)
}

func (c *fakeClient[T]) merge(found Object, data []byte) (T, error) {
	var none T
	var meta struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(data, &meta); err != nil {
		return none, err
	}
	if v := meta.Metadata.ResourceVersion; v != "" && v != found.GetResourceVersion() {
		return none, apierrors.NewConflict(c.resource(), found.GetName(), fmt.Errorf("it is %s now", found.GetResourceVersion()))
	}
	before, err := json.Marshal(found)
	if err != nil {
		return none, err
	}
	after, err := jsonpatch.MergePatch(before, data)
	if err != nil {
		return none, err
	}
	patched := found.DeepCopyObject().(T)
	clear(patched.GetLabels())
	clear(patched.GetAnnotations())
	if err := json.Unmarshal(after, patched); err != nil {
		return none, err
	}
	patched.SetResourceVersion(found.GetResourceVersion() + "'")
	c.objects[c.id(found.GetNamespace(), found.GetName())] = patched
	return patched, nil
}

func (c *fakeClient[T]) Delete(namespace, name string, options *metav1.DeleteOptions) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	body := string(*options.PropagationPolicy)
	if options.Preconditions != nil {
		body += " uid " + string(*options.Preconditions.UID)
	}
	if err := c.note("delete", c.gvk.Kind, types.NamespacedName{Namespace: namespace, Name: name}.String(), body); err != nil {
		return err
	}
	if _, exists := c.objects[c.id(namespace, name)]; !exists {
		return apierrors.NewNotFound(c.resource(), name)
	}
	delete(c.objects, c.id(namespace, name))
	return nil
}

func (c *fakeClient[T]) resource() schema.GroupResource {
	return schema.GroupResource{Group: c.gvk.Group, Resource: c.gvk.Kind}
}

// clusterWide is a fakeClient of cluster-scoped objects.
type clusterWide[T Object] struct{ *fakeClient[T] }

func (c clusterWide[T]) Get(name string, o metav1.GetOptions) (T, error) {
	return c.fakeClient.Get("", name, o)
}

func (c clusterWide[T]) Patch(name string, pt types.PatchType, data []byte, sub ...string) (T, error) {
	return c.fakeClient.Patch("", name, pt, data, sub...)
}

func (c clusterWide[T]) Delete(name string, o *metav1.DeleteOptions) error {
	return c.fakeClient.Delete("", name, o)
}

// put places objects on the server and, if seen, in the cache.
func put[T Object](t *testing.T, c *fakeClient[T], seen bool, obj Object) bool {
	t.Helper()
	typed, ok := obj.(T)
	if !ok {
		return false
	}
	c.objects[c.id(obj.GetNamespace(), obj.GetName())] = typed
	if seen {
		if err := c.informer.GetIndexer().Add(typed); err != nil {
			t.Fatal(err)
		}
	}
	return true
}
