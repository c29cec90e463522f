package app

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

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// listing is an API server with three Clusters, two on a page. It does not know how to stream lists unless told.
type listing struct {
	streams bool

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
	case query.Get("sendInitialEvents") == "true" && !l.streams:
		w.WriteHeader(http.StatusUnprocessableEntity)
		_ = json.NewEncoder(w).Encode(metav1.Status{Status: "Failure", Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid})
	case query.Get("watch") != "":
		l.watch(w, r)
	case query.Get("continue") == "":
		page := clusterList("a", "b")
		page.Continue = "more"
		_ = json.NewEncoder(w).Encode(page)
	default:
		_ = json.NewEncoder(w).Encode(clusterList("c"))
	}
}

func (l *listing) watch(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Get("sendInitialEvents") == "true" {
		for _, cluster := range clusterList("a", "b", "c").Items {
			_ = json.NewEncoder(w).Encode(map[string]any{"type": "ADDED", "object": cluster})
		}
		end := clusterList("end").Items[0]
		end.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
		_ = json.NewEncoder(w).Encode(map[string]any{"type": "BOOKMARK", "object": end})
	}
	_ = http.NewResponseController(w).Flush()
	<-r.Context().Done()
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

// requests are the ways in which Clusters were asked for.
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

// A list that is answered whole from the API server's cache costs both sides the memory of all objects at once.
func TestListsAreStreamedOrComeInPages(t *testing.T) {
	tests := map[string]struct {
		streams bool
		want    []string
	}{
		"a server that can stream a list": {true, []string{"watch sendInitialEvents=true"}},
		"one that cannot": {false, []string{
			"watch sendInitialEvents=true", "list limit=500", "list limit=500 continue=more", "watch resourceVersion=7",
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			server := &listing{streams: test.streams}
			a, err := New(t.Context(), options(t, server, io.Discard))
			if err != nil {
				t.Fatal(err)
			}
			informer := a.Clusters.Informer()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			for _, s := range a.scopes {
				if err := s.caches.Start(ctx); err != nil {
					t.Fatal(err)
				}
			}
			again := time.NewTicker(5 * time.Millisecond)
			defer again.Stop()
			for !informer.HasSynced() || len(server.requests()) < len(test.want) {
				select {
				case <-again.C:
				case <-ctx.Done():
					t.Fatal(ctx.Err())
				}
			}
			if keys := informer.GetStore().ListKeys(); len(keys) != 3 {
				t.Errorf("the cache has %q", keys)
			}
			got := server.requests()[:len(test.want)]
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}
