package wakeups

import (
	"maps"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"

	"github.com/fleet-hub/fleet/internal/deploy/outcome"
	"github.com/fleet-hub/fleet/internal/deploy/watch"
)

// A Topic is a kind of event.
type Topic struct {
	kind, name string
	object     outcome.Awaited
}

// Bundle returns the topic of changes of a BundleDeployment.
func Bundle(name string) Topic { return Topic{kind: "bundledeployment", name: name} }

// Set returns the topic of changes of the objects of a set.
func Set(hash string) Topic { return Topic{kind: "set", name: hash} }

// CRDs returns the topic of changes of CRDs.
func CRDs() Topic { return Topic{kind: "crds"} }

// States returns the topic of changes of the state of any BundleDeployment.
func States() Topic { return Topic{kind: "states"} }

// Wakeups wakes operations that listen to topics, and enqueues BundleDeployments that wait for topics.
type Wakeups struct {
	client  metadata.Interface
	enqueue func(names []string)

	running   sync.WaitGroup
	mu        sync.Mutex
	stopped   bool
	listeners map[Topic]map[chan struct{}]bool
	waiting   map[Topic]map[string]bool
	// objects maps BundleDeployments to the objects that they wait for, watches those objects to their watches.
	objects map[string]outcome.Awaited
	watches map[outcome.Awaited]watched
}

// watched is the watch of one object.
type watched struct {
	informer cache.SharedIndexInformer
	stop     chan struct{}
}

// New returns Wakeups that call enqueue with the names of BundleDeployments. The client watches objects.
func New(client metadata.Interface, enqueue func(names []string)) *Wakeups {
	return &Wakeups{
		client: client, enqueue: enqueue, listeners: map[Topic]map[chan struct{}]bool{}, waiting: map[Topic]map[string]bool{},
		objects: map[string]outcome.Awaited{}, watches: map[outcome.Awaited]watched{},
	}
}

// Listen subscribes an operation to topics. The channel receives once after one or more events; stop ends the
// subscription. Helm keeps the goroutines of operations until they have finished.
func (w *Wakeups) Listen(topics ...Topic) (heard <-chan struct{}, stop func()) {
	listener := make(chan struct{}, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, topic := range topics {
		add(w.listeners, topic, listener)
	}
	return listener, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, topic := range topics {
			remove(w.listeners, topic, listener)
		}
	}
}

// Publish wakes all operations that listen to a topic, and enqueues all BundleDeployments that wait for it.
func (w *Wakeups) Publish(topic Topic) {
	w.mu.Lock()
	for listener := range w.listeners[topic] {
		select {
		case listener <- struct{}{}:
		default: // the listener has not read the last wakeup yet
		}
	}
	names := slices.Sorted(maps.Keys(w.waiting[topic]))
	w.mu.Unlock()
	if len(names) > 0 {
		w.enqueue(names)
	}
}

// Wait sets whether a BundleDeployment waits for a topic.
func (w *Wakeups) Wait(name string, topic Topic, waits bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if waits {
		add(w.waiting, topic, name)
	} else {
		remove(w.waiting, topic, name)
	}
}

// Object returns the object that a BundleDeployment waits for, nil if it waits for none.
func (w *Wakeups) Object(name string) *outcome.Awaited {
	w.mu.Lock()
	defer w.mu.Unlock()
	if object, waits := w.objects[name]; waits {
		return &object
	}
	return nil
}

// WaitForObject sets the object that a BundleDeployment waits for; nil for none. The object wakes it when it exists at
// the first list and whenever it changes. Each object has its own watch, while a BundleDeployment waits for it. A
// BundleDeployment that joins an existing watch is woken once if the object exists: the event may be past.
func (w *Wakeups) WaitForObject(name string, object *outcome.Awaited) {
	if w.setObject(name, object) {
		w.enqueue([]string{name})
	}
}

// setObject does the work of WaitForObject. It reports whether the BundleDeployment joined the watch of an object that
// exists.
func (w *Wakeups) setObject(name string, object *outcome.Awaited) (exists bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return false
	}
	last, waits := w.objects[name]
	if waits && object != nil && *object == last {
		return false
	}
	if waits {
		delete(w.objects, name)
		remove(w.waiting, Topic{object: last}, name)
		if len(w.waiting[Topic{object: last}]) == 0 {
			close(w.watches[last].stop)
			delete(w.watches, last)
		}
	}
	if object == nil {
		return false
	}
	w.objects[name] = *object
	add(w.waiting, Topic{object: *object}, name) // before the store is read: later changes wake it
	if found, known := w.watches[*object]; known {
		return len(found.informer.GetStore().ListKeys()) > 0
	}
	w.watches[*object] = w.follow(*object)
	return false
}

// follow watches the metadata of an object. The caller holds the lock.
func (w *Wakeups) follow(object outcome.Awaited) watched {
	client := w.client.Resource(object.Resource).Namespace(object.Namespace)
	informer := watch.NewMetadataInformer(w.client, client, func(options *metav1.ListOptions) {
		options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, object.Name).String()
	})
	changed := func() { w.Publish(Topic{object: object}) }
	// Cannot fail: the informer is new.
	_, _ = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { changed() },
		UpdateFunc: func(any, any) { changed() },
		DeleteFunc: func(any) { changed() },
	})
	stop := make(chan struct{})
	w.running.Go(func() { informer.Run(stop) })
	return watched{informer, stop}
}

// Forget ends all waiting of a deleted BundleDeployment.
func (w *Wakeups) Forget(name string) {
	w.WaitForObject(name, nil)
	w.mu.Lock()
	defer w.mu.Unlock()
	for topic := range w.waiting {
		remove(w.waiting, topic, name)
	}
}

// Stop stops all watches and waits until they have ended.
func (w *Wakeups) Stop() {
	w.mu.Lock()
	for _, one := range w.watches {
		close(one.stop)
	}
	w.objects, w.watches, w.stopped = nil, nil, true
	w.mu.Unlock()
	w.running.Wait()
}

func add[T comparable](all map[Topic]map[T]bool, topic Topic, one T) {
	if all[topic] == nil {
		all[topic] = map[T]bool{}
	}
	all[topic][one] = true
}

func remove[T comparable](all map[Topic]map[T]bool, topic Topic, one T) {
	delete(all[topic], one)
	if len(all[topic]) == 0 {
		delete(all, topic)
	}
}
