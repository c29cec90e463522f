package rulestest

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

	"github.com/fleet-hub/fleet/e2e/framework/recorded"
	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Placeholders for secrets in the recordings.
const (
	RedactedJWT = "<JWT>"
	RedactedPEM = "<PEM CERTIFICATE>\n"
)

// Recording maps "<kind> <namespace>/<name>" to the objects that Rancher Fleet left on one cluster.
type Recording map[string]*unstructured.Unstructured

func RecordedOn(t *testing.T, cluster string) Recording {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(recorded.Folder(t), cluster, "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no recordings of %s (%v)", cluster, err)
	}
	recorded := Recording{}
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

// Into returns a recorded object as a typed object, or nil if nothing was recorded under the key.
func Into[T any](t *testing.T, r Recording, key string) *T {
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

// Must is Into for objects that must exist.
func Must[T any](t *testing.T, r Recording, key string) *T {
	t.Helper()
	typed := Into[T](t, r, key)
	if typed == nil {
		t.Fatalf("nothing recorded under %q", key)
	}
	return typed
}

// SecretData returns the decodedData of a recorded Secret.
func (r Recording) SecretData(t *testing.T, key string) map[string][]byte {
	t.Helper()
	type decoded struct {
		Data map[string]string `json:"decodedData"`
	}
	return Flat(Must[decoded](t, r, key).Data)
}

// Secret returns a recorded Secret with its data.
func (r Recording) Secret(t *testing.T, key string) *corev1.Secret {
	t.Helper()
	secret := Must[corev1.Secret](t, r, key)
	secret.Data = r.SecretData(t, key)
	return secret
}

// All returns the keys of the recorded objects of a kind.
func (r Recording) All(kind string) (keys []string) {
	for key := range r {
		if strings.HasPrefix(key, kind+" ") {
			keys = append(keys, key)
		}
	}
	return keys
}

// Config returns the hub's recorded configuration.
func (r Recording) Config(t *testing.T) config.Config {
	t.Helper()
	document := Must[corev1.ConfigMap](t, r, "ConfigMap cattle-fleet-system/fleet-controller").Data[names.ConfigKey]
	parsed, warnings, err := config.Parse([]byte(document), config.Config{})
	if err != nil || len(warnings) > 0 {
		t.Fatalf("recorded configuration: %v %v", err, warnings)
	}
	return parsed
}

// Set returns the recorded objects of one set in the form that a rule returns, without the fields that the API server
// and the set's controller add. It checks the ID of the set.
func (r Recording) Set(t *testing.T, id string, owner names.Owner) map[string]map[string]any {
	t.Helper()
	set := map[string]map[string]any{}
	for key, object := range r {
		if object.GetLabels()[fleet.LabelSetHash] != names.SetHash(id, owner) {
			continue
		}
		ExpectEqual(t, key+": set", object.GetAnnotations()[fleet.AnnotationSetID], id)
		set[key] = Bare(object)
	}
	if len(set) == 0 {
		t.Fatalf("nothing recorded of set %s of %+v", id, owner)
	}
	return set
}

// Bare returns an object without the fields that the set's controller and the API server add.
func Bare(object *unstructured.Unstructured) map[string]any {
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

// AsRecorded returns the objects of a rule in the form of a recording: with decoded Secrets and redacted bearer
// tokens.
func AsRecorded(t *testing.T, objects []runtime.Object) map[string]map[string]any {
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
				decoded[key] = bearer.ReplaceAllString(string(value), RedactedJWT)
			}
			plain.Object["decodedData"] = decoded
			delete(plain.Object, "data")
		}
		key := keyOf(plain)
		if found[key] != nil {
			t.Errorf("%s is returned twice", key)
		}
		found[key] = Bare(plain)
	}
	return found
}

// OwnerOf returns the owner of a recorded object's set.
func OwnerOf(kind string, object metav1.Object) names.Owner {
	return names.Owner{GVK: "fleet.cattle.io/v1alpha1, Kind=" + kind, Name: object.GetName(), Namespace: object.GetNamespace()}
}

// Flat converts the values of a map to bytes.
func Flat(entries map[string]string) map[string][]byte {
	document := map[string][]byte{}
	for key, value := range entries {
		document[key] = []byte(value)
	}
	return document
}
