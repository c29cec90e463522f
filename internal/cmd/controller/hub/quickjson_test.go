package hub

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// decoders returns the fast and the general decoder.
func decoders(t testing.TB) (quick, general runtime.Decoder) {
	t.Helper()
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	codecs := serializer.NewCodecFactory(scheme).WithoutConversion()
	info, there := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), runtime.ContentTypeJSON)
	if !there {
		t.Fatal("nothing decodes JSON")
	}
	return newQuickJSON(scheme, nil).DecoderToVersion(info.Serializer, fleet.SchemeGroupVersion), codecs.DecoderToVersion(info.Serializer, fleet.SchemeGroupVersion)
}

func sampleCluster(t testing.TB) []byte {
	t.Helper()
	cluster := fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet-default", Name: "c", ResourceVersion: "7", Labels: map[string]string{"a": "b"}}}
	cluster.Spec.ClientID = "id"
	cluster.Status.Namespace = "cluster-ns"
	cluster.Status.Summary.Ready = 3
	var document map[string]any
	encoded, err := json.Marshal(cluster)
	if err == nil {
		err = json.Unmarshal(encoded, &document)
	}
	if err != nil {
		t.Fatal(err)
	}
	document["apiVersion"], document["kind"] = "fleet.cattle.io/v1alpha1", "Cluster"
	if encoded, err = json.Marshal(document); err != nil { // in the order of the API server: by name
		t.Fatal(err)
	}
	return encoded
}

// listOf returns a list as an API server writes it.
func listOf(kind string, items ...[]byte) []byte {
	return fmt.Appendf(nil, `{"apiVersion":"fleet.cattle.io/v1alpha1","items":[%s],"kind":"%sList","metadata":{"continue":"more","resourceVersion":"5"}}`, bytes.Join(items, []byte(",")), kind)
}

// Both decoders return the same for every document.
func TestQuickJSON(t *testing.T) {
	whole := sampleCluster(t)
	tests := map[string]struct {
		data  []byte
		into  runtime.Object
		quick bool // the general decoder is not used
	}{
		"a Cluster":                       {data: whole, quick: true},
		"a Cluster, asked for":            {data: whole, into: &fleet.Cluster{}, quick: true},
		"a Cluster into one that is old":  {data: whole, into: &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "old", Labels: map[string]string{"old": "x"}}}},
		"a Cluster, a Bundle asked for":   {data: whole, into: &fleet.Bundle{}},
		"a Cluster with spaces":           {data: bytes.ReplaceAll(whole, []byte(`":`), []byte(`": `))},
		"a list, asked for":               {data: listOf("Cluster", whole, whole), into: &fleet.ClusterList{}, quick: true},
		"a list of none":                  {data: listOf("Cluster"), into: &fleet.ClusterList{}, quick: true},
		"a list, not asked for":           {data: listOf("Cluster", whole)},
		"a list of Bundles asked for":     {data: listOf("Cluster", whole), into: &fleet.BundleList{}},
		"a list in another order":         {data: []byte(`{"apiVersion":"fleet.cattle.io/v1alpha1","kind":"ClusterList","items":[],"metadata":{"resourceVersion":"5"}}`), into: &fleet.ClusterList{}},
		"a Content":                       {data: []byte(`{"apiVersion":"fleet.cattle.io/v1alpha1","content":null,"kind":"Content","metadata":{"name":"s-1"},"sha256sum":"1"}`), quick: true},
		"something with content":          {data: []byte(`{"apiVersion":"fleet.cattle.io/v1alpha1","content":null,"kind":"Bundle","metadata":{"name":"b"}}`)},
		"a Content asked for, and not so": {data: []byte(`{"apiVersion":"fleet.cattle.io/v1alpha1","content":null,"kind":"Bundle","metadata":{"name":"b"}}`), into: &fleet.Content{}},
		"a kind of others":                {data: []byte(`{"apiVersion":"v1","kind":"Status","metadata":{},"code":404}`)},
		"a kind nobody knows":             {data: []byte(`{"apiVersion":"fleet.cattle.io/v1alpha1","kind":"None","metadata":{}}`)},
		"an object that is none":          {data: []byte(`{"apiVersion":"fleet.cattle.io/v1alpha1","kind":"Cluster","metadata":5`)},
		"cut off":                         {data: whole[:len(whole)-5]},
		"nothing":                         {},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			quick, general := decoders(t)
			want, wantGVK, wantErr := general.Decode(test.data, nil, copyOf(test.into))
			if test.quick {
				quick = quickDecoder{Decoder: nil, kinds: quick.(quickDecoder).kinds, trims: newTrims()} //nolint:forcetypeassert // it is what is tested
			}
			got, gvk, err := quick.Decode(test.data, nil, copyOf(test.into))
			if (err == nil) != (wantErr == nil) {
				t.Fatalf("error %v, the general decoder's %v", err, wantErr)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("decoded (-general +quick):\n%s", diff)
			}
			if err == nil && *gvk != *wantGVK {
				t.Errorf("kind %s, the general decoder's %s", gvk, wantGVK)
			}
		})
	}
}

func copyOf(object runtime.Object) runtime.Object {
	if object == nil {
		return nil
	}
	return object.DeepCopyObject()
}

// An object that cannot be decoded completely does not affect others, whether it comes in a list, a watch or a
// response.
func TestUndecodableObject_DoesNotAffectOthers(t *testing.T) {
	bad := document("Cluster", "c", `,"spec":{"clientID":"id","paused":"x"}`)
	want := cluster(func(c *fleet.Cluster) { c.Spec.ClientID, c.TypeMeta = "id", metav1.TypeMeta{} })
	good := sampleCluster(t)
	tests := map[string]struct {
		read func(t *testing.T, media quickJSON) runtime.Object
		want runtime.Object
	}{
		"in an answer": {want: want, read: func(t *testing.T, media quickJSON) runtime.Object {
			return decoded(t, media, bad, &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "old"}, Status: fleet.ClusterStatus{Namespace: "old"}})
		}},
		"as whatever it is": {want: want, read: func(t *testing.T, media quickJSON) runtime.Object { return decoded(t, media, bad, nil) }},
		"written otherwise": {want: want, read: func(t *testing.T, media quickJSON) runtime.Object {
			return decoded(t, media, strings.ReplaceAll(bad, ":", ": "), nil)
		}},
		"in a list": {
			want: &fleet.ClusterList{ListMeta: metav1.ListMeta{ResourceVersion: "5", Continue: "more"}, Items: []fleet.Cluster{
				*cluster(func(c *fleet.Cluster) { c.Spec.ClientID = "id" }), *wholeCluster(t),
			}},
			read: func(t *testing.T, media quickJSON) runtime.Object {
				return decoded(t, media, string(listOf("Cluster", []byte(bad), good)), &fleet.ClusterList{})
			},
		},
		"in a watch": {want: want, read: func(t *testing.T, media quickJSON) runtime.Object {
			events, failed := watching(t, media, strings.NewReader(event("ADDED", good)+event("MODIFIED", []byte(bad))+event("DELETED", good)))
			if failed || len(events) != 3 {
				t.Fatalf("failed %v, events %v", failed, events)
			}
			return events[1].Object
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			scheme, err := newScheme()
			if err != nil {
				t.Fatal(err)
			}
			told := newReports()
			media := newQuickJSON(scheme, told.undecodable)
			got := test.read(t, media)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("read (-want +got):\n%s", diff)
			}
			told.expect(t, `msg="object cannot be decoded completely" object="Cluster ws/c" error="undecodable: spec.paused"`,
				"spec.paused cannot be decoded, so the object is not reconciled. Correct it with: kubectl edit clusters.fleet.cattle.io c --namespace ws")
			if media.odd.Load() {
				t.Error("watches are no longer read quickly")
			}
		})
	}
}

// decoded returns the object decoded from a document.
func decoded(t *testing.T, media runtime.NegotiatedSerializer, document string, into runtime.Object) runtime.Object {
	t.Helper()
	info, _ := runtime.SerializerInfoForMediaType(media.SupportedMediaTypes(), runtime.ContentTypeJSON)
	object, gvk, err := media.DecoderToVersion(info.Serializer, fleet.SchemeGroupVersion).Decode([]byte(document), nil, into)
	if err != nil {
		t.Fatal(err)
	}
	if gvk.Group != fleet.SchemeGroupVersion.Group || into != nil && object != into {
		t.Errorf("read as %s into something else", gvk)
	}
	return object
}

// wholeCluster returns the object decoded from sampleCluster.
func wholeCluster(t *testing.T) *fleet.Cluster {
	t.Helper()
	whole := &fleet.Cluster{}
	if err := json.Unmarshal(sampleCluster(t), whole); err != nil {
		t.Fatal(err)
	}
	return whole
}

func FuzzQuickJSON(f *testing.F) {
	f.Add(sampleCluster(f))
	f.Add([]byte(`{"apiVersion":"fleet.cattle.io/v1alpha1","kind":"Bundle","spec":{"targets":null}}`))
	quick, general := decoders(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		want, _, wantErr := general.Decode(data, nil, nil)
		got, _, err := quick.Decode(data, nil, nil)
		if err == nil && wantErr != nil {
			return // incomplete documents are covered by FuzzDecodeFields and FuzzTrimmed
		}
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("error %v, the general decoder's %v", err, wantErr)
		}
		if err != nil {
			return
		}
		if diff := cmp.Diff(slimOf(t, want), slimOf(t, got)); diff != "" {
			t.Errorf("decoded (-general +quick):\n%s", diff)
		}
	})
}

func BenchmarkQuickJSON(b *testing.B) {
	data := sampleCluster(b)
	quick, general := decoders(b)
	for name, decoder := range map[string]runtime.Decoder{"quick": quick, "general": general} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := decoder.Decode(data, nil, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
