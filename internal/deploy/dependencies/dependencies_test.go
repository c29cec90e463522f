package dependencies

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/deploy/deploytest"
	"github.com/fleet-hub/fleet/internal/deploy/watch"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func TestDependencies(t *testing.T) {
	named := func(name string, change func(*fleet.BundleDeployment)) *fleet.BundleDeployment {
		return deploytest.Deployment(func(bd *fleet.BundleDeployment) {
			bd.Name = name
			bd.Labels[fleet.LabelBundleName] = name
			watch.Monitored(&bd.Status, deploytest.Noon(), watch.Report{Ready: true, NonModified: true}, 0)
			if change != nil {
				change(bd)
			}
		})
	}
	all := []*fleet.BundleDeployment{
		named("well", nil),
		named("modified", func(bd *fleet.BundleDeployment) { bd.Status.NonModified = false }),
		named("labelled", func(bd *fleet.BundleDeployment) { bd.Labels["tier"] = "db"; bd.Status.Ready = false }),
		named("elsewhere", func(bd *fleet.BundleDeployment) { bd.Labels[fleet.LabelBundleNamespace] = "other" }),
	}
	tests := map[string]struct {
		refs []fleet.BundleRef
		want string
	}{
		"nothing":                              {nil, ""},
		"an empty reference":                   {[]fleet.BundleRef{{}}, ""},
		"one that is ready":                    {[]fleet.BundleRef{{Name: "well"}}, ""},
		"one that is modified":                 {[]fleet.BundleRef{{Name: "well"}, {Name: "modified"}}, "dependent bundle(s) are not ready: [modified]"},
		"one that may be modified":             {[]fleet.BundleRef{{Name: "modified", AcceptedStates: []fleet.BundleState{fleet.Ready, fleet.Modified}}}, ""},
		"one that may only be modified":        {[]fleet.BundleRef{{Name: "well", AcceptedStates: []fleet.BundleState{fleet.Modified}}}, "dependent bundle(s) are not ready: [well]"},
		"a state that does not exist":          {[]fleet.BundleRef{{}, {Name: "well", AcceptedStates: []fleet.BundleState{fleet.Modified, "ready"}}}, `dependent bundle(s) are not ready: [well]; spec.dependsOn[1].acceptedStates[1]: invalid state "ready", valid values are: [Ready NotReady Pending OutOfSync Modified WaitApplied ErrApplied]; correct it on the hub: kubectl edit bundles.fleet.cattle.io -n fleet-default hello`},
		"an accepted and an unknown state":     {[]fleet.BundleRef{{Name: "well", AcceptedStates: []fleet.BundleState{"ready", fleet.Ready}}}, ""},
		"one by its labels":                    {[]fleet.BundleRef{{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "db"}}}}, "dependent bundle(s) are not ready: [labelled]"},
		"two references to one":                {[]fleet.BundleRef{{Name: "modified"}, {Name: "modified"}}, "dependent bundle(s) are not ready: [modified]"},
		"one that does not exist":              {[]fleet.BundleRef{{Name: "nobody"}}, "list bundledeployments: no bundles matching labels fleet.cattle.io/bundle-name=nobody,fleet.cattle.io/bundle-namespace=fleet-default in namespace fleet-default"},
		"one of another namespace":             {[]fleet.BundleRef{{Name: "elsewhere"}}, "list bundledeployments: no bundles matching labels fleet.cattle.io/bundle-name=elsewhere,fleet.cattle.io/bundle-namespace=fleet-default in namespace fleet-default"},
		"name and labels of different bundles": {[]fleet.BundleRef{{Name: "well", Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "db"}}}}, "list bundledeployments: no bundles matching labels fleet.cattle.io/bundle-name=well,fleet.cattle.io/bundle-namespace=fleet-default,tier=db in namespace fleet-default"},
		"invalid selector":                     {[]fleet.BundleRef{{Selector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "x"}}}}}, `reading the selector of a dependency: "x" is not a valid label selector operator`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			bd := deploytest.Deployment(func(bd *fleet.BundleDeployment) { bd.Spec.DependsOn = test.refs })
			before := bd.DeepCopy()
			got := ""
			if err := Check(bd, all); err != nil {
				got = err.Error()
			}
			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
			if diff := cmp.Diff(before, bd); diff != "" {
				t.Errorf("the input was changed:\n%s", diff)
			}
		})
	}
}
