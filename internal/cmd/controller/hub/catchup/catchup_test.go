package catchup_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/catchup"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// cluster returns the metadata of Cluster ws/west in a version.
func cluster(version string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: fleet.SchemeGroupVersion.String(), Kind: "Cluster"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "west", ResourceVersion: version},
	}
}

// await compares a cache of Clusters with an API server. After, if it is not nil, happens three seconds later.
func await(t *testing.T, live, cached *metav1.PartialObjectMetadata, after func(*metadatafake.FakeMetadataClient, cache.Store)) (time.Duration, string, error) {
	t.Helper()
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	client, store := metadatafake.NewSimpleMetadataClient(scheme), cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
	resource := fleet.SchemeGroupVersion.WithResource("clusters")
	if live != nil {
		if err := client.Tracker().Create(resource, live, "ws"); err != nil {
			t.Fatal(err)
		}
	}
	if cached != nil {
		if err := store.Add(cached); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	if after != nil {
		time.AfterFunc(3*time.Second, func() { after(client, store) })
	}
	var log strings.Builder
	err := catchup.Await(t.Context(), client, []catchup.Kind{{Resource: resource, Cache: store}}, slog.New(slog.NewTextHandler(&log, nil)))
	return time.Since(began), log.String(), err
}

// The clock of a bubble shows how long Await waits.
func TestAwait_WaitsUntilTheCacheHasAllListedObjects(t *testing.T) {
	arrives := func(version string) func(*metadatafake.FakeMetadataClient, cache.Store) {
		return func(_ *metadatafake.FakeMetadataClient, store cache.Store) { _ = store.Add(cluster(version)) } // the key function cannot fail
	}
	for name, test := range map[string]struct {
		live, cached *metav1.PartialObjectMetadata
		after        func(*metadatafake.FakeMetadataClient, cache.Store)
		waits        bool // for after
	}{
		"no objects: does not wait":                      {},
		"same version: does not wait":                    {live: cluster("10"), cached: cluster("10")},
		"later version, with more digits: does not wait": {live: cluster("9"), cached: cluster("10")},
		"deleted: waits until the cache does not have it": {cached: cluster("10"), waits: true, after: func(_ *metadatafake.FakeMetadataClient, store cache.Store) {
			_ = store.Delete(cluster("10")) // the key function cannot fail
		}},
		"created meanwhile, and in the cache: waits for nothing else": {cached: cluster("10"), waits: true, after: func(client *metadatafake.FakeMetadataClient, _ cache.Store) {
			_ = client.Tracker().Create(fleet.SchemeGroupVersion.WithResource("clusters"), cluster("11"), "ws") // it does not exist
		}},
		"version without a number: does not wait":          {live: cluster("x"), cached: cluster("y")},
		"missing: waits until it arrives":                  {live: cluster("10"), after: arrives("10"), waits: true},
		"missing: waits until a later version arrives":     {live: cluster("10"), after: arrives("12"), waits: true},
		"earlier version: waits until the current arrives": {live: cluster("10"), cached: cluster("9"), after: arrives("10"), waits: true},
		"missing: waits until it is deleted": {live: cluster("10"), waits: true, after: func(client *metadatafake.FakeMetadataClient, _ cache.Store) {
			_ = client.Tracker().Delete(fleet.SchemeGroupVersion.WithResource("clusters"), "ws", "west") // it exists
		}},
		"changed meanwhile: waits only for the listed version": {live: cluster("10"), waits: true, after: func(client *metadatafake.FakeMetadataClient, store cache.Store) {
			_ = client.Tracker().Update(fleet.SchemeGroupVersion.WithResource("clusters"), cluster("20"), "ws") // it exists
			_ = store.Add(cluster("10"))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				took, log, err := await(t, test.live, test.cached, test.after)
				if err != nil {
					t.Error(err)
				}
				if test.waits != (took >= 3*time.Second) || took < 300*time.Millisecond || took > 5*time.Second {
					t.Errorf("it took %s", took)
				}
				if test.waits != strings.Contains(log, "kinds=clusters.fleet.cattle.io objects=1") {
					t.Errorf("the log is %q", log)
				}
			})
		})
	}
}

func TestAwait_EndsWithAnErrorWhenTheCacheStaysBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		took, _, err := await(t, cluster("10"), nil, nil)
		if !errors.Is(err, catchup.ErrLagging) || !strings.Contains(err.Error(), "1 clusters.fleet.cattle.io") || took != time.Minute {
			t.Errorf("after %s: error %v", took, err)
		}
	})
}

func TestAwait_ListsAgainWhenTheServerIsOverloaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, lists := metadatafake.NewSimpleMetadataClient(metadatafake.NewTestScheme()), 0
		client.PrependReactor("list", "clusters", func(clienttesting.Action) (bool, runtime.Object, error) {
			lists++
			if lists < 3 {
				return true, nil, apierrors.NewTooManyRequestsError("overloaded")
			}
			return true, &metav1.List{}, nil
		})
		kinds := []catchup.Kind{{Resource: fleet.SchemeGroupVersion.WithResource("clusters"), Cache: cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)}}
		if err := catchup.Await(t.Context(), client, kinds, slog.New(slog.DiscardHandler)); err != nil || lists != 3 {
			t.Errorf("%d lists, error %v", lists, err)
		}
	})
}

func TestAwait_EndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		err := catchup.Await(ctx, metadatafake.NewSimpleMetadataClient(metadatafake.NewTestScheme()), nil, slog.New(slog.NewTextHandler(io.Discard, nil)))
		if !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
	})
}
