package apply_test

import (
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"

	"github.com/fleet-hub/fleet/dev/plane"
	"github.com/fleet-hub/fleet/e2e/framework/helm"
	"github.com/fleet-hub/fleet/internal/cmd/cli/recordedtest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

const recorded = recordedtest.Folder("../testdata/recorded")

var control = plane.Share(plane.Options{BeforeControllers: helm.HubCRDs})

func TestMain(m *testing.M) { os.Exit(control.Main(m)) }

// recordedNamespace is the namespace of all recorded cases. Here each has one of its own.
const recordedNamespace = "rec-apply"

func resources() map[string]schema.GroupVersionResource {
	return map[string]schema.GroupVersionResource{
		"Bundle":    fleet.SchemeGroupVersion.WithResource("bundles"),
		"ImageScan": fleet.SchemeGroupVersion.WithResource("imagescans"),
		"Secret":    corev1.SchemeGroupVersion.WithResource("secrets"),
	}
}

// hub is a namespace on an API server.
type hub struct {
	client    dynamic.Interface
	namespace string
}

func newHub(t *testing.T, namespace string) *hub {
	t.Helper()
	client, err := dynamic.NewForConfig(control.Plane(t).Hub.Config())
	if err != nil {
		t.Fatal(err)
	}
	object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace"}}
	object.SetName(namespace)
	_, err = client.Resource(corev1.SchemeGroupVersion.WithResource("namespaces")).Create(t.Context(), object, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	return &hub{client, namespace}
}

// create creates the objects that are in the cluster before the case.
func (h *hub) create(t *testing.T, documents string, thenDelete bool) {
	t.Helper()
	for _, object := range decode(t, documents) {
		client := h.client.Resource(resources()[object.GetKind()]).Namespace(h.namespace)
		if _, err := client.Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if !thenDelete {
			continue
		}
		if err := client.Delete(t.Context(), object.GetName(), metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// objects returns the objects in the namespace, as the recordings contain them.
func (h *hub) objects(t *testing.T) map[string]any {
	t.Helper()
	found := map[string]any{}
	for kind, resource := range resources() {
		list, err := h.client.Resource(resource).Namespace(h.namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range list.Items {
			found[kind+"/"+item.GetName()] = recordedForm(t, &item)
		}
	}
	return found
}

// versions returns the resource versions of the objects in the namespace.
func (h *hub) versions(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for kind, resource := range resources() {
		list, err := h.client.Resource(resource).Namespace(h.namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range list.Items {
			found[kind+"/"+item.GetName()] = item.GetResourceVersion()
		}
	}
	return found
}

// recordedForm removes what the recordings do not contain.
func recordedForm(t *testing.T, object *unstructured.Unstructured) map[string]any {
	t.Helper()
	for _, field := range []string{"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "finalizers", "deletionGracePeriodSeconds"} {
		unstructured.RemoveNestedField(object.Object, "metadata", field)
	}
	if object.GetDeletionTimestamp() != nil {
		object.Object["metadata"].(map[string]any)["deletionTimestamp"] = "<TIME>"
	}
	delete(object.Object, "status")
	object.SetNamespace(recordedNamespace)
	if owners := object.GetOwnerReferences(); len(owners) > 0 {
		for i := range owners {
			owners[i].UID = "<UID>"
		}
		object.SetOwnerReferences(owners)
	}
	if object.GetKind() != "Secret" {
		return object.Object
	}
	var secret struct {
		Data map[string][]byte `json:"data"`
	}
	text, err := object.MarshalJSON()
	if err == nil {
		err = utilyaml.Unmarshal(text, &secret)
	}
	if err != nil {
		t.Fatal(err)
	}
	decoded := map[string]any{}
	for key, value := range secret.Data {
		decoded[key] = string(value)
	}
	delete(object.Object, "data")
	object.Object["decodedData"] = decoded
	return object.Object
}

func decode(t *testing.T, documents string) []*unstructured.Unstructured {
	t.Helper()
	var objects []*unstructured.Unstructured
	decoder := utilyaml.NewYAMLOrJSONDecoder(strings.NewReader(documents), 4096)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}

// Two differences are on purpose. A Secret of another type that has the name of a Bundle stays: it is not deleted
// (online-foreign-secret), and nothing is written if the Bundle has values (online-foreign-secret-values).
func TestRecordedApplyToCluster_WritesTheSameObjects(t *testing.T) {
	for _, name := range recorded.Cases(t, "online-") {
		t.Run(name, func(t *testing.T) {
			recorded := recorded.Open(t, name)
			h := newHub(t, name)
			h.create(t, recorded.File("before.yaml"), name == "online-deleting")
			got := recorded.Run(t, nil, "--kubeconfig", control.Plane(t).Hub.KubeconfigPath, "-n", h.namespace)
			want, objects := recorded.Want(t), map[string]any{}
			for _, object := range decode(t, want.Stdout) {
				objects[object.GetKind()+"/"+object.GetName()] = object.Object
			}
			switch name {
			case "online-foreign-secret":
				for _, object := range decode(t, recorded.File("before.yaml")) {
					object.Object["decodedData"] = object.Object["stringData"]
					delete(object.Object, "stringData")
					object.SetNamespace(recordedNamespace)
					objects["Secret/"+object.GetName()] = object.Object
				}
			case "online-foreign-secret-values":
				delete(objects, "Bundle/demo-app")
				want.Stderr = "Secret online-foreign-secret-values/demo-app of type kubernetes.io/basic-auth has the name of the Bundle, " +
					"so that its Helm values cannot be stored; rename the Secret, or set `name` in app/fleet.yaml\n"
			}
			if diff := cmp.Diff(objects, h.objects(t)); diff != "" {
				t.Errorf("objects (-want +got):\n%s", diff)
			}
			versions := h.versions(t)
			recorded.Repeat(t, nil, "--kubeconfig", control.Plane(t).Hub.KubeconfigPath, "-n", h.namespace)
			if diff := cmp.Diff(versions, h.versions(t)); diff != "" && name != "online-prune" { // overwrites are for the first time only
				t.Errorf("a second call writes (-want +got):\n%s", diff)
			}
			if got.Stderr != want.Stderr || got.Code != want.Code || got.Stdout != "" {
				t.Errorf("standard error %q, exit code %d; want %q, %d", got.Stderr, got.Code, want.Stderr, want.Code)
			}
		})
	}
}
