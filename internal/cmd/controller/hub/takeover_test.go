package hub

import (
	"io"
	"net/http"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// The watch of Clusters of a standby was interrupted while the leader created a BundleDeployment for another Cluster.
func TestTakeOver_WaitsForTheCacheOfClusters(t *testing.T) {
	list := func(items ...metav1.PartialObjectMetadata) []any {
		return []any{metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadataList"}, Items: items}}
	}
	west := fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "west", ResourceVersion: "7"}}
	s := &server{answers: map[string][]any{
		groupPath + "/clusters": list(metav1.PartialObjectMetadata{ObjectMeta: west.ObjectMeta}), "/api/v1/namespaces": list(),
	}}
	var a *App
	var lists atomic.Int64
	o := options(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == groupPath+"/clusters" && lists.Add(1) == 2 {
			if err := a.Clusters.Informer().GetIndexer().Add(&west); err != nil {
				t.Error(err)
			}
		}
		s.ServeHTTP(w, r)
	}), io.Discard)
	var err error
	if a, err = New(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if err := a.TakeOver(t.Context()); err != nil {
		t.Fatal(err)
	}
	if lists.Load() < 2 {
		t.Errorf("it has taken over after %d lists of Clusters, without a Cluster that exists", lists.Load())
	}
}
