package delivery

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func deployed(staged, current string) *fleet.BundleDeployment {
	bd := &fleet.BundleDeployment{ObjectMeta: metav1.ObjectMeta{
		Namespace: "c-one", Name: "web", UID: "u-one", Labels: map[string]string{fleet.LabelCluster: "one"},
	}}
	to(staged, current)(bd)
	return bd
}

func to(staged, current string) func(*fleet.BundleDeployment) {
	return func(bd *fleet.BundleDeployment) {
		bd.Spec.StagedDeploymentID, bd.Spec.DeploymentID = staged, current
	}
}

func TestIsEdited(t *testing.T) {
	tests := map[string]struct {
		change func(*fleet.BundleDeployment)
		want   bool
	}{
		"a status report":               {func(bd *fleet.BundleDeployment) { bd.Generation--; bd.Status.Ready = true }, false},
		"a label":                       {func(bd *fleet.BundleDeployment) { bd.Generation--; bd.Labels["a"] = "b" }, false},
		"a newer state is staged":       {to("s-3:c", "s-1:a"), false},
		"the staged state is promoted":  {to("s-2:b", "s-2:b"), false},
		"both at once":                  {to("s-3:c", "s-3:c"), false},
		"a state that is not staged":    {to("s-2:b", "s-3:c"), true},
		"its options":                   {func(bd *fleet.BundleDeployment) { bd.Spec.Options.ForceSyncGeneration = 1 }, true},
		"a pause":                       {func(bd *fleet.BundleDeployment) { bd.Spec.Paused = true }, true},
		"its copies":                    {func(bd *fleet.BundleDeployment) { bd.Spec.DownstreamResourcesGeneration++ }, false},
		"another object of the name":    {func(bd *fleet.BundleDeployment) { bd.UID = "u-anew"; bd.Spec.Paused = true }, false},
		"something outside of the spec": {func(*fleet.BundleDeployment) {}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			older := deployed("s-2:b", "s-1:a")
			newer := older.DeepCopy()
			newer.Generation++
			test.change(newer)
			if got := IsEdited(older, newer); got != test.want {
				t.Errorf("edited = %v, want %v", got, test.want)
			}
		})
	}
}
