package delivery

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/rules/objects"
	"github.com/fleet-hub/fleet/internal/rules/rollout"
	"github.com/fleet-hub/fleet/internal/rules/targeting"
	"github.com/fleet-hub/fleet/internal/rules/targeting/targetingtest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

const (
	newID = "s-1:f7707c92b8af72b2cbcda0cb3b72eb59845164574625ed29695c152db2bbd3c6"
	oldID = "s-0:2b3eb1c0044dd55963b580c402f9703533c40396e53a2aa27a2ba991ec15d145"
)

// newTarget returns the newest state of ws/web in cluster east.
func newTarget(t testing.TB, modifiers ...func(*fleet.Cluster)) targeting.Target {
	return targeting.Target{
		Cluster:      targetingtest.Cluster("east", modifiers...),
		Options:      targetingtest.Options(t, `{"defaultNamespace":"ns","helm":{"values":{"a":1}},"keepResources":true}`),
		DeploymentID: newID,
	}
}

func paused(b *fleet.Bundle) { b.Spec.Paused = true }

func deploymentLabelsOf(content string, pairs ...string) map[string]string {
	return targetingtest.Merged(map[string]string{
		"fleet.cattle.io/bundle-name": "web", "fleet.cattle.io/bundle-namespace": "ws", "fleet.cattle.io/managed": "true",
		"fleet.cattle.io/cluster": "east", "fleet.cattle.io/cluster-namespace": "ws", "fleet.cattle.io/content-name": content,
	}, pairs)
}

// existing returns a BundleDeployment with an older state and values, as stored by the server.
func existing(t testing.TB) *fleet.BundleDeployment {
	old := targetingtest.Options(t, `{"helm":{}}`)
	return &fleet.BundleDeployment{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "cluster-ws-east", Name: "web", UID: "u", ResourceVersion: "5", Finalizers: []string{"fleet.cattle.io/bundle-deployment-finalizer", "other"},
			Labels: targetingtest.Merged(nil, []string{"old", "label"}), Annotations: map[string]string{"a": "b"},
		},
		Spec: fleet.BundleDeploymentSpec{
			StagedOptions: old, StagedDeploymentID: oldID, Options: old, DeploymentID: oldID,
			ValuesHash: oldValues().Hash(), DownstreamResourcesGeneration: 7, WaitingForValues: true,
		},
		Status: fleet.BundleDeploymentStatus{AppliedDeploymentID: oldID},
	}
}

func oldValues() *Values {
	return &Values{Current: []byte(`{"old":true}`), Staged: []byte(`{"old":true}`)}
}

func TestNewTarget_GetsDeploymentAndValues(t *testing.T) {
	got, err := Decide(Input{Bundle: targetingtest.Bundle(), Target: newTarget(t), Action: rollout.Promote, PlainInSecrets: true})
	if err != nil {
		t.Fatal(err)
	}
	stripped := targetingtest.Options(t, `{"defaultNamespace":"ns","helm":{},"keepResources":true}`)
	values := Values{Current: []byte(`{"a":1}`), Staged: []byte(`{"a":1}`)}
	want := Outcome{
		Deployment: &fleet.BundleDeployment{
			TypeMeta: metav1.TypeMeta{APIVersion: "fleet.cattle.io/v1alpha1", Kind: "BundleDeployment"},
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "cluster-ws-east", Name: "web", Labels: deploymentLabelsOf("s-1"),
				Finalizers:  []string{"fleet.cattle.io/bundle-deployment-finalizer"},
				Annotations: map[string]string{"fleet.cattle.io/plain-values": values.Hash()},
			},
			Spec: fleet.BundleDeploymentSpec{
				StagedOptions: stripped, StagedDeploymentID: newID, Options: stripped, DeploymentID: newID, ValuesHash: values.Hash(),
			},
		},
		Values: values,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("outcome (-want +got):\n%s", diff)
	}
}

func TestExistingTarget_FollowsTheAction(t *testing.T) {
	stripped := targetingtest.Options(t, `{"defaultNamespace":"ns","helm":{},"keepResources":true}`)
	promoted := existing(t)
	promoted.Labels = deploymentLabelsOf("s-1")
	promoted.Spec = fleet.BundleDeploymentSpec{
		StagedOptions: stripped, StagedDeploymentID: newID, Options: stripped, DeploymentID: newID,
		ValuesHash: Values{Current: []byte(`{"a":1}`), Staged: []byte(`{"a":1}`)}.Hash(), DownstreamResourcesGeneration: 7,
	}
	CopyMark(promoted, &fleet.BundleDeployment{ObjectMeta: metav1.ObjectMeta{
		Annotations: map[string]string{"fleet.cattle.io/plain-values": promoted.Spec.ValuesHash}}})
	stagedValues := Values{Current: []byte(`{"old":true}`), Staged: []byte(`{"a":1}`)}
	staged := existing(t)
	staged.Labels = deploymentLabelsOf("s-1")
	staged.Spec.Paused, staged.Spec.WaitingForValues = true, false
	staged.Spec.StagedOptions, staged.Spec.StagedDeploymentID, staged.Spec.ValuesHash = stripped, newID, stagedValues.Hash()
	lost := staged.DeepCopy()
	lost.Spec.ValuesHash, lost.Spec.WaitingForValues = oldValues().Hash(), true
	changedValues := &Values{Current: []byte(`{"tampered":true}`)}
	tests := map[string]struct {
		action rollout.Action
		values *Values
		want   Outcome
	}{
		"promoted: the agent gets the newest state": {
			rollout.Promote, nil, Outcome{Deployment: promoted, Values: Values{Current: []byte(`{"a":1}`), Staged: []byte(`{"a":1}`)}},
		},
		"staged: the agent keeps its state": {rollout.Stage, oldValues(), Outcome{Deployment: staged, Values: stagedValues}},
		"staged, values lost: waits":        {rollout.Stage, nil, Outcome{Deployment: lost, KeepSecret: true}},
		"staged, values changed: waits":     {rollout.Stage, changedValues, Outcome{Deployment: lost, KeepSecret: true}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			in := Input{Bundle: targetingtest.Bundle(), Target: newTarget(t), Action: test.action, Existing: existing(t), Values: test.values, PlainInSecrets: true}
			if test.action == rollout.Stage {
				in.Bundle = targetingtest.Bundle(paused)
			}
			got, err := Decide(in)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("outcome (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(existing(t), in.Existing); diff != "" {
				t.Errorf("the existing one was changed:\n%s", diff)
			}
			if diff := cmp.Diff(newTarget(t), in.Target); diff != "" {
				t.Errorf("the target was changed:\n%s", diff)
			}
		})
	}
}

// A write that was interrupted after the Secret leaves new staged values with the hash of the old ones. The agent's
// own values are recognised by the deployment ID.
func TestInterruptedWrite_IsFinished(t *testing.T) {
	stagedValues := []byte(`{"a":1}`)
	tests := map[string]struct {
		current, options string
		found            Values
		known            bool
	}{
		"the agent's values": {`{"helm":{"values":{"old":1,"f":1.5}}}`, `{"helm":{}}`, Values{Current: []byte(`{"f":1.5,"old":1}`), Staged: stagedValues}, true},
		"a target adds labels to the namespace": {
			`{"helm":{"values":{"old":1}},"namespaceLabels":{"team":"a"}}`, `{"helm":{},"namespaceLabels":{"team":"a","tier":"b"},"namespaceAnnotations":{"c":"d"}}`,
			Values{Current: []byte(`{"old":1}`), Staged: stagedValues}, true,
		},
		"the agent had none":            {`{"helm":{}}`, `{"helm":{}}`, Values{Staged: stagedValues}, true},
		"other values than the agent's": {`{"helm":{"values":{"old":1}}}`, `{"helm":{}}`, Values{Current: []byte(`{"old":2}`), Staged: stagedValues}, false},
		"invalid JSON":                  {`{"helm":{"values":{"old":1}}}`, `{"helm":{}}`, Values{Current: []byte(`nope`), Staged: stagedValues}, false},
		"values without helm options":   {`{}`, `{}`, Values{Current: []byte(`{"old":2}`), Staged: stagedValues}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			bd := existing(t)
			id, err := targeting.DeploymentID("s-0", targetingtest.Options(t, test.current))
			if err != nil {
				t.Fatal(err)
			}
			bd.Spec.DeploymentID, bd.Spec.Options, bd.Spec.ValuesHash = id, targetingtest.Options(t, test.options), "of before"
			bundle := targetingtest.Bundle(paused)
			bundle.Spec.NamespaceLabels = map[string]string{"team": "a"}
			in := Input{Bundle: bundle, Target: newTarget(t), Action: rollout.Stage, Existing: bd, Values: &test.found}
			got, err := Decide(in)
			if err != nil {
				t.Fatal(err)
			}
			want := Outcome{Deployment: got.Deployment, Values: test.found}
			hash := test.found.Hash()
			if !test.known {
				want, hash = Outcome{Deployment: got.Deployment, KeepSecret: true}, "of before"
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("outcome (-want +got):\n%s", diff)
			}
			if spec := got.Deployment.Spec; spec.ValuesHash != hash || spec.WaitingForValues == test.known {
				t.Errorf("hash %s, waiting %v; want hash %s", spec.ValuesHash, spec.WaitingForValues, hash)
			}
		})
	}
}

func TestStagedTargetWithoutValues_HasNoSecret(t *testing.T) {
	in := Input{Bundle: targetingtest.Bundle(paused), Target: newTarget(t), Action: rollout.Stage}
	in.Target.Options = targetingtest.Options(t, `{"helm":{}}`)
	got, err := Decide(in)
	if err != nil {
		t.Fatal(err)
	}
	want := fleet.BundleDeploymentSpec{Paused: true, StagedOptions: targetingtest.Options(t, `{"helm":{}}`), StagedDeploymentID: newID}
	if diff := cmp.Diff(want, got.Deployment.Spec); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
	if !got.Values.Empty() || got.KeepSecret {
		t.Errorf("unexpected Secret: %+v", got)
	}
}

func TestDerivedFields_FollowBundleAndCluster(t *testing.T) {
	tests := map[string]struct {
		bundle  *fleet.Bundle
		cluster func(*fleet.Cluster)
		options string
		want    func(*fleet.BundleDeploymentSpec)
	}{
		"a paused Bundle":  {targetingtest.Bundle(paused), nil, `{}`, func(s *fleet.BundleDeploymentSpec) { s.Paused = true }},
		"a paused Cluster": {targetingtest.Bundle(), func(c *fleet.Cluster) { c.Spec.Paused = true }, `{}`, func(s *fleet.BundleDeploymentSpec) { s.Paused = true }},
		"off schedule":     {targetingtest.Bundle(), func(c *fleet.Cluster) { c.Status.Scheduled = true }, `{}`, func(s *fleet.BundleDeploymentSpec) { s.OffSchedule = true }},
		"on schedule":      {targetingtest.Bundle(), func(c *fleet.Cluster) { c.Status.Scheduled, c.Status.ActiveSchedule = true, true }, `{}`, func(*fleet.BundleDeploymentSpec) {}},
		"drift": {targetingtest.Bundle(), nil, `{"correctDrift":{"enabled":true}}`, func(s *fleet.BundleDeploymentSpec) {
			s.CorrectDrift = &fleet.CorrectDrift{Enabled: true}
		}},
		"dependencies": {targetingtest.Bundle(func(b *fleet.Bundle) { b.Spec.DependsOn = []fleet.BundleRef{{Name: "db"}} }), nil, `{}`, func(s *fleet.BundleDeploymentSpec) {
			s.DependsOn = []fleet.BundleRef{{Name: "db"}}
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			target := newTarget(t)
			target.Options = targetingtest.Options(t, test.options)
			if test.cluster != nil {
				test.cluster(target.Cluster)
			}
			got, err := Decide(Input{Bundle: test.bundle, Target: target, Action: rollout.Promote})
			if err != nil {
				t.Fatal(err)
			}
			want := fleet.BundleDeploymentSpec{
				StagedOptions: targetingtest.Options(t, test.options), StagedDeploymentID: newID, Options: targetingtest.Options(t, test.options), DeploymentID: newID,
			}
			test.want(&want)
			if diff := cmp.Diff(want, got.Deployment.Spec); diff != "" {
				t.Errorf("spec (-want +got):\n%s", diff)
			}
		})
	}
}

// TestMarkOfPlainValues_NeedsABundleWithoutASecret checks which values an agent may show.
func TestMarkOfPlainValues_NeedsABundleWithoutASecret(t *testing.T) {
	both := Values{Current: []byte(`{"a":1}`), Staged: []byte(`{"a":1}`)}.Hash()
	next := Values{Current: []byte(`{"old":true}`), Staged: []byte(`{"a":1}`)}.Hash()
	old := oldValues().Hash()
	tests := map[string]struct {
		action       rollout.Action
		secret       bool // the Bundle's values come from its Secret
		before, want string
	}{
		"in the Bundle, promoted: marked":                         {action: rollout.Promote, want: both},
		"in a Secret, promoted: the mark goes":                    {action: rollout.Promote, secret: true, before: both},
		"in the Bundle, staged over marked ones: marked":          {action: rollout.Stage, before: old, want: next},
		"in the Bundle, staged over ones of a Secret: not marked": {action: rollout.Stage},
		"in a Secret, staged over marked ones: not marked":        {action: rollout.Stage, secret: true, before: old},
		"nothing changes: the mark stays":                         {action: rollout.NoChange, before: old, want: old},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			in := Input{Bundle: targetingtest.Bundle(), Target: newTarget(t), Action: test.action, Existing: existing(t), Values: oldValues(), PlainInSecrets: true}
			if test.secret {
				in.Bundle.Spec.ValuesHash = "hash"
			}
			objects.Annotate(in.Existing, annotation.PlainValues, test.before)
			got, err := Decide(in)
			if err != nil {
				t.Fatal(err)
			}
			if mark := got.Deployment.Annotations["fleet.cattle.io/plain-values"]; mark != test.want {
				t.Errorf("mark %q, want %q", mark, test.want)
			}
			again := existing(t)
			CopyMark(again, got.Deployment)
			if diff := cmp.Diff(test.want, again.Annotations["fleet.cattle.io/plain-values"]); diff != "" {
				t.Errorf("what is written (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDeploymentLabels(t *testing.T) {
	b := targetingtest.Bundle(func(b *fleet.Bundle) {
		b.Labels = map[string]string{
			"team": "a", "fleet.cattle.io/commit": "c", "fleet.cattle.io/managed": "false", "objectset.rio.cattle.io/hash": "h",
			"management.cattle.io/x": "y", "kubectl.kubernetes.io/x": "y", "cattle.io/creator": "me",
		}
	})
	tests := map[string]struct {
		id   string
		want map[string]string
	}{
		"those of users and of Fleet": {newID, deploymentLabelsOf("s-1", "team", "a", "fleet.cattle.io/commit", "c")},
		"without a manifest there is no Content": {":abc", map[string]string{
			"fleet.cattle.io/bundle-name": "web", "fleet.cattle.io/bundle-namespace": "ws", "fleet.cattle.io/managed": "true",
			"fleet.cattle.io/cluster": "east", "fleet.cattle.io/cluster-namespace": "ws", "team": "a", "fleet.cattle.io/commit": "c",
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			target := newTarget(t)
			target.DeploymentID = test.id
			got, err := Decide(Input{Bundle: b, Target: target, Action: rollout.Promote})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got.Deployment.Labels); diff != "" {
				t.Errorf("labels (-want +got):\n%s", diff)
			}
		})
	}
}

// What is written and read back must count as the same. Otherwise it is written again and again.
func TestSame(t *testing.T) {
	target := newTarget(t)
	target.Options = targetingtest.Options(t, `{"yaml":{},"helm":{"valuesFrom":[],"templateValues":{},"values":{"a":1,"b":[1.5,1.0,null,{}],"big":18446744073709551615,"none":null}},"namespaceLabels":{},"downstreamResources":[],"diff":{},"correctDrift":{}}`)
	out, err := Decide(Input{Bundle: targetingtest.Bundle(), Target: target, Action: rollout.Promote})
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(out.Deployment)
	if err != nil {
		t.Fatal(err)
	}
	var read fleet.BundleDeployment
	if err := json.Unmarshal(text, &read); err != nil {
		t.Fatal(err)
	}
	if !Same(&read, out.Deployment) {
		t.Errorf("what is read back differs: %s", cmp.Diff(out.Deployment, &read))
	}
	if read.Spec.Options.Helm.Values == nil {
		t.Fatal("the values are in a Secret")
	}
	again, err := Decide(Input{Bundle: targetingtest.Bundle(), Target: target, Action: rollout.Promote, Existing: &read})
	if err != nil {
		t.Fatal(err)
	}
	if !Same(&read, again.Deployment) {
		t.Errorf("the second round differs: %s", cmp.Diff(&read, again.Deployment))
	}
	for name, change := range map[string]func(*fleet.BundleDeployment){
		"a label":  func(bd *fleet.BundleDeployment) { bd.Labels["a"] = "b" },
		"the spec": func(bd *fleet.BundleDeployment) { bd.Spec.Paused = true },
	} {
		changed := read.DeepCopy()
		change(changed)
		if Same(&read, changed) {
			t.Errorf("%s makes no difference", name)
		}
	}
}
