package stored

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/fleet-hub/fleet/internal/protocol/names"
)

// WatchedVersions are the latest versions of the agent's own objects that its watches have reported. Differ
// compares them with what the agent has read or written: after an event of its own write, the agent does not read all objects
// again.
type WatchedVersions struct {
	mu     sync.Mutex
	latest versions
}

// NewWatchedVersions returns WatchedVersions without an object.
func NewWatchedVersions() *WatchedVersions { return &WatchedVersions{latest: versions{}} }

// versions maps the kind and name of each existing object to its version.
type versions map[string]string

// unversioned stands for the version of an object without a resource version, as in some fakes. It differs from every
// version.
const unversioned = "-"

// add adds the version of an object.
func (v versions) add(object metav1.Object) {
	version := unversioned
	if object.GetResourceVersion() != "" {
		version = string(object.GetUID()) + " " + object.GetResourceVersion()
	}
	v[keyOf(object)] = version
}

func keyOf(object metav1.Object) string { return fmt.Sprintf("%T %s", object, object.GetName()) }

// note records an event.
func (s *WatchedVersions) note(event any, isDeletion bool) {
	if unknown, ok := event.(cache.DeletedFinalStateUnknown); ok {
		event = unknown.Obj
	}
	object, ok := event.(metav1.Object)
	if !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.latest.add(object); isDeletion {
		s.latest[keyOf(object)] = ""
	}
}

// Differ reports whether an event was about another version than the one that was read.
func (s *WatchedVersions) Differ(read *Objects) bool { return s.differ(read.versions) }

// differ reports whether an event was about another version than the known one.
func (s *WatchedVersions) differ(known versions) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, version := range s.latest {
		if version == unversioned || version != known[key] {
			return true
		}
	}
	return false
}

// Watch signals changed when the agent's identity, its bootstrap secret or its configuration is added,
// changed or deleted, until ctx ends. The group is done shortly after. Only the versions of the objects are kept: the
// agent reads the objects when it needs them.
func (s Store) Watch(ctx context.Context, seen *WatchedVersions, changed chan<- struct{}) *sync.WaitGroup {
	enqueue := func(event any, isDeletion bool) {
		seen.note(event, isDeletion)
		select {
		case changed <- struct{}{}:
		default: // a signal is already pending
		}
	}
	var watching sync.WaitGroup
	secrets, configMaps := s.Local.CoreV1().Secrets(s.Namespace), s.Local.CoreV1().ConfigMaps(s.Namespace)
	for _, own := range []struct {
		kind    runtime.Object
		objects cache.ListerWatcher
	}{
		{&corev1.Secret{}, listerWatcher(s.Local, names.Agent, listed(secrets.List), secrets.Watch)},
		{&corev1.Secret{}, listerWatcher(s.Local, names.AgentBootstrap, listed(secrets.List), secrets.Watch)},
		{&corev1.ConfigMap{}, listerWatcher(s.Local, names.Agent, listed(configMaps.List), configMaps.Watch)},
	} {
		_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
			ListerWatcher: own.objects,
			ObjectType:    own.kind,
			Handler: cache.ResourceEventHandlerFuncs{
				AddFunc:    func(added any) { enqueue(added, false) },
				UpdateFunc: func(_, after any) { enqueue(after, false) },
				DeleteFunc: func(deleted any) { enqueue(deleted, true) },
			},
		})
		watching.Go(func() { informer.RunWithContext(ctx) })
	}
	return &watching
}

// listed converts a typed client's List to a ListWithContextFunc.
func listed[L runtime.Object](list func(context.Context, metav1.ListOptions) (L, error)) cache.ListWithContextFunc {
	return func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return list(ctx, options)
	}
}

// listerWatcher lists and watches only the object with this name.
func listerWatcher(local Clients, name string, list cache.ListWithContextFunc, watch cache.WatchFuncWithContext) cache.ListerWatcher {
	only := fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.FieldSelector = only
			return list(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (apiwatch.Interface, error) {
			options.FieldSelector = only
			return watch(ctx, options)
		},
	}, local)
}
