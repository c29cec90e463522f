package delivery

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/e2e/framework/recorded"
	"github.com/fleet-hub/fleet/internal/rules/content"
	"github.com/fleet-hub/fleet/internal/rules/rollout"
	"github.com/fleet-hub/fleet/internal/rules/targeting"
	"github.com/fleet-hub/fleet/internal/rules/targeting/targetingtest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

type recordedSecret struct {
	metav1.ObjectMeta `json:"metadata"`
	Type              corev1.SecretType `json:"type"`
	DecodedData       map[string]string `json:"decodedData"`
}

// The recorded Bundles, Clusters and ClusterGroups give exactly the recorded BundleDeployments and Secrets.
func TestRecordedBundles_GiveTheRecordedDeployments(t *testing.T) {
	clusters := recorded.Objects[fleet.Cluster](t, "clusters")
	groups := targeting.NewGroups(recorded.Objects[fleet.ClusterGroup](t, "clustergroups"))
	deployments := map[types.NamespacedName]*fleet.BundleDeployment{}
	for _, bd := range recorded.Objects[fleet.BundleDeployment](t, "bundledeployments") {
		deployments[targetingtest.Key(bd)] = bd
	}
	secrets := map[types.NamespacedName]*recordedSecret{}
	for _, s := range recorded.Objects[recordedSecret](t, "secrets") {
		if s.Type == fleet.SecretTypeBundleDeployment {
			secrets[targetingtest.Key(s)] = s
		}
	}
	for _, bundle := range recorded.Objects[fleet.Bundle](t, "bundles") {
		selection, err := targeting.NewSelection(bundle)
		if err != nil {
			t.Fatal(err)
		}
		manifest := content.Manifest{Resources: bundle.Spec.Resources}
		for _, target := range selection.Targets(manifest.ID(), inWorkspace(clusters, bundle.Namespace), groups, nil) {
			if target.Err != nil {
				t.Fatal(target.Err)
			}
			out, err := Decide(Input{Bundle: bundle, Target: target, Action: rollout.Promote, PlainInSecrets: true})
			if err != nil {
				t.Fatal(err)
			}
			want := deployments[targetingtest.Key(out.Deployment)]
			delete(deployments, targetingtest.Key(out.Deployment))
			if out.Deployment.Annotations[annotation.PlainValues] != out.Values.Hash() {
				t.Errorf("%s: the values are not marked as plain", out.Deployment.Name)
			}
			expectSameIDInline(t, Input{Bundle: bundle, Target: target, Action: rollout.Promote}, out)
			out.Deployment.Annotations = nil // only the mark, which Rancher Fleet does not have
			expectRecordedDeployment(t, want, out.Deployment)
			expectTakenOver(t, Input{Bundle: bundle, Target: target}, want)
			if out.Values.Empty() {
				continue
			}
			secret := secrets[targetingtest.Key(out.Deployment)]
			delete(secrets, targetingtest.Key(out.Deployment))
			expectRecordedSecret(t, secret, out.Values.Secret(want))
		}
	}
	for missing := range deployments {
		t.Errorf("no target gave BundleDeployment %s", missing)
	}
	for missing := range secrets {
		t.Errorf("no target gave Secret %s", missing)
	}
}

func inWorkspace(clusters []*fleet.Cluster, namespace string) (out []*fleet.Cluster) {
	for _, cluster := range clusters {
		if cluster.Namespace == namespace {
			out = append(out, cluster)
		}
	}
	return out
}

// expectSameIDInline expects the recorded deployment ID and values of a BundleDeployment that has the values itself.
func expectSameIDInline(t *testing.T, in Input, recorded Outcome) {
	t.Helper()
	inline, err := Decide(in)
	if err != nil {
		t.Fatal(err)
	}
	spec := &inline.Deployment.Spec
	if spec.DeploymentID != recorded.Deployment.Spec.DeploymentID || spec.ValuesHash != "" || !inline.Values.Empty() {
		t.Errorf("%s: ID %s, hash %q", targetingtest.Key(inline.Deployment), spec.DeploymentID, spec.ValuesHash)
	}
	if diff := cmp.Diff(recorded.Values, valuesOf(t, inline.Deployment)); diff != "" {
		t.Errorf("values in the BundleDeployment (-recorded +got):\n%s", diff)
	}
	if diff := cmp.Diff(recorded.Deployment.Spec.Options, withoutValues(t, spec.Options)); diff != "" {
		t.Errorf("options without values (-recorded +got):\n%s", diff)
	}
}

// expectTakenOver expects that nothing is written when this project takes over from Rancher Fleet, and that nothing is
// deployed again in either direction: an agent deploys only another deployment ID.
func expectTakenOver(t *testing.T, in Input, theirs *fleet.BundleDeployment) {
	t.Helper()
	for _, in.Action = range []rollout.Action{rollout.Promote, rollout.Stage} {
		for _, in.PlainInSecrets = range []bool{false, true} {
			in.Existing, in.SecretKnown = theirs, true
			taken, err := Decide(in)
			if err != nil {
				t.Fatal(err)
			}
			if !Same(theirs, taken.Deployment) || !taken.KeepSecret && taken.Values.Hash() != theirs.Spec.ValuesHash {
				t.Errorf("taken over, %v: %s", in.Action, cmp.Diff(theirs.Spec, taken.Deployment.Spec))
			}
			in.Existing = nil
			ours, err := Decide(in)
			if err != nil {
				t.Fatal(err)
			}
			if in.Action == rollout.Promote && ours.Deployment.Spec.DeploymentID != theirs.Spec.DeploymentID {
				t.Errorf("%s: Rancher Fleet would deploy %s again as %s", theirs.Name, ours.Deployment.Spec.DeploymentID, theirs.Spec.DeploymentID)
			}
		}
	}
}

func expectRecordedDeployment(t *testing.T, want, got *fleet.BundleDeployment) {
	t.Helper()
	if want == nil {
		t.Fatalf("BundleDeployment %s is not among the recorded", targetingtest.Key(got))
	}
	want = want.DeepCopy()
	want.UID = ""
	want.Status = fleet.BundleDeploymentStatus{}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("BundleDeployment %s (-want +got):\n%s", targetingtest.Key(want), diff)
	}
}

func expectRecordedSecret(t *testing.T, want *recordedSecret, got *corev1.Secret) {
	t.Helper()
	if want == nil {
		t.Fatalf("Secret %s is not among the recorded", targetingtest.Key(got))
	}
	data := map[string]string{}
	for name, value := range got.Data {
		data[name] = string(value)
	}
	want.UID = ""
	if diff := cmp.Diff(want, &recordedSecret{ObjectMeta: got.ObjectMeta, Type: got.Type, DecodedData: data}); diff != "" {
		t.Errorf("Secret %s (-want +got):\n%s", targetingtest.Key(got), diff)
	}
}
