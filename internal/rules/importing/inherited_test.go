package importing_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/rules/importing"
	"github.com/fleet-hub/fleet/internal/rules/rulestest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

// theirBundle returns an agent's Bundle written by Rancher Fleet. A cache keeps only the key of the annotation.
func theirBundle() *fleet.Bundle {
	return &fleet.Bundle{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{fleet.AnnotationSetApplied: ""}}}
}

func TestInherited(t *testing.T) {
	ours := &fleet.Bundle{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{fleet.AnnotationSetID: "fleet-manage-agent"}}}
	kubeconfig := func(c *fleet.Cluster) { c.Spec.KubeConfigSecret = "k" }
	deployed := func(c *fleet.Cluster) { c.Status.AgentDeployedGeneration = rulestest.Ptr(int64(0)) }
	heard := func(c *fleet.Cluster) { c.Status.Agent.LastSeen = rulestest.At(0) }
	takeOver := func(value string) func(*fleet.Cluster) {
		return func(c *fleet.Cluster) {
			c.Annotations = map[string]string{annotation.TakeOverAgent: value}
		}
	}
	of := func(changes ...func(*fleet.Cluster)) *fleet.Cluster { return rulestest.ACluster(changes...) }
	request := func(granted bool) []*fleet.ClusterRegistration {
		return []*fleet.ClusterRegistration{rulestest.ARequest(func(r *fleet.ClusterRegistration) { r.Status.Granted = granted })}
	}
	tests := map[string]struct {
		cluster  *fleet.Cluster
		bundle   *fleet.Bundle
		requests []*fleet.ClusterRegistration
		want     bool
	}{
		"imported agent with a Bundle of Rancher Fleet":              {of(kubeconfig, deployed), theirBundle(), nil, true},
		"agent with a kubeconfig that has reported":                  {of(kubeconfig, heard), theirBundle(), nil, true},
		"agent without a kubeconfig that has reported":               {of(heard), theirBundle(), nil, true},
		"granted agent without a kubeconfig that has not reported":   {of(), theirBundle(), request(true), true},
		"without a kubeconfig, no agent has asked: not inherited":    {of(), theirBundle(), nil, false},
		"without a kubeconfig, no agent was granted: not inherited":  {of(), theirBundle(), request(false), false},
		"without a kubeconfig any more, was deployed with one":       {of(deployed), theirBundle(), nil, true},
		"another agent was granted, not deployed yet: not inherited": {of(kubeconfig), theirBundle(), request(true), false},
		"annotation with a value other than true":                    {of(kubeconfig, deployed, takeOver("soon")), theirBundle(), nil, true},
		"annotation true: not inherited":                             {of(kubeconfig, deployed, takeOver("true")), theirBundle(), nil, false},
		"agent that is not deployed yet: not inherited":              {of(kubeconfig), theirBundle(), nil, false},
		"Bundle of this hub: not inherited":                          {of(kubeconfig, deployed), ours, nil, false},
		"no Bundle: not inherited":                                   {of(kubeconfig, deployed), nil, nil, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := importing.Inherited(test.cluster, test.bundle, test.requests); got != test.want {
				t.Errorf("inherited: %t", got)
			}
		})
	}
}
