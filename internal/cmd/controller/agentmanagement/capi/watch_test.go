package capi

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/hubtest"
	capirule "github.com/fleet-hub/fleet/internal/rules/capi"
)

func TestServedVersion(t *testing.T) {
	const clusters = `{"kind":"APIResourceList","apiVersion":"v1","resources":[{"name":"machines"},{"name":"clusters"}]}`
	for name, test := range map[string]struct {
		answers map[string]string // by version; "" is an error
		want    string
		fails   bool
	}{
		"both versions":            {map[string]string{"v1beta2": clusters, "v1beta1": clusters}, "v1beta2", false},
		"only the older one":       {map[string]string{"v1beta1": clusters}, "v1beta1", false},
		"not installed":            {nil, "", false},
		"a group without the kind": {map[string]string{"v1beta2": `{"kind":"APIResourceList","apiVersion":"v1","resources":[]}`}, "", false},
		"a failure":                {map[string]string{"v1beta2": ""}, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				for version, answer := range test.answers {
					if r.URL.Path == "/apis/cluster.x-k8s.io/"+version {
						if answer == "" {
							w.WriteHeader(http.StatusInternalServerError)
						}
						w.Header().Set("Content-Type", "application/json")
						_, _ = w.Write([]byte(answer))
						return
					}
				}
				http.NotFound(w, r)
			}))
			t.Cleanup(server.Close)
			from, err := newSource(&rest.Config{Host: server.URL})
			if err != nil {
				t.Fatal(err)
			}
			got, err := from.served(t.Context())
			if got != test.want || (err != nil) != test.fails {
				t.Errorf("version %q, error %v", got, err)
			}
		})
	}
}

// installed is an API server on which Cluster API is installed and removed.
type installed struct {
	mu      sync.Mutex
	version string
	err     error
	told    []string
	synced  int
}

func (i *installed) set(version string, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.version, i.err = version, err
}

func (i *installed) served(context.Context) (string, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.version, i.err
}

func (i *installed) seen(c *capirule.Cluster, deleted bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	what := "have "
	if deleted {
		what = "lost "
	}
	i.told = append(i.told, what+c.Name)
}

func (i *installed) onSynced() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.synced++
}

func TestTheWatch_FollowsTheInstalledVersion(t *testing.T) {
	log := hubtest.New(t).App.Log // its server is outside of the bubble
	synctest.Test(t, func(t *testing.T) {
		server, enabled := &installed{}, true
		gvr := schema.GroupVersionResource{Group: capirule.Group, Version: "v1beta2", Resource: resource}
		object := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": map[string]any{"namespace": ws, "name": "east"},
		}}
		kinds := map[schema.GroupVersionResource]string{gvr: "ClusterList"}
		client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), kinds, object)
		w := newWatch(log, source{served: server.served, informer: func(string) cache.SharedIndexInformer {
			return dynamicinformer.NewFilteredDynamicInformer(client, gvr, metav1.NamespaceAll, 0, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}, nil).Informer()
		}}, server.seen, server.onSynced)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		adjust := func(want string) {
			t.Helper()
			if err := w.adjust(ctx, enabled); (err != nil) != (server.err != nil) {
				t.Errorf("error %v", err)
			}
			synctest.Wait()
			if w.version() != want || (w.current() != nil) != (want != "") {
				t.Errorf("version %q is watched, want %q", w.version(), want)
			}
		}
		adjust("")
		server.set("v1beta1", nil)
		adjust("v1beta1")
		adjust("v1beta1")
		server.set("", errServer)
		adjust("v1beta1") // until discovery answers again
		server.set("v1beta2", nil)
		adjust("v1beta2")
		if keys := w.keysIn(ws); len(keys) != 1 || len(w.keysIn("")) != 1 || len(w.keysIn("other")) != 0 {
			t.Errorf("keys: %v", keys)
		}
		if err := client.Resource(gvr).Namespace(ws).Delete(ctx, "east", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		enabled = false
		adjust("")
		if diff := cmp.Diff([]string{"have east", "have east", "lost east"}, server.told); diff != "" || server.synced != 3 { // the last time when it was disabled
			t.Errorf("synced %d times, told (-want +got):\n%s", server.synced, diff)
		}
	})
}

func TestTheWatch_LooksAtOnceWhenItIsWoken(t *testing.T) {
	asked := make(chan struct{}, 10)
	w := newWatch(hubtest.New(t).App.Log, source{served: func(context.Context) (string, error) {
		asked <- struct{}{}
		return "", errors.New("no answer")
	}}, nil, nil)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.run(ctx, func() bool { return true })
	}()
	<-asked
	w.wake()
	<-asked
	stop()
	<-ended
}
