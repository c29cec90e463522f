package copies

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	metadatafake "k8s.io/client-go/metadata/fake"

	"github.com/fleet-hub/fleet/internal/deploy/deploytest"
	"github.com/fleet-hub/fleet/internal/deploy/manifest"
	"github.com/fleet-hub/fleet/internal/deploy/outcome"
	"github.com/fleet-hub/fleet/internal/deploy/placement"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

func TestCopyMeta(t *testing.T) {
	source := deploytest.ObjectOf(t, "apiVersion: v1\nkind: Secret\nmetadata: {name: a, namespace: hub, uid: u, resourceVersion: '7', labels: {a: b, fleet.cattle.io/bundledeployment: other}, annotations: {c: d}, finalizers: [x], ownerReferences: [{name: o}]}\n")
	from := metaOf(t, source)
	before := from.DeepCopy()
	d := &Copier{Options: Options{AgentNamespace: "agents"}}
	got := d.copyMeta(from, "x", "web")
	want := metaOf(t, deploytest.ObjectOf(t, "apiVersion: v1\nkind: Secret\nmetadata: {name: a, namespace: web, labels: {a: b, fleet.cattle.io/bundledeployment: x}, annotations: {c: d, fleet.cattle.io/agent-namespace: agents}}\n"))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(*before, from); diff != "" {
		t.Errorf("the input was changed:\n%s", diff)
	}
	if !sameMeta(got, want) || sameMeta(got, from) {
		t.Error("labels and annotations are all that counts")
	}
	if bare := d.copyMeta(metaOf(t, &unstructured.Unstructured{Object: map[string]any{}}), "x", "web"); bare.Labels[fleet.LabelBundleDeployment] != "x" || !d.copiedIt(bare) {
		t.Errorf("of a source without labels: %v", bare)
	}
	others := *got.DeepCopy()
	others.Annotations[fleet.AnnotationAgentNamespace] = "other"
	if !sameMeta(got, others) || d.copiedIt(others) || d.copiedIt(from) {
		t.Error("whose a copy is does not make it another one")
	}
}

func TestCheckWorkspace(t *testing.T) {
	bd := &fleet.BundleDeployment{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{fleet.LabelBundleNamespace: "a"}}}
	for workspace, allowed := range map[string]bool{"a": true, "b": false, "": false} {
		err := checkWorkspace(bd, "Secret", &metav1.ObjectMeta{Name: "s", Annotations: map[string]string{annotation.CopiedFrom: workspace}})
		if (err == nil) != allowed {
			t.Errorf("copied from %q: %v", workspace, err)
		}
	}
	if err := checkWorkspace(bd, "Secret", &metav1.ObjectMeta{Name: "s"}); err != nil {
		t.Errorf("a copy that does not say where it is from: %v", err)
	}
}

func TestObjectThatIsNotACopy_IsNotReplaced(t *testing.T) {
	meta := func(labels, annotations map[string]string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "web", Name: "s", Labels: labels, Annotations: annotations}
	}
	theirs := meta(map[string]string{"app.kubernetes.io/managed-by": "Helm"}, map[string]string{"meta.helm.sh/release-name": "theirs"})
	original := metav1.ObjectMeta{Namespace: "fleet-local", Name: "s"}
	takes := fleet.BundleDeploymentOptions{Helm: &fleet.HelmOptions{TakeOwnership: true}}
	tests := map[string]struct {
		current  metav1.ObjectMeta
		options  fleet.BundleDeploymentOptions
		sameData bool
		again    bool
		refused  bool
		fix      string
	}{
		"object of another owner":                           {current: theirs, refused: true, fix: "kubectl delete secret -n web s"},
		"object of another owner, helm":                     {current: theirs, options: fleet.BundleDeploymentOptions{Helm: &fleet.HelmOptions{}}, refused: true},
		"object of another owner with the same data":        {current: theirs, sameData: true, refused: true},
		"object of another owner, takeOwnership":            {current: theirs, options: takes},
		"object of this release":                            {current: meta(map[string]string{fleet.LabelSetHash: placement.SetOf("x", "scope").Hash}, theirs.Annotations)},
		"original that a release has deployed":              {current: metav1.ObjectMeta{Namespace: "fleet-local", Name: "s", Labels: map[string]string{fleet.LabelSetHash: placement.SetOf("x", "scope").Hash}}, refused: true},
		"object of another release":                         {current: meta(map[string]string{fleet.LabelSetHash: placement.SetOf("y", "scope").Hash}, theirs.Annotations), refused: true},
		"maybe the original":                                {current: original, refused: true, fix: "do not delete it"},
		"copy of this agent":                                {current: meta(map[string]string{fleet.LabelBundleDeployment: "x"}, map[string]string{fleet.AnnotationAgentNamespace: "agents"})},
		"copy of an agent of Rancher Fleet":                 {current: meta(map[string]string{fleet.LabelBundleDeployment: "x"}, nil)},
		"copy of another BundleDeployment":                  {current: meta(map[string]string{fleet.LabelBundleDeployment: "y"}, nil)},
		"copy that outlived its Bundle":                     {current: meta(nil, map[string]string{fleet.AnnotationAgentNamespace: "agents"})},
		"copy that lost its label and its annotation":       {current: meta(nil, nil), again: true},
		"object without labels where no copy has been made": {current: meta(nil, nil), refused: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			setOf := func(name string) placement.Set { return placement.SetOf(name, "scope") }
			c := &Copier{Options: Options{AgentNamespace: "agents", SetOf: setOf}}
			labels := map[string]string{fleet.LabelBundleNamespace: "fleet-local"}
			bd := &fleet.BundleDeployment{ObjectMeta: metav1.ObjectMeta{Name: "x", Labels: labels}, Spec: fleet.BundleDeploymentSpec{Options: test.options}}
			wanted := c.copyMeta(metav1.ObjectMeta{Name: "s"}, "x", "web")
			_, _, err := c.compareCopy(bd, "Secret", test.current, &wanted, test.sameData, test.again)
			if (err != nil) != test.refused {
				t.Fatalf("error %v", err)
			}
			if test.refused && (outcome.ReasonOf(err) != conditions.ReasonObjectTaken || !strings.Contains(err.Error(), test.fix) ||
				strings.Contains(err.Error(), "kubectl delete") != (test.current.Namespace == "web")) {
				t.Errorf("%s: %v", outcome.ReasonOf(err), err)
			}
		})
	}
}

// A Secret moves from downstreamResources to the manifests, so that the release has taken the copy.
func TestPrune_KeepsCopiesThatTheReleaseHasTaken(t *testing.T) {
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	copyOf := func(name string) *metav1.PartialObjectMetadata {
		return &metav1.PartialObjectMetadata{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: name, Labels: map[string]string{fleet.LabelBundleDeployment: "x"}},
		}
	}
	client := metadatafake.NewSimpleMetadataClient(scheme, copyOf("taken"), copyOf("unwanted"))
	c := &Copier{Options: Options{AgentNamespace: "agents", Metadata: client}}
	bd := &fleet.BundleDeployment{ObjectMeta: metav1.ObjectMeta{Name: "x"}}
	taken := manifest.Ref{GroupVersionKind: schema.GroupVersionKind{Version: "v1", Kind: "Secret"}, Namespace: "web", Name: "taken"}
	if err := c.Prune(t.Context(), bd, &State{surplus: true}, false, []manifest.Ref{taken}); err != nil {
		t.Fatal(err)
	}
	left, err := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: copiedSecrets}).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(left.Items) != 1 || left.Items[0].Name != "taken" {
		t.Errorf("left: %+v", left.Items)
	}
}

// metaOf returns the typed metadata of an object.
func metaOf(t *testing.T, object runtime.Object) metav1.ObjectMeta {
	t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		t.Fatal(err)
	}
	var partial metav1.PartialObjectMetadata
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, &partial); err != nil {
		t.Fatal(err)
	}
	return partial.ObjectMeta
}
