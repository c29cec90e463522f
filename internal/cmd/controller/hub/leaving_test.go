package hub

import (
	"context"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/undecodable"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func TestLeaves(t *testing.T) {
	a, err := New(t.Context(), options(t, &server{answers: map[string][]any{}}, io.Discard))
	if err != nil {
		t.Fatal(err)
	}
	for _, namespace := range []*corev1.Namespace{
		{ObjectMeta: metav1.ObjectMeta{Name: "stays"}},
		{ObjectMeta: metav1.ObjectMeta{Name: "goes", DeletionTimestamp: &metav1.Time{}}},
	} {
		if err := a.AllNamespaces.Informer().GetIndexer().Add(namespace); err != nil {
			t.Fatal(err)
		}
	}
	for namespace, want := range map[string]bool{"stays": false, "goes": true, "unknown": false} {
		if got := a.IsDeletingNamespace(namespace); got != want {
			t.Errorf("%s leaves: %v, want %v", namespace, got, want)
		}
	}
}

func TestOwns_NotWhatIsDecodedIncompletely(t *testing.T) {
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	objects := undecodable.New(slog.New(slog.DiscardHandler), time.Now, func(runtime.Object, string) {})
	media := objects.Serializer(scheme)
	json, _ := runtime.SerializerInfoForMediaType(media.SupportedMediaTypes(), runtime.ContentTypeJSON)
	document := `{"apiVersion":"fleet.cattle.io/v1alpha1","kind":"Cluster","metadata":{"uid":"u","resourceVersion":"9"},"spec":{"paused":"x"}}`
	if _, _, err := media.DecoderToVersion(json.Serializer, fleet.SchemeGroupVersion).Decode([]byte(document), nil, nil); err != nil {
		t.Fatal(err)
	}
	a := &App{undecodable: objects}
	for version, want := range map[string]bool{"8": false, "9": false, "10": true} {
		object := &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{UID: "u", ResourceVersion: version}}
		if got := a.Owns(object); got != want {
			t.Errorf("version %s is reconciled: %t, want %t", version, got, want)
		}
	}
}

func TestFirst_RunsBeforeControllers(t *testing.T) {
	a := &App{}
	var order []string
	a.BeforeControllers(func(context.Context) { order = append(order, "one") })
	a.BeforeControllers(func(context.Context) {
		if order = append(order, "two"); a.MayReconcile() {
			t.Error("the controllers may work already")
		}
	})
	a.prepareControllers(t.Context())
	if diff := cmp.Diff([]string{"one", "two"}, order); diff != "" || !a.MayReconcile() {
		t.Errorf("may reconcile: %v; what was done (-want +got):\n%s", a.MayReconcile(), diff)
	}
}
