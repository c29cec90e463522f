package watch

import (
	"errors"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/fleet-hub/fleet/internal/deploy/deploytest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// watching is a set of watches on a fake API server, and their notifications.
type watching struct {
	*Watches
	client  *metadatafake.FakeMetadataClient
	changed chan string
	synced  chan []string
}

func newWatching(t *testing.T, objects ...runtime.Object) watching {
	t.Helper()
	w := watching{client: deploytest.NewMetadataClient(t, objects...), changed: make(chan string, 100), synced: make(chan []string, 100)}
	w.Watches = NewSetWatches(w.client, time.Now, func(hash string) { w.changed <- hash }, func(users []string) { w.synced <- users })
	t.Cleanup(w.Stop)
	return w
}

func (w watching) expectKnown(t *testing.T, resource schema.GroupVersionResource, want bool) {
	t.Helper()
	if _, known := w.Cached(resource, "web", "a"); known != want {
		t.Errorf("%s known: %t, want %t", resource.Resource, known, want)
	}
}

func (w watching) expectSynced(t *testing.T, want string) {
	t.Helper()
	if got := deploytest.Receive(t, w.synced); !slices.Equal(got, []string{want}) {
		t.Errorf("synced for %v, want %s", got, want)
	}
}

func TestWatches_StripCachedObjects(t *testing.T) {
	w := newWatching(t, deploytest.MetadataOf("ConfigMap", "a", "1", "h1"))
	w.expectKnown(t, deploytest.ConfigMaps(), false)
	w.Follow("x", map[schema.GroupVersionResource]bool{deploytest.ConfigMaps(): true})
	w.expectSynced(t, "x")
	if got := deploytest.Receive(t, w.changed); got != "h1" {
		t.Errorf("changed %q", got)
	}
	found, known := w.Cached(deploytest.ConfigMaps(), "web", "a")
	want := &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "web", UID: "a", ResourceVersion: "1", Labels: map[string]string{fleet.LabelSetHash: "h1"}},
	}
	if diff := cmp.Diff(want, found); diff != "" || !known {
		t.Errorf("known %t, what is kept:\n%s", known, diff)
	}
	if found, known := w.Cached(deploytest.ConfigMaps(), "web", "b"); found != nil || !known {
		t.Errorf("what is not there: %v %t", found, known)
	}
}

func TestObjectTakenOver_EnqueuesBothSets(t *testing.T) {
	w := newWatching(t, deploytest.MetadataOf("ConfigMap", "a", "1", "h1"))
	w.Follow("x", map[schema.GroupVersionResource]bool{deploytest.ConfigMaps(): true})
	w.expectSynced(t, "x")
	deploytest.Receive(t, w.changed)
	client, ok := w.client.Resource(deploytest.ConfigMaps()).Namespace("web").(metadatafake.MetadataClient)
	if !ok {
		t.Fatal("the fake client cannot update")
	}
	if _, err := client.UpdateFake(deploytest.MetadataOf("ConfigMap", "a", "2", "h2"), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	got := []string{deploytest.Receive(t, w.changed), deploytest.Receive(t, w.changed)}
	slices.Sort(got)
	if !slices.Equal(got, []string{"h1", "h2"}) {
		t.Errorf("notified %v", got)
	}
}

func TestLastUserLeaves_WatchStops(t *testing.T) {
	w := newWatching(t)
	w.Follow("x", map[schema.GroupVersionResource]bool{deploytest.ConfigMaps(): true})
	w.expectSynced(t, "x")
	w.Follow("y", map[schema.GroupVersionResource]bool{deploytest.ConfigMaps(): true, deploytest.Secrets(): true})
	w.expectSynced(t, "y")
	w.Follow("x", nil)
	w.expectKnown(t, deploytest.ConfigMaps(), true)
	w.Follow("y", map[schema.GroupVersionResource]bool{deploytest.Secrets(): true})
	w.expectKnown(t, deploytest.ConfigMaps(), false)
	w.expectKnown(t, deploytest.Secrets(), true)
	w.Stop()
	w.Follow("z", map[schema.GroupVersionResource]bool{deploytest.ConfigMaps(): true})
	w.expectKnown(t, deploytest.ConfigMaps(), false)
}

func TestUnwatchableResource_IsFetched(t *testing.T) {
	client := deploytest.NewMetadataClient(t)
	client.PrependReactor("list", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("the server does not allow this method on the requested resource")
	})
	var mu sync.Mutex
	now := deploytest.Noon()
	clock := func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	w := NewSetWatches(client, clock, func(string) {}, func([]string) {})
	defer w.Stop()
	w.Follow("x", map[schema.GroupVersionResource]bool{deploytest.ConfigMaps(): true})
	if _, known := w.Cached(deploytest.ConfigMaps(), "web", "a"); known {
		t.Error("known at once")
	}
	mu.Lock()
	now = now.Add(watchPatience + time.Second)
	mu.Unlock()
	if found, known := w.Cached(deploytest.ConfigMaps(), "web", "a"); found != nil || !known {
		t.Errorf("after a while: %v %t", found, known)
	}
}

func TestResourceNoLongerServed_IsFetchedUntilItIsServed(t *testing.T) {
	client := deploytest.NewMetadataClient(t)
	gone := apierrors.NewGenericServerResponse(http.StatusNotFound, "list", deploytest.ConfigMaps().GroupResource(), "", "404 page not found", 0, true)
	synced, served := make(chan []string, 100), make(chan struct{})
	client.PrependReactor("list", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		select {
		case <-served:
			return false, nil, nil
		default:
			return true, nil, gone
		}
	})
	w := watching{Watches: NewSetWatches(client, time.Now, func(string) {}, func(users []string) { synced <- users }), synced: synced}
	t.Cleanup(w.Stop)
	w.Follow("x", map[schema.GroupVersionResource]bool{deploytest.ConfigMaps(): true})
	w.expectSynced(t, "x")
	w.expectKnown(t, deploytest.ConfigMaps(), true)
	if !w.Unserved(deploytest.ConfigMaps()) || w.Unserved(deploytest.Secrets()) {
		t.Error("only ConfigMaps are watched and not served")
	}
	close(served)
	known := false
	for w.Unserved(deploytest.ConfigMaps()) || !known {
		w.expectSynced(t, "x")
		_, known = w.Cached(deploytest.ConfigMaps(), "web", "a")
	}
}

func TestResourceServedAgain_NotifiesUsers(t *testing.T) {
	gone := apierrors.NewGenericServerResponse(http.StatusNotFound, "list", deploytest.ConfigMaps().GroupResource(), "", "404 page not found", 0, true)
	for name, lists := range map[string]bool{"by a list": true, "by a watch": false} {
		t.Run(name, func(t *testing.T) {
			w := newWatching(t)
			w.Follow("x", map[schema.GroupVersionResource]bool{deploytest.ConfigMaps(): true})
			w.expectSynced(t, "x")
			w.answered(deploytest.ConfigMaps(), gone, true)
			w.expectSynced(t, "x")
			w.answered(deploytest.ConfigMaps(), nil, lists)
			w.expectSynced(t, "x")
		})
	}
}

func TestIsUnserved(t *testing.T) {
	maps := deploytest.ConfigMaps().GroupResource()
	for name, tc := range map[string]struct {
		err  error
		want bool
	}{
		"no error":               {err: nil},
		"object does not exist":  {err: apierrors.NewNotFound(maps, "a")},
		"server is broken":       {err: apierrors.NewGenericServerResponse(http.StatusInternalServerError, "get", maps, "a", "broken", 0, true)},
		"resource is not served": {err: apierrors.NewGenericServerResponse(http.StatusNotFound, "get", maps, "a", "404 page not found", 0, true), want: true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := isUnserved(tc.err); got != tc.want {
				t.Errorf("unserved: %t", got)
			}
		})
	}
}
