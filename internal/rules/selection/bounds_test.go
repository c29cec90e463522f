package selection

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/rules/targeting"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// A Bundle may be mapped to many workspaces, each with groups.
func TestGroupsOfManyWorkspaces_AreNotComparedWithEach(t *testing.T) {
	const count = 30_000
	in := Input{Bundle: bundle(func(b *fleet.Bundle) { b.Spec.Targets = []fleet.BundleTarget{{ClusterGroup: "prod"}} })}
	for i := range count {
		workspace := fmt.Sprintf("ws-%05d", i)
		in.Reach.Namespaces = append(in.Reach.Namespaces, workspace)
		in.Groups = append(in.Groups, &fleet.ClusterGroup{ObjectMeta: metav1.ObjectMeta{Namespace: workspace, Name: "prod"}})
	}
	began := time.Now()
	out := Decide(in)
	if took := time.Since(began); took > time.Second {
		t.Errorf("%d workspaces took %s", count, took)
	}
	if out.Outcome.Failure != "" || out.Outcome.Unknown != "" {
		t.Errorf("outcome %+v", out.Outcome)
	}
	in.Reach = targeting.Reach{Namespaces: []string{"ws-none"}}
	if out = Decide(in); out.Outcome.Unknown != "" {
		t.Errorf("a group of another workspace, and nothing to keep: %q", out.Outcome.Unknown)
	}
}
