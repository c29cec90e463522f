package deploy

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/fleet-hub/fleet/internal/deploy/deploytest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// sample is an object of one kind, with an edit and the expected drift.
type sample struct {
	Object map[string]any `json:"object"`
	// Edit is a merge patch or a strategic merge patch.
	Edit     map[string]any `json:"edit"`
	EditType string         `json:"editType"`
	// Want is the expected patch in the status, "" for none. WantOnly is the only field that the patch may contain.
	Want     map[string]any `json:"want"`
	WantOnly []string       `json:"wantOnly"`
}

func (s sample) kind() schema.GroupVersionKind {
	return (&unstructured.Unstructured{Object: s.Object}).GroupVersionKind()
}

func (s sample) name() string { return (&unstructured.Unstructured{Object: s.Object}).GetName() }

// samples reads testdata/kinds.yaml.
func samples(t *testing.T, namespace string) []sample {
	t.Helper()
	text, err := os.ReadFile("testdata/kinds.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var found []sample
	if err := yaml.Unmarshal([]byte(strings.ReplaceAll(string(text), "NAMESPACE", namespace)), &found); err != nil {
		t.Fatal(err)
	}
	return found
}

// served returns the kinds of the API server that can be created, deleted and watched, in their preferred
// versions.
func (l *lab) served() map[schema.GroupVersionKind]metav1.APIResource {
	l.t.Helper()
	lists, err := discovery.NewDiscoveryClientForConfigOrDie(l.local).ServerPreferredResources()
	if err != nil {
		l.t.Fatal(err)
	}
	found := map[schema.GroupVersionKind]metav1.APIResource{}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			l.t.Fatal(err)
		}
		for _, resource := range list.APIResources {
			verbs := []string(resource.Verbs)
			if slices.Contains(verbs, "create") && slices.Contains(verbs, "delete") && slices.Contains(verbs, "watch") {
				found[gv.WithKind(resource.Kind)] = resource
			}
		}
	}
	return found
}

// editSample edits an object on east.
func (l *lab) editSample(s sample, resource string, namespaced bool, patch map[string]any) {
	l.t.Helper()
	text, err := json.Marshal(patch)
	if err != nil {
		l.t.Fatal(err)
	}
	patchType := types.MergePatchType
	if s.EditType == "strategic" {
		patchType = types.StrategicMergePatchType
	}
	client := dynamic.NewForConfigOrDie(l.local).Resource(s.kind().GroupVersion().WithResource(resource))
	var do dynamic.ResourceInterface = client
	if namespaced {
		do = client.Namespace(l.Name)
	}
	if _, err := do.Patch(l.t.Context(), s.name(), patchType, text, metav1.PatchOptions{}); err != nil {
		l.t.Errorf("editing %s: %v", s.kind().Kind, err)
	}
}

// expectOnly compares a reported patch with the expectation of a sample.
func (s sample) expectOnly(m fleet.ModifiedStatus) string {
	var got map[string]any
	if err := json.Unmarshal([]byte(m.Patch), &got); err != nil {
		return fmt.Sprintf("patch %q: %v", m.Patch, err)
	}
	if s.WantOnly == nil {
		text, _ := json.Marshal(s.Want)
		var want map[string]any
		_ = json.Unmarshal(text, &want)
		return cmp.Diff(want, got)
	}
	at := any(got)
	for _, key := range s.WantOnly {
		fields, _ := at.(map[string]any)
		if len(fields) != 1 || fields[key] == nil {
			return fmt.Sprintf("not only %v: %s", s.WantOnly, m.Patch)
		}
		at = fields[key]
	}
	return ""
}

// TestObjectsOfEachKind_ShowOnlyRealDrift deploys an object of each kind that the API server knows. No object
// drifts after the deployment, and an edit shows exactly the edited field.
func TestObjectsOfEachKind_ShowOnlyRealDrift(t *testing.T) {
	t.Parallel()
	l := newLab(t, "kinds")
	l.start()
	served := l.served()
	all := samples(t, l.Name)
	covered := map[schema.GroupKind]bool{{Group: "certificates.k8s.io", Kind: "PodCertificateRequest"}: true} // only kubelets create it
	usable := slices.DeleteFunc(all, func(s sample) bool {
		covered[s.kind().GroupKind()] = true
		return !l.serves(s.kind())
	})
	for gvk := range served {
		if !covered[gvk.GroupKind()] && !strings.HasSuffix(gvk.Group, ".example.com") && !strings.HasSuffix(gvk.Group, "cattle.io") {
			t.Errorf("testdata/kinds.yaml has no %s", gvk)
		}
	}
	for i, s := range usable {
		text, err := yaml.Marshal(s.Object)
		if err != nil {
			t.Fatal(err)
		}
		name := fmt.Sprintf("k%02d", i)
		l.apply(bundle{Name: name, Files: map[string]string{"object.yaml": string(text)}, Options: deploytest.InNamespace(l.Name)})
	}
	for i, s := range usable {
		t.Run(s.kind().GroupVersion().String()+" "+s.kind().Kind, func(t *testing.T) {
			name := fmt.Sprintf("k%02d", i)
			l := &lab{t: t, Name: l.Name, Hub: l.Hub, HubCore: l.HubCore, East: l.East, local: l.local}
			l.expectStatus(name, func(bd *fleet.BundleDeployment) string {
				if bd.Status.AppliedDeploymentID == "" {
					return "not applied"
				}
				return modified()(bd)
			})
			if len(s.Want) == 0 && s.WantOnly == nil {
				return
			}
			mapping := l.mappingOf(s.kind())
			l.editSample(s, mapping.Name, mapping.Namespaced, s.Edit)
			l.expectStatus(name, func(bd *fleet.BundleDeployment) string {
				if len(bd.Status.ModifiedStatus) != 1 {
					return fmt.Sprintf("%d objects are modified", len(bd.Status.ModifiedStatus))
				}
				return s.expectOnly(bd.Status.ModifiedStatus[0])
			})
		})
	}
	for i := range usable { // cluster-scoped objects would disturb other tests
		l.delete(fmt.Sprintf("k%02d", i))
	}
	for i := range usable {
		l.expectNoRelease(l.Name, fmt.Sprintf("k%02d", i))
	}
}

// mappingOf returns the mapping of a kind. serves reports whether the API server serves it.
func (l *lab) mappingOf(gvk schema.GroupVersionKind) metav1.APIResource {
	l.t.Helper()
	list, err := discovery.NewDiscoveryClientForConfigOrDie(l.local).ServerResourcesForGroupVersion(gvk.GroupVersion().String())
	if err != nil {
		return metav1.APIResource{}
	}
	i := slices.IndexFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Kind == gvk.Kind && !strings.Contains(r.Name, "/") })
	if i < 0 {
		return metav1.APIResource{}
	}
	return list.APIResources[i]
}

func (l *lab) serves(gvk schema.GroupVersionKind) bool { return l.mappingOf(gvk).Name != "" }
