package wakeups

import (
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"

	"github.com/fleet-hub/fleet/internal/deploy/outcome"
	"github.com/fleet-hub/fleet/internal/deploy/watch"
)

// Awaited watches the metadata of objects that BundleDeployments wait for. Each object has its own watch, which
// exists only while a BundleDeployment waits for the object.
type Awaited struct {
	client metadata.Interface
	// wake is called with the BundleDeployments that wait for an object, when it exists at the first list and whenever
	// it changes.
	wake func(users []string)

	running sync.WaitGroup
	mu      sync.Mutex
	stopped bool
	objects map[outcome.Awaited]*awaiting
	Waits   map[string]outcome.Awaited // by user
}

type awaiting struct {
	stop  chan struct{}
	users map[string]bool
}

func NewAwaited(client metadata.Interface, wake func([]string)) *Awaited {
	return &Awaited{client: client, wake: wake, objects: map[outcome.Awaited]*awaiting{}, Waits: map[string]outcome.Awaited{}}
}

// Put sets the object that a user waits for; nil if it waits for none.
func (a *Awaited) Put(user string, object *outcome.Awaited) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stopped {
		return
	}
	if last, waits := a.Waits[user]; waits && (object == nil || *object != last) {
		delete(a.Waits, user)
		delete(a.objects[last].users, user)
		if len(a.objects[last].users) == 0 {
			close(a.objects[last].stop)
			delete(a.objects, last)
		}
	}
	if object == nil {
		return
	}
	if a.objects[*object] == nil {
		a.objects[*object] = &awaiting{stop: make(chan struct{}), users: map[string]bool{}}
		a.follow(*object, a.objects[*object].stop)
	}
	a.objects[*object].users[user] = true
	a.Waits[user] = *object
}

// follow watches an object. The caller holds the lock.
func (a *Awaited) follow(object outcome.Awaited, stop chan struct{}) {
	client := metadata.ResourceInterface(a.client.Resource(object.Resource))
	if object.Namespace != "" {
		client = a.client.Resource(object.Resource).Namespace(object.Namespace)
	}
	informer := watch.NewMetadataInformer(a.client, client, func(options *metav1.ListOptions) {
		options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, object.Name).String()
	})
	changed := func() { a.wake(a.usersOf(object)) }
	// Cannot fail: the informer is new.
	_, _ = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { changed() },
		UpdateFunc: func(any, any) { changed() },
		DeleteFunc: func(any) { changed() },
	})
	a.running.Go(func() { informer.Run(stop) })
}

func (a *Awaited) usersOf(object outcome.Awaited) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var users []string
	if found := a.objects[object]; found != nil {
		for user := range found.users {
			users = append(users, user)
		}
	}
	return users
}

// Stop stops all watches and waits until they have ended.
func (a *Awaited) Stop() {
	a.mu.Lock()
	for _, found := range a.objects {
		close(found.stop)
	}
	a.objects, a.Waits, a.stopped = nil, nil, true
	a.mu.Unlock()
	a.running.Wait()
}
