package selection

import (
	"fmt"
	"math"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/rules/targeting"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// A Bundle may be mapped to many workspaces, each with groups.
func TestGroupsOfManyWorkspaces_AreNotComparedWithEach(t *testing.T) {
	inputOf := func(workspaces int) Input {
		in := Input{Bundle: bundle(func(b *fleet.Bundle) { b.Spec.Targets = []fleet.BundleTarget{{ClusterGroup: "prod"}} })}
		for i := range workspaces {
			workspace := fmt.Sprintf("ws-%05d", i)
			in.Reach.Namespaces = append(in.Reach.Namespaces, workspace)
			in.Groups = append(in.Groups, &fleet.ClusterGroup{ObjectMeta: metav1.ObjectMeta{Namespace: workspace, Name: "prod"}})
		}
		return in
	}
	// fastest returns the shortest time of several decisions, which other work of the machine disturbs least.
	fastest := func(in Input) time.Duration {
		shortest := time.Duration(math.MaxInt64)
		for range 3 {
			began := time.Now()
			Decide(in)
			shortest = min(shortest, time.Since(began))
		}
		return shortest
	}
	const times = 32
	few, in := inputOf(1000), inputOf(times*1000)
	// In proportion to the workspaces, the ratio is 32. If each is compared with each, it is more than a thousand.
	if ratio := float64(fastest(in)) / float64(fastest(few)); ratio > 4*times {
		t.Errorf("%d times as many workspaces take %.0f times as long", times, ratio)
	}
	out := Decide(in)
	if out.Outcome.Failure != "" || out.Outcome.Unknown != "" {
		t.Errorf("outcome %+v", out.Outcome)
	}
	in.Reach = targeting.Reach{Namespaces: []string{"ws-none"}}
	if out = Decide(in); out.Outcome.Unknown != "" {
		t.Errorf("a group of another workspace, and nothing to keep: %q", out.Outcome.Unknown)
	}
}
