package rollout_test

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/fleet-hub/fleet/internal/rules/rollout"
	"github.com/fleet-hub/fleet/internal/rules/targeting"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// A new version reaches one cluster; the others wait until that one is ready.
func ExampleDecide() {
	one := intstr.FromInt32(1)
	bundle := &fleet.Bundle{Spec: fleet.BundleSpec{RolloutStrategy: &fleet.RolloutStrategy{MaxUnavailable: &one}}}
	var clusters []*fleet.Cluster
	var steps []rollout.Step
	for _, name := range []string{"east", "north", "west"} {
		clusters = append(clusters, &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}})
		deployed := &fleet.BundleDeployment{}
		deployed.Spec.DeploymentID, deployed.Spec.StagedDeploymentID = "v1", "v1"
		deployed.Status.AppliedDeploymentID, deployed.Status.Ready = "v1", true
		steps = append(steps, rollout.Step{DeploymentID: "v2", Deployment: deployed})
	}
	layout, err := rollout.NewLayout(bundle, clusters, targeting.Groups{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for i := range steps {
		steps[i].Partitions = layout.Of[i]
	}
	decision := rollout.Decide(layout, steps)
	for i, cluster := range clusters {
		fmt.Printf("%s promoted=%t waits for %q\n", cluster.Name, decision.Actions[i] == rollout.Promote, decision.Waits[i])
	}
	// Output:
	// east promoted=true waits for ""
	// north promoted=false waits for "maxUnavailable"
	// west promoted=false waits for "maxUnavailable"
}
