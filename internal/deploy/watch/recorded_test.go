package watch

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/fleet-hub/fleet/internal/deploy/deploytest"
	"github.com/fleet-hub/fleet/internal/deploy/hub"
	"github.com/fleet-hub/fleet/internal/deploy/manifest"
	"github.com/fleet-hub/fleet/internal/deploy/outcome"
	"github.com/fleet-hub/fleet/internal/deploy/placement"
	"github.com/fleet-hub/fleet/internal/deploy/release/objects"
	"github.com/fleet-hub/fleet/internal/deploy/source"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// recordedObjects reads the objects of a recorded file.
func recordedObjects(t *testing.T, path string) []*unstructured.Unstructured {
	t.Helper()
	text, err := os.ReadFile("../../../testdata/recorded/" + path + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	objects, err := manifest.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// recordedDeployment returns a recorded BundleDeployment of cluster east.
func recordedDeployment(t *testing.T, name string) *fleet.BundleDeployment {
	t.Helper()
	for _, object := range recordedObjects(t, "hub/bundledeployments") {
		if object.GetName() != name || !strings.Contains(object.GetNamespace(), "-east-") {
			continue
		}
		text, err := object.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		var bd fleet.BundleDeployment
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&bd); err != nil {
			t.Fatal(err)
		}
		return &bd
	}
	t.Fatalf("no BundleDeployment %s", name)
	return nil
}

// recordedLive returns the recorded objects of a release in cluster east.
func recordedLive(t *testing.T, release string) map[manifest.Ref]*unstructured.Unstructured {
	t.Helper()
	live := map[manifest.Ref]*unstructured.Unstructured{}
	for _, kind := range []string{"configmaps", "deployments", "networkpolicies", "serviceaccounts", "clusterroles", "clusterrolebindings"} {
		for _, object := range recordedObjects(t, "east/"+kind) {
			if object.GetAnnotations()[objects.ReleaseNameAnnotation] == release {
				live[manifest.Ref{GroupVersionKind: object.GroupVersionKind(), Namespace: object.GetNamespace(), Name: object.GetName()}] = object
			}
		}
	}
	return live
}

// TestRecordedStatus computes the recorded statuses from the recorded objects. The objects were recorded without
// creation times, so these come from the status.
func TestRecordedStatus(t *testing.T) {
	tests := map[string]struct {
		// change brings the recorded objects to the state at the time of the status.
		change func(manifest.Ref, *unstructured.Unstructured)
	}{
		"hello":            {},
		"fleet-agent-east": {},
		"raw": {func(ref manifest.Ref, object *unstructured.Unstructured) { // when it was not available yet
			if ref.Kind != "Deployment" {
				return
			}
			object.Object["status"] = map[string]any{
				"observedGeneration": int64(1), "replicas": int64(1), "updatedReplicas": int64(1), "unavailableReplicas": int64(1),
				"conditions": []any{
					map[string]any{"type": "Available", "status": "False", "reason": "MinimumReplicasUnavailable", "message": "Deployment does not have minimum availability."},
					map[string]any{"type": "Progressing", "status": "True", "reason": "ReplicaSetUpdated", "message": `ReplicaSet "pause-784ddc56c8" is progressing.`},
				}}
			object.SetGeneration(1)
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			bd := recordedDeployment(t, name)
			want := bd.Status
			created := map[string]metav1.Time{}
			for _, r := range want.Resources {
				created[r.Kind+" "+r.Name] = r.CreatedAt
			}
			p, err := source.New(source.Input{Name: name, ManifestID: "s-0123", Resources: deploytest.ManifestOf(recordedFiles(t, name)).Resources, Options: &bd.Spec.Options})
			if err != nil {
				t.Fatal(err)
			}
			live := recordedLive(t, name)
			tr := &Tracking{set: recordedSet(name), refs: manifestRefs(t, p, bd), seen: map[manifest.Ref]observation{}}
			for ref, object := range live {
				object.SetCreationTimestamp(created[ref.Kind+" "+ref.Name])
				if test.change != nil {
					test.change(ref, object)
				}
				if ref.Kind == "Deployment" && test.change == nil {
					object.SetGeneration(2)
				}
			}
			if err := (&Observer{Clock: deploytest.Noon}).processLive(t.Context(), bd, tr, live, manifest.Objects{}); err != nil {
				t.Fatal(err)
			}

			var got fleet.BundleDeploymentStatus
			at := func(i int) time.Time { return recordedTime(t, want.Conditions[i].LastUpdateTime) }
			outcome.Deployed(&got, at(0), bd.Spec.DeploymentID, want.Release)
			Monitored(&got, at(2), newReport(tr.observedObjects()), bd.Spec.Options.ForceSyncGeneration)
			got.Display = outcome.Displayed(bd, &got)
			// Conditions are in the order of their first appearance, in both.
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-recorded +made:\n%s", diff)
			}
			// The first request has no zero values.
			patch, err := hub.StatusPatch(&fleet.BundleDeployment{}, &got)
			if err != nil {
				t.Fatal(err)
			}
			deploytest.ExpectGolden(t, indent(t, patch))
		})
	}
}

func recordedTime(t *testing.T, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// recordedFiles returns the resources of the recorded Bundle.
func recordedFiles(t *testing.T, name string) map[string]string {
	t.Helper()
	files := map[string]string{}
	for _, object := range recordedObjects(t, "hub/bundles") {
		if object.GetName() != name {
			continue
		}
		resources, _, err := unstructured.NestedSlice(object.Object, "spec", "resources")
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range resources {
			resource, _ := entry.(map[string]any)
			files[fmt.Sprint(resource["name"])] = fmt.Sprint(resource["content"])
		}
	}
	if len(files) == 0 {
		t.Fatalf("no resources of %s", name)
	}
	return files
}

// recordedSet returns the set of a recorded BundleDeployment.
func recordedSet(name string) placement.Set {
	if name == "fleet-agent-east" {
		return placement.AgentSet("")
	}
	return placement.SetOf(name, "")
}

// isNamespaced treats the kinds that a recorded bundle may have as the API server does.
func isNamespaced(gvk schema.GroupVersionKind) (bool, error) {
	return !strings.HasPrefix(gvk.Kind, "ClusterRole"), nil
}

// manifestRefs returns the objects of a bundle in the order of its manifest. It does not render templates: the
// only object of the recorded chart has a literal name.
func manifestRefs(t *testing.T, p *source.Package, bd *fleet.BundleDeployment) []manifest.Ref {
	t.Helper()
	var rendered bytes.Buffer
	for _, template := range p.Chart.Templates {
		text := strings.NewReplacer("{{ .Values.greeting | quote }}", "x", "{{ .Values.cluster | quote }}", "x").Replace(string(template.Data))
		rendered.WriteString("---\n" + text)
	}
	f := &source.PostRenderer{Package: p, Set: recordedSet(bd.Name), TargetNamespace: bd.Spec.Options.TargetNamespace, Namespaced: isNamespaced}
	out, err := f.Run(&rendered)
	if err != nil {
		t.Fatal(err)
	}
	objects, err := manifest.Parse(out.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	var refs []manifest.Ref
	for _, object := range objects {
		ref := manifest.Ref{GroupVersionKind: object.GroupVersionKind(), Namespace: object.GetNamespace(), Name: object.GetName()}
		if ref.Namespace == "" && !strings.HasPrefix(ref.Kind, "ClusterRole") {
			ref.Namespace = placement.NamespaceOf(&bd.Spec.Options)
		}
		refs = append(refs, ref)
	}
	return refs
}

func indent(t *testing.T, text []byte) string {
	t.Helper()
	out, err := yaml.JSONToYAML(text)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
