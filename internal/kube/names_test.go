package kube

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/fleet-hub/fleet/internal/kube/kubetest"
)

// namesServer lists one Secret with everything that its metadata can hold, and never says more.
type namesServer struct {
	mu    sync.Mutex
	asked []string // the paths and field selectors of its lists
}

func (s *namesServer) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	query := q.URL.Query()
	if query.Get("watch") != "" {
		if query.Get("sendInitialEvents") != "" {
			kubetest.Answer(w, http.StatusUnprocessableEntity, metav1.Status{
				TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: "Failure", Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid,
			})
			return
		}
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		<-q.Context().Done()
		return
	}
	s.mu.Lock()
	s.asked = append(s.asked, q.URL.Path+"?"+query.Get("fieldSelector"))
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(metav1.PartialObjectMetadataList{
		TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadataList"},
		ListMeta: metav1.ListMeta{ResourceVersion: "9"},
		Items:    []metav1.PartialObjectMetadata{full()},
	})
}

func full() metav1.PartialObjectMetadata {
	return metav1.PartialObjectMetadata{
		TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "n", Name: "s", UID: "u", ResourceVersion: "7", Generation: 3,
			Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"a": "b"}, Finalizers: []string{"f"},
		},
	}
}

func slim() *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "s", UID: "u", ResourceVersion: "7"},
	}
}

func TestNamesInformer(t *testing.T) {
	names := &namesServer{}
	server := httptest.NewServer(names)
	t.Cleanup(server.Close)
	informer, err := NamesInformer(&rest.Config{Host: server.URL}, corev1.SchemeGroupVersion.WithResource("secrets"), "type!=x")
	if err != nil {
		t.Fatal(err)
	}
	go informer.RunWithContext(t.Context())
	if !cache.WaitForCacheSync(t.Context().Done(), informer.HasSynced) {
		t.Fatal("it was not filled")
	}
	if diff := cmp.Diff([]any{slim()}, informer.GetStore().List()); diff != "" {
		t.Errorf("what it keeps (-want +got):\n%s", diff)
	}
	names.mu.Lock()
	defer names.mu.Unlock()
	if diff := cmp.Diff([]string{"/api/v1/secrets?type!=x"}, names.asked); diff != "" {
		t.Errorf("what it asks (-want +got):\n%s", diff)
	}
}

func TestNamesInformer_InvalidHostIsAnError(t *testing.T) {
	_, err := NamesInformer(&rest.Config{Host: "http://["}, corev1.SchemeGroupVersion.WithResource("secrets"), "")
	if err == nil {
		t.Error("it was made")
	}
}

func TestNameAndVersion(t *testing.T) {
	object := full()
	tests := map[string]struct{ in, want any }{
		"object: name and version stay":       {&object, slim()},
		"DeletedFinalStateUnknown: unchanged": {cache.DeletedFinalStateUnknown{Key: "n/s"}, cache.DeletedFinalStateUnknown{Key: "n/s"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := nameAndVersion(test.in)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if diff := cmp.Diff(full(), object); diff != "" {
		t.Errorf("it changed what it was given (-want +got):\n%s", diff)
	}
}
