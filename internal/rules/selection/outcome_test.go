package selection

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fleet-hub/fleet/internal/rules/rollout"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// A target that cannot be written is blocked, unless the result of the write is unknown. Then it counts as the rollout counts it.
func TestTargetStep_SetsBlocked(t *testing.T) {
	told := Target{Namespace: "c-one", DeploymentID: "s-1:2", Partitions: []int{1}}
	tests := map[string]struct {
		change  func(*Target)
		blocked bool
	}{
		"written":                        {func(*Target) {}, false},
		"with a template that fails":     {func(t *Target) { t.Failure = "targeting error: no" }, true},
		"with a write in doubt":          {func(t *Target) { t.Failure, t.Uncertain = "write error: who knows", true }, false},
		"in doubt without an error":      {func(t *Target) { t.Uncertain = true }, false},
		"in doubt and without an ID":     {func(t *Target) { t.Failure, t.Uncertain, t.DeploymentID = "write error: who knows", true, "" }, true},
		"without a namespace":            {func(t *Target) { t.Namespace = "" }, true},
		"without a newest deployment ID": {func(t *Target) { t.DeploymentID = "" }, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			target, bd := told, &fleet.BundleDeployment{}
			test.change(&target)
			want := rollout.Step{DeploymentID: target.DeploymentID, Deployment: bd, Partitions: []int{1}, Blocked: test.blocked, Uncertain: target.Uncertain}
			if diff := cmp.Diff(want, target.Step(bd)); diff != "" {
				t.Errorf("step (-want +got):\n%s", diff)
			}
		})
	}
}
