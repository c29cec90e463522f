package handshake_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// What the recordings say instead of secrets.
const (
	redactedJWT = "<JWT>"
	redactedPEM = "<PEM CERTIFICATE>\n"
)

// recording is what another implementation has left on one cluster: "<kind> <namespace>/<name>" to object.
type recording map[string]*unstructured.Unstructured

func recordedOn(t *testing.T, cluster string) recording {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", "testdata", "recorded", cluster, "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no recordings of %s (%v)", cluster, err)
	}
	recorded := recording{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, document := range strings.Split(string(content), "\n---\n") {
			object := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			recorded[keyOf(object)] = object
		}
	}
	return recorded
}

func keyOf(object *unstructured.Unstructured) string {
	return object.GetKind() + " " + object.GetNamespace() + "/" + object.GetName()
}

// into is a recorded object as its type; nil if nothing was recorded under the key.
func into[T any](t *testing.T, r recording, key string) *T {
	t.Helper()
	object := r[key]
	if object == nil {
		return nil
	}
	var typed T
	encoded, err := json.Marshal(object.Object)
	if err == nil {
		err = json.Unmarshal(encoded, &typed)
	}
	if err != nil {
		t.Fatalf("%s: %v", key, err)
	}
	return &typed
}

// must is into for what has to be there.
func must[T any](t *testing.T, r recording, key string) *T {
	t.Helper()
	typed := into[T](t, r, key)
	if typed == nil {
		t.Fatalf("nothing recorded under %q", key)
	}
	return typed
}

// secretData is the decodedData of a recorded Secret.
func (r recording) secretData(t *testing.T, key string) map[string][]byte {
	t.Helper()
	type decoded struct {
		Data map[string]string `json:"decodedData"`
	}
	return flat(must[decoded](t, r, key).Data)
}

// secret is a recorded Secret with its data.
func (r recording) secret(t *testing.T, key string) *corev1.Secret {
	t.Helper()
	secret := must[corev1.Secret](t, r, key)
	secret.Data = r.secretData(t, key)
	return secret
}

// all are the recorded objects of a kind, by their key.
func (r recording) all(kind string) (keys []string) {
	for key := range r {
		if strings.HasPrefix(key, kind+" ") {
			keys = append(keys, key)
		}
	}
	return keys
}

// config is the hub's recorded configuration.
func (r recording) config(t *testing.T) config.Config {
	t.Helper()
	document := must[corev1.ConfigMap](t, r, "ConfigMap cattle-fleet-system/fleet-controller").Data[names.ConfigKey]
	parsed, warnings, err := config.Parse([]byte(document), config.Config{})
	if err != nil || len(warnings) > 0 {
		t.Fatalf("recorded configuration: %v %v", err, warnings)
	}
	return parsed
}

// set are the recorded objects of one set, as a rule would return them: without what the API server and the
// keeper of the set add. That the set is the one expected is checked on the way.
func (r recording) set(t *testing.T, id string, owner names.Owner) map[string]map[string]any {
	t.Helper()
	set := map[string]map[string]any{}
	for key, object := range r {
		if object.GetLabels()[fleet.LabelSetHash] != names.SetHash(id, owner) {
			continue
		}
		expectEqual(t, key+": set", object.GetAnnotations()[fleet.AnnotationSetID], id)
		set[key] = bare(object)
	}
	if len(set) == 0 {
		t.Fatalf("nothing recorded of set %s of %+v", id, owner)
	}
	return set
}

// bare is an object without what is added to it on its way to the API server and there.
func bare(object *unstructured.Unstructured) map[string]any {
	object = object.DeepCopy()
	keep := func(entries map[string]string) map[string]string {
		kept := map[string]string{}
		for key, value := range entries {
			if !strings.HasPrefix(key, "objectset.rio.cattle.io/") {
				kept[key] = value
			}
		}
		if len(kept) == 0 {
			return nil
		}
		return kept
	}
	object.SetLabels(keep(object.GetLabels()))
	object.SetAnnotations(keep(object.GetAnnotations()))
	object.SetUID("")
	object.SetOwnerReferences(nil)
	unstructured.RemoveNestedField(object.Object, "metadata", "creationTimestamp")
	unstructured.RemoveNestedField(object.Object, "status")
	return object.Object
}

// asRecorded is what a rule returned, in the form of a recording: Secrets decoded, bearer tokens redacted.
func asRecorded(t *testing.T, objects []runtime.Object) map[string]map[string]any {
	t.Helper()
	found := map[string]map[string]any{}
	for _, object := range objects {
		encoded, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		plain := &unstructured.Unstructured{}
		if err := json.Unmarshal(encoded, &plain.Object); err != nil {
			t.Fatal(err)
		}
		if secret, isSecret := object.(*corev1.Secret); isSecret {
			decoded := map[string]any{}
			for key, value := range secret.Data {
				decoded[key] = bearer.ReplaceAllString(string(value), redactedJWT)
			}
			plain.Object["decodedData"] = decoded
			delete(plain.Object, "data")
		}
		key := keyOf(plain)
		if found[key] != nil {
			t.Errorf("%s is returned twice", key)
		}
		found[key] = bare(plain)
	}
	return found
}

// ownerOf is the owner of a recorded object's set.
func ownerOf(kind string, object metav1.Object) names.Owner {
	return names.Owner{GVK: "fleet.cattle.io/v1alpha1, Kind=" + kind, Name: object.GetName(), Namespace: object.GetNamespace()}
}

// flat is a document with one key for each entry.
func flat(entries map[string]string) map[string][]byte {
	document := map[string][]byte{}
	for key, value := range entries {
		document[key] = []byte(value)
	}
	return document
}
