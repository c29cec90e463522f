package app

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// decoders are the quick one and the general one.
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
	return newQuickJSON(scheme).DecoderToVersion(info.Serializer, fleet.SchemeGroupVersion), codecs.DecoderToVersion(info.Serializer, fleet.SchemeGroupVersion)
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

// Whatever is decoded, the quick decoder and the general one say the same.
func TestQuickJSON(t *testing.T) {
	whole := sampleCluster(t)
	tests := map[string]struct {
		data  []byte
		into  runtime.Object
		quick bool // nothing is left to the general decoder
	}{
		"a Cluster":                      {data: whole, quick: true},
		"a Cluster, asked for":           {data: whole, into: &fleet.Cluster{}, quick: true},
		"a Cluster into one that is old": {data: whole, into: &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "old", Labels: map[string]string{"old": "x"}}}},
		"a Cluster, a Bundle asked for":  {data: whole, into: &fleet.Bundle{}},
		"a Cluster with spaces":          {data: bytes.ReplaceAll(whole, []byte(`":`), []byte(`": `))},
		"a list":                         {data: []byte(`{"apiVersion":"fleet.cattle.io/v1alpha1","kind":"ClusterList","items":[],"metadata":{"resourceVersion":"5"}}`), quick: true},
		"a kind of others":               {data: []byte(`{"apiVersion":"v1","kind":"Status","metadata":{},"code":404}`)},
		"a kind nobody knows":            {data: []byte(`{"apiVersion":"fleet.cattle.io/v1alpha1","kind":"None","metadata":{}}`)},
		"a field of a wrong type":        {data: []byte(`{"apiVersion":"fleet.cattle.io/v1alpha1","kind":"Cluster","metadata":{"name":5}}`)},
		"cut off":                        {data: whole[:len(whole)-5]},
		"nothing":                        {},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			quick, general := decoders(t)
			want, wantGVK, wantErr := general.Decode(test.data, nil, copyOf(test.into))
			if test.quick {
				quick = quickDecoder{Decoder: nil, kinds: quick.(quickDecoder).kinds} //nolint:forcetypeassert // it is what is tested
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

func FuzzQuickJSON(f *testing.F) {
	f.Add(sampleCluster(f))
	f.Add([]byte(`{"apiVersion":"fleet.cattle.io/v1alpha1","kind":"Bundle","spec":{"targets":null}}`))
	quick, general := decoders(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		want, _, wantErr := general.Decode(data, nil, nil)
		got, _, err := quick.Decode(data, nil, nil)
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("error %v, the general decoder's %v", err, wantErr)
		}
		if diff := cmp.Diff(want, got); err == nil && diff != "" {
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
