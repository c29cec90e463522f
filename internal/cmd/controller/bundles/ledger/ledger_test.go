package ledger

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/rules/rollout"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func TestLedger(t *testing.T) {
	web := types.NamespacedName{Namespace: "ws", Name: "web"}
	one := Outcome{Generation: 1, Targets: []Target{{Cluster: types.NamespacedName{Namespace: "ws", Name: "one"}}}}
	two := Outcome{Generation: 2}
	l := New()
	l.Set(web, two) // there is no listener yet
	l.Forget(web)
	var told []types.NamespacedName
	l.OnChange(func(key types.NamespacedName) { told = append(told, key) })

	if _, known := l.Get(web); known {
		t.Error("an outcome is known of a Bundle nobody looked at")
	}
	steps := []struct {
		name string
		set  Outcome
		told bool
	}{
		{"the first outcome", one, true},
		{"the same again", Outcome{Generation: 1, Targets: []Target{{Cluster: types.NamespacedName{Namespace: "ws", Name: "one"}}}}, false},
		{"another one", two, true},
	}
	for _, step := range steps {
		told = nil
		l.Set(web, step.set)
		if (len(told) == 1) != step.told {
			t.Errorf("%s: told %v", step.name, told)
		}
		got, known := l.Get(web)
		if diff := cmp.Diff(step.set, got); diff != "" || !known {
			t.Errorf("%s: known %v (-want +got):\n%s", step.name, known, diff)
		}
	}
	l.Forget(web)
	if _, known := l.Get(web); known {
		t.Error("a forgotten outcome is known")
	}
	told = nil
	if l.Set(web, two); len(told) != 1 {
		t.Error("an outcome after a forgotten one tells nobody")
	}
}

// A target that cannot be written is blocked, unless the result of the write is unknown.
func TestTargetStep_SetsBlocked(t *testing.T) {
	told := Target{Namespace: "c-one", DeploymentID: "s-1:2", Partitions: []int{1}}
	tests := map[string]struct {
		change  func(*Target)
		blocked bool
	}{
		"written":                        {func(*Target) {}, false},
		"with a template that fails":     {func(t *Target) { t.Failure = "targeting error: no" }, true},
		"with a write in doubt":          {func(t *Target) { t.Failure, t.InDoubt = "write error: who knows", true }, false},
		"in doubt and without an ID":     {func(t *Target) { t.Failure, t.InDoubt, t.DeploymentID = "write error: who knows", true, "" }, true},
		"without a namespace":            {func(t *Target) { t.Namespace = "" }, true},
		"without a newest deployment ID": {func(t *Target) { t.DeploymentID = "" }, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			target, bd := told, &fleet.BundleDeployment{}
			test.change(&target)
			want := rollout.Step{DeploymentID: target.DeploymentID, Deployment: bd, Partitions: []int{1}, Blocked: test.blocked}
			if diff := cmp.Diff(want, target.Step(bd)); diff != "" {
				t.Errorf("step (-want +got):\n%s", diff)
			}
		})
	}
}
