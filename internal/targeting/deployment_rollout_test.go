package targeting

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// What the rollout has not reached keeps both its states and its Secret; what no rollout holds back follows.
func TestWhatIsLeftIsOnlyRefreshed(t *testing.T) {
	in := DeploymentInput{Bundle: bundle(paused), Target: newTarget(t), Verdict: Leave, Existing: existing(t)}
	in.Target.Options.CorrectDrift = &fleet.CorrectDrift{Enabled: true}
	in.Bundle.Spec.DependsOn = []fleet.BundleRef{{Name: "db"}}
	in.Target.Cluster = in.Target.Cluster.DeepCopy()
	in.Target.Cluster.Status.Scheduled = true
	got, err := Deployment(in)
	if err != nil {
		t.Fatal(err)
	}
	want := existing(t)
	want.Labels = deploymentLabelsOf("s-1")
	want.Spec.Paused, want.Spec.OffSchedule, want.Spec.CorrectDrift, want.Spec.DependsOn = true, true, &fleet.CorrectDrift{Enabled: true}, []fleet.BundleRef{{Name: "db"}}
	if diff := cmp.Diff(DeploymentOutcome{Deployment: want, KeepSecret: true}, got); diff != "" {
		t.Errorf("outcome (-want +got):\n%s", diff)
	}
}

// While nothing changes in what is staged, nobody has to read what the Secret holds.
func TestWhatStaysStagedKeepsItsSecret(t *testing.T) {
	first, err := Deployment(DeploymentInput{Bundle: bundle(), Target: newTarget(t), Verdict: Stage, Existing: existing(t), Values: oldValues()})
	if err != nil {
		t.Fatal(err)
	}
	in := DeploymentInput{Bundle: bundle(), Target: newTarget(t), Verdict: Stage, Existing: first.Deployment, SecretKnown: true}
	again, err := Deployment(in)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(DeploymentOutcome{Deployment: first.Deployment, Values: Values{Staged: first.Values.Staged}, KeepSecret: true}, again); diff != "" {
		t.Errorf("again (-first +again):\n%s", diff)
	}
}

func TestNeedsValues(t *testing.T) {
	tests := map[string]struct {
		change func(*DeploymentInput)
		want   bool
	}{
		"what is staged anew":                 {func(*DeploymentInput) {}, true},
		"what is promoted":                    {func(in *DeploymentInput) { in.Verdict = Promote }, false},
		"what is left":                        {func(in *DeploymentInput) { in.Verdict = Leave }, false},
		"what is not there":                   {func(in *DeploymentInput) { in.Existing = nil }, false},
		"what runs without values":            {func(in *DeploymentInput) { in.Existing.Spec.ValuesHash = "" }, false},
		"what stays staged":                   {func(in *DeploymentInput) { in.Target.DeploymentID = oldID }, false},
		"what stays staged, nobody knows how": {func(in *DeploymentInput) { in.Target.DeploymentID, in.SecretKnown = oldID, false }, true},
		"what waits for its values":           {func(in *DeploymentInput) { in.Target.DeploymentID, in.Existing.Spec.WaitingForValues = oldID, true }, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			in := DeploymentInput{Bundle: bundle(), Target: newTarget(t), Verdict: Stage, Existing: existing(t), SecretKnown: true}
			in.Existing.Spec.WaitingForValues = false
			test.change(&in)
			if got := in.NeedsValues(); got != test.want {
				t.Errorf("needs values: %v, want %v", got, test.want)
			}
		})
	}
}
