package undecodable

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/apimachinery/pkg/watch"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	restwatch "k8s.io/client-go/rest/watch"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// serializers returns the hub's serializer for our group, and the general one.
func serializers(t testing.TB, incomplete *Objects) (ours, general runtime.NegotiatedSerializer) {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientscheme.AddToScheme, fleet.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return incomplete.Serializer(scheme), serializer.NewCodecFactory(scheme).WithoutConversion()
}

func sampleCluster(t testing.TB) []byte {
	t.Helper()
	cluster := fleet.Cluster{
		TypeMeta:   typeOf("Cluster"),
		ObjectMeta: metav1.ObjectMeta{Namespace: "fleet-default", Name: "c", ResourceVersion: "7", Labels: map[string]string{"a": "b"}},
	}
	cluster.Spec.ClientID = "id"
	cluster.Status.Namespace = "cluster-ns"
	cluster.Status.Summary.Ready = 3
	encoded, err := json.Marshal(cluster)
	if err != nil {
		t.Fatal(err)
	}
	return encoded
}

// listOf returns a list as an API server writes it.
func listOf(kind string, items ...[]byte) []byte {
	return fmt.Appendf(nil, `{"apiVersion":"fleet.cattle.io/v1alpha1","items":[%s],"kind":"%sList","metadata":{"continue":"more","resourceVersion":"5"}}`, bytes.Join(items, []byte(",")), kind)
}

// decode decodes a JSON document.
func decode(t testing.TB, media runtime.NegotiatedSerializer, document []byte, into runtime.Object) (runtime.Object, error) {
	t.Helper()
	info, ok := runtime.SerializerInfoForMediaType(media.SupportedMediaTypes(), runtime.ContentTypeJSON)
	if !ok {
		t.Fatal("no serializer for JSON")
	}
	object, _, err := media.DecoderToVersion(info.Serializer, fleet.SchemeGroupVersion).Decode(document, nil, into)
	return object, err
}

// event is one event of a watch.
type event struct {
	Type   watch.EventType
	Object runtime.Object
}

// eventLine returns an event as an API server writes it.
func eventLine(kind string, object []byte) string {
	return fmt.Sprintf(`{"type":%q,"object":%s}`+"\n", kind, object)
}

// watchStream reads a stream of events to its end, like a client.
func watchStream(t testing.TB, media runtime.NegotiatedSerializer, stream string) (events []event) {
	t.Helper()
	info, _ := runtime.SerializerInfoForMediaType(media.SupportedMediaTypes(), runtime.ContentTypeJSON)
	frames := info.StreamSerializer.NewFrameReader(io.NopCloser(strings.NewReader(stream)))
	decoder := restwatch.NewDecoder(streaming.NewDecoder(frames, info.StreamSerializer.Serializer), media.DecoderToVersion(info.Serializer, fleet.SchemeGroupVersion))
	defer decoder.Close()
	for {
		kind, object, err := decoder.Decode()
		if errors.Is(err, io.EOF) {
			return events
		}
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, event{kind, object})
	}
}

// An object that cannot be decoded completely does not affect others, whether it comes in a list, a watch or a
// response.
func TestUndecodableObject_DoesNotAffectOthers(t *testing.T) {
	bad := []byte(document("Cluster", "c", `,"spec":{"clientID":"id","paused":"x"}`))
	want := cluster(func(c *fleet.Cluster) { c.Spec.ClientID, c.TypeMeta = "id", metav1.TypeMeta{} })
	good := sampleCluster(t)
	ordinary := &fleet.Cluster{}
	if err := json.Unmarshal(good, ordinary); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		read func(t *testing.T, media runtime.NegotiatedSerializer) (runtime.Object, error)
		want runtime.Object
	}{
		"in a response": {want: want, read: func(t *testing.T, media runtime.NegotiatedSerializer) (runtime.Object, error) {
			return decode(t, media, bad, &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "old"}, Status: fleet.ClusterStatus{Namespace: "old"}})
		}},
		"of any kind": {want: want, read: func(t *testing.T, media runtime.NegotiatedSerializer) (runtime.Object, error) {
			return decode(t, media, bad, nil)
		}},
		"in a list": {
			want: &fleet.ClusterList{ListMeta: metav1.ListMeta{ResourceVersion: "5", Continue: "more"}, Items: []fleet.Cluster{
				*cluster(func(c *fleet.Cluster) { c.Spec.ClientID = "id" }), *ordinary,
			}},
			read: func(t *testing.T, media runtime.NegotiatedSerializer) (runtime.Object, error) {
				return decode(t, media, listOf("Cluster", bad, good), &fleet.ClusterList{})
			},
		},
		"in a watch": {want: want, read: func(t *testing.T, media runtime.NegotiatedSerializer) (runtime.Object, error) {
			events := watchStream(t, media, eventLine("ADDED", good)+eventLine("MODIFIED", bad)+eventLine("DELETED", good))
			if len(events) != 3 {
				t.Fatalf("events %v", events)
			}
			return events[1].Object, nil
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := newReports()
			media, _ := serializers(t, r.Objects)
			got, err := test.read(t, media)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("read (-want +got):\n%s", diff)
			}
			r.expect(t, `msg="object cannot be decoded completely" object="Cluster ws/c" error="undecodable: spec.paused; correct it with: kubectl edit clusters.fleet.cattle.io c --namespace ws"`,
				"spec.paused cannot be decoded, so the object is not reconciled. Correct it with: kubectl edit clusters.fleet.cattle.io c --namespace ws")
		})
	}
}

// Other documents are decoded, or refused, like by the general decoder.
func TestTolerantDecoder(t *testing.T) {
	whole := sampleCluster(t)
	stored := asStored(t, whole)
	tests := map[string]struct {
		data []byte
		into runtime.Object
	}{
		"an API server's Cluster":                {data: stored},
		"an API server's Cluster into a Cluster": {data: stored, into: &fleet.Cluster{Spec: fleet.ClusterSpec{Paused: true}}},
		"an API server's Cluster into a Bundle":  {data: stored, into: &fleet.Bundle{}},
		"a part of an API server's Cluster":      {data: stored[:len(stored)-5]},
		"a Cluster that becomes a Bundle":        {data: fmt.Appendf(nil, `%s,"kind":"Bundle"}`, bytes.TrimSuffix(stored, []byte("}")))},
		"a kind with an escaped letter":          {data: bytes.Replace(stored, []byte("Cluster"), []byte(`Clust\u0065r`), 1)},
		"a Cluster":                              {data: whole},
		"a Cluster into a Cluster":               {data: whole, into: &fleet.Cluster{}},
		"a Cluster into a Bundle":                {data: whole, into: &fleet.Bundle{}},
		"a list":                                 {data: listOf("Cluster", whole, whole), into: &fleet.ClusterList{}},
		"a list of Clusters into Bundles":        {data: listOf("Cluster", whole), into: &fleet.BundleList{}},
		"a list of Clusters into a Cluster":      {data: listOf("Cluster", whole), into: &fleet.Cluster{}},
		"a list into an object of another group": {data: listOf("Cluster", whole), into: &metav1.Status{}},
		"a list of any kind":                     {data: listOf("Cluster", whole)},
		"a part of a list":                       {data: listOf("Cluster", whole)[:70], into: &fleet.ClusterList{}},
		"a kind of another group":                {data: []byte(`{"apiVersion":"v1","kind":"Status","metadata":{},"code":404}`)},
		"an unknown kind":                        {data: []byte(`{"apiVersion":"fleet.cattle.io/v1alpha1","kind":"None","metadata":{}}`)},
		"invalid JSON":                           {data: []byte(`{"apiVersion":"fleet.cattle.io/v1alpha1","kind":"Cluster","metadata":5`)},
		"a part of a document":                   {data: whole[:len(whole)-5]},
		"nothing":                                {},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			ours, general := serializers(t, nil)
			want, wantErr := decode(t, general, test.data, copyOf(test.into))
			got, err := decode(t, ours, test.data, copyOf(test.into))
			if (err == nil) != (wantErr == nil) {
				t.Fatalf("error %v, the general decoder's %v", err, wantErr)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("decoded (-general +got):\n%s", diff)
			}
		})
	}
}

// The general decoder, which goes through a document twice, is not needed for what API servers write.
func TestTolerantDecoder_ReadsOnce(t *testing.T) {
	stored := asStored(t, sampleCluster(t))
	tests := map[string]struct {
		data []byte
		into runtime.Object
	}{
		"an object":               {data: stored},
		"an object into its type": {data: stored, into: &fleet.Cluster{}},
		"a list into its type":    {data: listOf("Cluster", stored, stored), into: &fleet.ClusterList{}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			ours, _ := serializers(t, nil)
			unused := ours.DecoderToVersion(nil, fleet.SchemeGroupVersion).(tolerantDecoder)
			unused.Decoder = nil // calling it panics
			if object, _, err := unused.Decode(test.data, nil, test.into); err != nil || object == nil {
				t.Errorf("decoded %v, %v", object, err)
			}
		})
	}
}

// asStored returns a document as an API server writes an object of a CRD: with its keys sorted.
func asStored(t testing.TB, document []byte) []byte {
	t.Helper()
	var all map[string]any
	if err := json.Unmarshal(document, &all); err != nil {
		t.Fatal(err)
	}
	sorted, err := json.Marshal(all)
	if err != nil || !bytes.HasPrefix(sorted, []byte(documentStart)) {
		t.Fatalf("%s, %v", sorted, err)
	}
	return sorted
}

func copyOf(object runtime.Object) runtime.Object {
	if object == nil {
		return nil
	}
	return object.DeepCopyObject()
}
