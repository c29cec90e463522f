package hub

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// listing is an API server with three Clusters, two per page.
type listing struct {
	mu    sync.Mutex
	asked []url.Values
}

func (l *listing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	query := r.URL.Query()
	if !strings.HasSuffix(r.URL.Path, "/clusters") {
		w.WriteHeader(http.StatusNotFound)
		_ = json.NewEncoder(w).Encode(metav1.Status{Status: "Failure", Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound})
		return
	}
	l.mu.Lock()
	l.asked = append(l.asked, query)
	l.mu.Unlock()
	switch {
	case query.Get("watch") != "":
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	case query.Get("continue") == "":
		page := clusterList("a", "b")
		page.Continue = "more"
		_ = json.NewEncoder(w).Encode(page)
	default:
		_ = json.NewEncoder(w).Encode(clusterList("c"))
	}
}

func clusterList(names ...string) *fleet.ClusterList {
	list := &fleet.ClusterList{TypeMeta: metav1.TypeMeta{APIVersion: fleet.SchemeGroupVersion.String(), Kind: "ClusterList"}, ListMeta: metav1.ListMeta{ResourceVersion: "7"}}
	for _, name := range names {
		list.Items = append(list.Items, fleet.Cluster{
			TypeMeta:   metav1.TypeMeta{APIVersion: fleet.SchemeGroupVersion.String(), Kind: "Cluster"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: name, ResourceVersion: "7"},
		})
	}
	return list
}

// requests returns the list requests for Clusters.
func (l *listing) requests() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []string
	for _, query := range l.asked {
		form := "list"
		if query.Get("watch") != "" {
			form = "watch"
		}
		for _, key := range []string{"sendInitialEvents", "limit", "continue", "resourceVersion"} {
			if query.Has(key) {
				form += " " + key + "=" + query.Get(key)
			}
		}
		found = append(found, form)
	}
	return found
}

// A complete list needs the memory of all objects at once in both processes. A streamed list costs the API server
// several times as much as pages.
func TestInformers_ListInPages(t *testing.T) {
	want := []string{"list limit=500", "list limit=500 continue=more", "watch resourceVersion=7"}
	server := &listing{}
	a, err := New(t.Context(), options(t, server, io.Discard))
	if err != nil {
		t.Fatal(err)
	}
	informer := a.Clusters.Informer()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, s := range a.scopes {
		if err := s.caches.Start(ctx); err != nil {
			t.Fatal(err)
		}
	}
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for !informer.HasSynced() || len(server.requests()) < len(want) {
		select {
		case <-again.C:
		case <-ctx.Done():
			t.Fatalf("waiting for %q: %v; there were %q", want, ctx.Err(), server.requests())
		}
	}
	objects := informer.GetStore().List()
	if len(objects) != 3 {
		t.Errorf("the cache has %d Clusters", len(objects))
	}
	for _, object := range objects {
		if cluster, ok := object.(*fleet.Cluster); !ok || cluster.TypeMeta != (metav1.TypeMeta{}) {
			t.Errorf("the cache has %T %v, which is not as events leave it", object, cluster.TypeMeta)
		}
	}
	if diff := cmp.Diff(want, server.requests()[:len(want)]); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

// TestShortLists_AreStreamed counts requests: a stream is the list and the watch in one.
func TestShortLists_AreStreamed(t *testing.T) {
	asked := make(chan string, 10)
	a, err := New(t.Context(), options(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if !strings.HasSuffix(r.URL.Path, "/clustergroups") {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		asked <- r.Method + " sendInitialEvents=" + r.URL.Query().Get("sendInitialEvents")
		group := fleet.ClusterGroup{
			TypeMeta:   metav1.TypeMeta{APIVersion: fleet.SchemeGroupVersion.String(), Kind: "ClusterGroup"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "a", ResourceVersion: "7"},
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"type": "ADDED", "object": group})
		group.ObjectMeta = metav1.ObjectMeta{ResourceVersion: "8", Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}
		_ = json.NewEncoder(w).Encode(map[string]any{"type": "BOOKMARK", "object": group})
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}), io.Discard))
	if err != nil {
		t.Fatal(err)
	}
	informer := a.ClusterGroups.Informer()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := a.scopes[0].caches.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		t.Fatal("the cache did not fill")
	}
	if keys := informer.GetStore().ListKeys(); len(keys) != 1 || keys[0] != "ws/a" {
		t.Errorf("the cache has %q", keys)
	}
	if got := <-asked; got != "GET sendInitialEvents=true" || len(asked) > 0 {
		t.Errorf("requests %q and %d more", got, len(asked))
	}
}
