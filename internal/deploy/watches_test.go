package deploy

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// watching is a set of watches on a fake API server, and their notifications.
type watching struct {
	*watches
	client  *metadatafake.FakeMetadataClient
	changed chan string
	synced  chan []string
}

func newWatching(t *testing.T, objects ...runtime.Object) watching {
	t.Helper()
	w := watching{client: newMetadataClient(t, objects...), changed: make(chan string, 100), synced: make(chan []string, 100)}
	w.watches = newWatches(w.client, time.Now, func(hash string) { w.changed <- hash }, func(users []string) { w.synced <- users })
	t.Cleanup(w.stop)
	return w
}

func (w watching) expectKnown(t *testing.T, resource schema.GroupVersionResource, want bool) {
	t.Helper()
	if _, known := w.look(resource, "web", "a"); known != want {
		t.Errorf("%s known: %t, want %t", resource.Resource, known, want)
	}
}

func (w watching) expectSynced(t *testing.T, want string) {
	t.Helper()
	if got := receive(t, w.synced); !slices.Equal(got, []string{want}) {
		t.Errorf("synced for %v, want %s", got, want)
	}
}

func TestWatches_StripCachedObjects(t *testing.T) {
	w := newWatching(t, metadataOf("ConfigMap", "a", "1", "h1"))
	w.expectKnown(t, configMaps, false)
	w.follow("x", map[schema.GroupVersionResource]bool{configMaps: true})
	w.expectSynced(t, "x")
	if got := receive(t, w.changed); got != "h1" {
		t.Errorf("changed %q", got)
	}
	found, known := w.look(configMaps, "web", "a")
	want := &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "web", UID: "a", ResourceVersion: "1", Labels: map[string]string{fleet.LabelSetHash: "h1"}},
	}
	if diff := cmp.Diff(want, found); diff != "" || !known {
		t.Errorf("known %t, what is kept:\n%s", known, diff)
	}
	if found, known := w.look(configMaps, "web", "b"); found != nil || !known {
		t.Errorf("what is not there: %v %t", found, known)
	}
}

func TestObjectTakenOver_EnqueuesBothSets(t *testing.T) {
	w := newWatching(t, metadataOf("ConfigMap", "a", "1", "h1"))
	w.follow("x", map[schema.GroupVersionResource]bool{configMaps: true})
	w.expectSynced(t, "x")
	receive(t, w.changed)
	client, ok := w.client.Resource(configMaps).Namespace("web").(metadatafake.MetadataClient)
	if !ok {
		t.Fatal("the fake client cannot update")
	}
	if _, err := client.UpdateFake(metadataOf("ConfigMap", "a", "2", "h2"), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	got := []string{receive(t, w.changed), receive(t, w.changed)}
	slices.Sort(got)
	if !slices.Equal(got, []string{"h1", "h2"}) {
		t.Errorf("notified %v", got)
	}
}

func TestLastUserLeaves_WatchStops(t *testing.T) {
	w := newWatching(t)
	w.follow("x", map[schema.GroupVersionResource]bool{configMaps: true})
	w.expectSynced(t, "x")
	w.follow("y", map[schema.GroupVersionResource]bool{configMaps: true, secrets: true})
	w.expectSynced(t, "y")
	w.follow("x", nil)
	w.expectKnown(t, configMaps, true)
	w.follow("y", map[schema.GroupVersionResource]bool{secrets: true})
	w.expectKnown(t, configMaps, false)
	w.expectKnown(t, secrets, true)
	w.stop()
	w.follow("z", map[schema.GroupVersionResource]bool{configMaps: true})
	w.expectKnown(t, configMaps, false)
}

func TestUnwatchableResource_IsFetched(t *testing.T) {
	client := newMetadataClient(t)
	client.PrependReactor("list", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("the server does not allow this method on the requested resource")
	})
	var mu sync.Mutex
	now := noon
	clock := func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	w := newWatches(client, clock, func(string) {}, func([]string) {})
	defer w.stop()
	w.follow("x", map[schema.GroupVersionResource]bool{configMaps: true})
	if _, known := w.look(configMaps, "web", "a"); known {
		t.Error("known at once")
	}
	mu.Lock()
	now = now.Add(watchPatience + time.Second)
	mu.Unlock()
	if found, known := w.look(configMaps, "web", "a"); found != nil || !known {
		t.Errorf("after a while: %v %t", found, known)
	}
}
