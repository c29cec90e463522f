package selection

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/rules/targeting"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// A Bundle may be mapped to many workspaces, each with groups.
func TestGroupOfManyWorkspaces_IsKnown(t *testing.T) {
	in := Input{Bundle: bundle(func(b *fleet.Bundle) { b.Spec.Targets = []fleet.BundleTarget{{ClusterGroup: "prod"}} })}
	var groups []*fleet.ClusterGroup
	for i := range 32_000 {
		workspace := fmt.Sprintf("ws-%05d", i)
		in.Reach.Namespaces = append(in.Reach.Namespaces, workspace)
		groups = append(groups, &fleet.ClusterGroup{ObjectMeta: metav1.ObjectMeta{Namespace: workspace, Name: "prod"}})
	}
	in.Groups = targeting.NewGroups(groups)
	out := Decide(in)
	if out.Outcome.Failure != "" || out.Outcome.Unknown != "" {
		t.Errorf("outcome %+v", out.Outcome)
	}
	in.Reach = targeting.Reach{Namespaces: []string{"ws-none", "ws-00001"}}
	if out = Decide(in); out.Outcome.Unknown != "" {
		t.Errorf("a group of another workspace, and nothing to keep: %q", out.Outcome.Unknown)
	}
}
