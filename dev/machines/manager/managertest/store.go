package managertest

import (
	"log/slog"
	"maps"
	"reflect"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/fleet-hub/fleet/dev/machines/api"
	"github.com/fleet-hub/fleet/dev/machines/manager"
)

// Object is any API object.
type Object interface {
	runtime.Object
	metav1.Object
}

// Store contains the objects of a management cluster. Use it from one goroutine.
type Store struct {
	// Context is the context of controllers that use the store.
	Context *manager.Context
	// Now is the time of the context's clock.
	Now time.Time
	// Fail, if it is set, returns the error of each write: "patch LabMachine", "status LabMachine".
	Fail func(write string) error
	// Enqueued contains the keys with a delay, in order: "LabMachine ns/name 250ms".
	Enqueued []string

	objects, cached map[string]Object // by kind and key; cached is nil if the caches are current
	version         int
	scheme          *runtime.Scheme
}

// New returns an empty store.
func New(t testing.TB) *Store {
	t.Helper()
	s := &Store{Now: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC), objects: map[string]Object{}, scheme: runtime.NewScheme()}
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, clusterv1.AddToScheme, api.AddToScheme} {
		if err := add(s.scheme); err != nil {
			t.Fatal(err)
		}
	}
	s.Context = &manager.Context{
		Log: slog.New(slog.DiscardHandler), Clock: func() time.Time { return s.Now }, Kube: fake.NewClientset(),
		Clusters:    &kind[*clusterv1.Cluster, *clusterv1.ClusterList]{store: s},
		Machines:    &kind[*clusterv1.Machine, *clusterv1.MachineList]{store: s},
		Secrets:     &kind[*corev1.Secret, *corev1.SecretList]{store: s},
		LabClusters: &kind[*api.LabCluster, *api.LabClusterList]{store: s}, LabMachines: &kind[*api.LabMachine, *api.LabMachineList]{store: s},
		LabConfigs:       &kind[*api.LabConfig, *api.LabConfigList]{store: s},
		LabControlPlanes: &kind[*api.LabControlPlane, *api.LabControlPlaneList]{store: s},

		LabMachineTemplates: &kind[*api.LabMachineTemplate, *api.LabMachineTemplateList]{store: s},
	}
	return s
}

// Put creates or replaces an object.
func (s *Store) Put(obj Object) { s.put(copyOf(obj)) }

// Remove removes an object at once, whatever its finalizers are.
func (s *Store) Remove(obj Object) { delete(s.objects, keyOf(obj)) }

// Delete requests the deletion of an object, as a client does.
func (s *Store) Delete(obj Object) {
	found := s.objects[keyOf(obj)]
	if found == nil {
		return
	}
	found = copyOf(found)
	found.SetDeletionTimestamp(&metav1.Time{Time: s.Now})
	s.put(found)
}

// FreezeCaches makes the caches show the objects as they are now.
func (s *Store) FreezeCaches() { s.cached = maps.Clone(s.objects) }

// ThawCaches makes the caches current.
func (s *Store) ThawCaches() { s.cached = nil }

// Get returns the object with the kind, namespace and name of like, or nil.
func Get[T Object](s *Store, like T) T {
	found, _ := s.objects[keyOf(like)].(T) // the key contains the kind
	return found
}

// put stores an object, or removes it if it is being deleted and has no finalizer.
func (s *Store) put(obj Object) {
	if obj.GetDeletionTimestamp() != nil && len(obj.GetFinalizers()) == 0 {
		delete(s.objects, keyOf(obj))
		return
	}
	s.version++
	obj.SetResourceVersion(strconv.Itoa(s.version))
	s.objects[keyOf(obj)] = obj
}

func (s *Store) fail(write string) error {
	if s.Fail == nil {
		return nil
	}
	return s.Fail(write)
}

func nameOfKind(obj any) string { return reflect.TypeOf(obj).Elem().Name() }

func keyOf(obj Object) string {
	return nameOfKind(obj) + " " + obj.GetNamespace() + "/" + obj.GetName()
}

func copyOf[T Object](obj T) T {
	copied, _ := obj.DeepCopyObject().(T) // a deep copy has the type of the original
	return copied
}
