package delivery

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fleet-hub/fleet/internal/rules/rollout"
	"github.com/fleet-hub/fleet/internal/rules/targeting/targetingtest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Targets that the rollout has not reached keep both states and their Secret. Fields that no rollout limits are
// updated.
func TestTargetNotReached_KeepsItsStates(t *testing.T) {
	in := Input{Bundle: targetingtest.Bundle(paused), Target: newTarget(t), Action: rollout.NoChange, Existing: existing(t)}
	in.Target.Options.CorrectDrift = &fleet.CorrectDrift{Enabled: true}
	in.Bundle.Spec.DependsOn = []fleet.BundleRef{{Name: "db"}}
	in.Target.Cluster = in.Target.Cluster.DeepCopy()
	in.Target.Cluster.Status.Scheduled = true
	got, err := Decide(in)
	if err != nil {
		t.Fatal(err)
	}
	want := existing(t)
	want.Labels = deploymentLabelsOf("s-1")
	want.Spec.Paused, want.Spec.OffSchedule, want.Spec.CorrectDrift, want.Spec.DependsOn = true, true, &fleet.CorrectDrift{Enabled: true}, []fleet.BundleRef{{Name: "db"}}
	if diff := cmp.Diff(Outcome{Deployment: want, KeepSecret: true}, got); diff != "" {
		t.Errorf("outcome (-want +got):\n%s", diff)
	}
}

// Agents skip what is paused. Rancher Fleet's would otherwise fail for a BundleDeployment without a deployment ID.
func TestTargetThatWasOnlyStaged_IsPausedUntilItsPromotion(t *testing.T) {
	var bd *fleet.BundleDeployment
	for _, test := range []struct {
		action rollout.Action
		want   bool
	}{{rollout.Stage, true}, {rollout.NoChange, true}, {rollout.Stage, true}, {rollout.Promote, false}, {rollout.NoChange, false}} {
		got, err := Decide(Input{Bundle: targetingtest.Bundle(), Target: newTarget(t), Action: test.action, Existing: bd})
		if err != nil {
			t.Fatal(err)
		}
		if bd = got.Deployment; bd.Spec.Paused != test.want || (bd.Spec.DeploymentID == "") != test.want {
			t.Errorf("action %v: paused %t, deployment ID %q", test.action, bd.Spec.Paused, bd.Spec.DeploymentID)
		}
	}
}

// While the staged state does not change, the Secret does not have to be read.
func TestUnchangedStagedState_KeepsItsSecret(t *testing.T) {
	first, err := Decide(Input{Bundle: targetingtest.Bundle(), Target: newTarget(t), Action: rollout.Stage, Existing: existing(t), Values: oldValues()})
	if err != nil {
		t.Fatal(err)
	}
	in := Input{Bundle: targetingtest.Bundle(), Target: newTarget(t), Action: rollout.Stage, Existing: first.Deployment, SecretKnown: true}
	again, err := Decide(in)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Outcome{Deployment: first.Deployment, Values: Values{Staged: first.Values.Staged}, KeepSecret: true}, again); diff != "" {
		t.Errorf("again (-first +again):\n%s", diff)
	}
}

func TestNeedsValues(t *testing.T) {
	tests := map[string]struct {
		change func(*Input)
		want   bool
	}{
		"new state is staged":                              {func(*Input) {}, true},
		"target is promoted":                               {func(in *Input) { in.Action = rollout.Promote }, false},
		"target is left unchanged":                         {func(in *Input) { in.Action = rollout.NoChange }, false},
		"deployment does not exist":                        {func(in *Input) { in.Existing = nil }, false},
		"deployment has no values":                         {func(in *Input) { in.Existing.Spec.ValuesHash = "" }, false},
		"the same state stays staged":                      {func(in *Input) { in.Target.DeploymentID = oldID }, false},
		"the same state stays staged, Secret is not known": {func(in *Input) { in.Target.DeploymentID, in.SecretKnown = oldID, false }, true},
		"the deployment waits for values":                  {func(in *Input) { in.Target.DeploymentID, in.Existing.Spec.WaitingForValues = oldID, true }, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			in := Input{Bundle: targetingtest.Bundle(), Target: newTarget(t), Action: rollout.Stage, Existing: existing(t), SecretKnown: true}
			in.Existing.Spec.WaitingForValues = false
			test.change(&in)
			if got := in.NeedsValues(); got != test.want {
				t.Errorf("needs values: %v, want %v", got, test.want)
			}
		})
	}
}
