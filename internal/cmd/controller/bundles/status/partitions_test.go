package status

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"

	"github.com/fleet-hub/fleet/internal/rules/rollout"
	"github.com/fleet-hub/fleet/internal/rules/selection"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// inPartitions is a target with a newest state that is in these partitions.
func inPartitions(cluster string, partitions ...int) selection.Target {
	out := target(cluster, "")
	out.DeploymentID, out.Partitions = "s-2:b", partitions
	return out
}

// In the first partition one cluster is not done, the second one is not reached, and one cluster is silent.
func TestPartitions_AreCountedInTheStatus(t *testing.T) {
	through := func(bd *fleet.BundleDeployment) {
		bd.Spec.StagedDeploymentID, bd.Spec.DeploymentID, bd.Status.AppliedDeploymentID = "s-2:b", "s-2:b", "s-2:b"
	}
	promoted := func(bd *fleet.BundleDeployment) { bd.Spec.StagedDeploymentID, bd.Spec.DeploymentID = "s-2:b", "s-2:b" }
	silent := inPartitions("four", 1)
	silent.Unreachable = true
	in := bundleInput{now: now, outcome: selection.Outcome{
		Rollout: rollout.Layout{MaxUnavailable: 2, Partitions: []rollout.Part{{Name: "first", Count: 2}, {Name: "second", Count: 3, MaxUnavailable: 1}}},
		Targets: []selection.Target{inPartitions("one", 0), inPartitions("two", 0, 1), inPartitions("three", 1), silent},
	}, deployments: []*fleet.BundleDeployment{deployment("one", through), deployment("two", promoted), deployment("three"), deployment("four")}}
	var got fleet.BundleStatus
	setBundleStatus(&got, in, addUp(in))
	waiting := func(cluster string) fleet.NonReadyResource {
		return fleet.NonReadyResource{Name: "ws/" + cluster, BundleState: fleet.WaitApplied}
	}
	silentOne := waiting("four")
	silentOne.Message = "its agent does not report"
	ready := conditions.Get(got.Conditions, "Ready")
	if want := `later partitions wait while more than 0 clusters of partition "first" are unavailable; ` +
		"WaitApplied(3) [Cluster ws/four: its agent does not report]"; ready.Message != want {
		t.Errorf("Ready says %q, want %q", ready.Message, want)
	}
	want := []fleet.PartitionStatus{
		{Name: "first", Count: 2, Unavailable: 1, Summary: fleet.BundleSummary{Ready: 1, WaitApplied: 1, DesiredReady: 2, NonReadyResources: []fleet.NonReadyResource{waiting("two")}}},
		{Name: "second", Count: 3, MaxUnavailable: 1, Unavailable: 1, Summary: fleet.BundleSummary{
			WaitApplied: 3, DesiredReady: 3, NonReadyResources: []fleet.NonReadyResource{silentOne, waiting("three"), waiting("two")},
		}},
	}
	if diff := cmp.Diff(want, got.Partitions); diff != "" {
		t.Errorf("partitions (-want +got):\n%s", diff)
	}
	counts := [5]int{got.Unavailable, got.MaxUnavailable, got.Unreachable, got.UnavailablePartitions, got.MaxUnavailablePartitions}
	if want := [5]int{1, 2, 1, 1, 0}; counts != want {
		t.Errorf("unavailable, at most, unreachable, partitions, at most = %v, want %v", counts, want)
	}
}

func TestReachedLimit_IsReported(t *testing.T) {
	broken := deployment("one", func(bd *fleet.BundleDeployment) {
		bd.Spec.StagedDeploymentID, bd.Spec.DeploymentID, bd.Status.AppliedDeploymentID = "s-2:b", "s-2:b", "s-2:b"
		bd.Status.Ready = false
	})
	limited := func(most int, paused bool) string {
		waiting := inPartitions("two", 0)
		waiting.Paused = paused
		in := bundleInput{now: now, outcome: selection.Outcome{
			Rollout: rollout.Layout{MaxUnavailable: most, Partitions: []rollout.Part{{Name: "All", Count: 2, MaxUnavailable: most}}},
			Targets: []selection.Target{inPartitions("one", 0), waiting},
		}, deployments: []*fleet.BundleDeployment{broken, deployment("two")}}
		var got fleet.BundleStatus
		setBundleStatus(&got, in, addUp(in))
		return conditions.Get(got.Conditions, "Ready").Message
	}
	const summary = "NotReady(1) [Cluster ws/one]; WaitApplied(1) [Cluster ws/two"
	for name, test := range map[string]struct {
		most   int
		paused bool
		want   string
	}{
		"limit of the partition is 0":                  {0, false, `maxUnavailable of partition "All" is 0: its available clusters do not get the newest state until it is higher; ` + summary + "]"},
		"limit is reached":                             {1, false, "available clusters wait while as many clusters are unavailable as maxUnavailable allows, in total or in their partition; " + summary + "]"},
		"limit leaves room: the agent has to apply it": {2, false, summary + "]"},
		"Cluster is paused":                            {2, true, summary + ": spec.paused of the Cluster is true]"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := limited(test.most, test.paused); got != test.want {
				t.Errorf("Ready says\n%q, want\n%q", got, test.want)
			}
		})
	}
}

// A partition that no cluster waits for now is not named, although its limit is 0.
func TestClosedPartition_IsNamedIfItBlocksTheRollout(t *testing.T) {
	const closed = `maxUnavailable of partition "second" is 0: its available clusters do not get the newest state until it is higher; `
	for name, test := range map[string]struct {
		partitions []int // of the cluster that waits
		want       string
	}{
		"the rollout has not reached it":          {[]int{0}, `later partitions wait while more than 1 clusters of partition "first" are unavailable; `},
		"a cluster of an earlier partition is in": {[]int{0, 1}, closed},
	} {
		t.Run(name, func(t *testing.T) {
			broken := func(bd *fleet.BundleDeployment) {
				bd.Spec.StagedDeploymentID, bd.Spec.DeploymentID, bd.Status.Ready = "s-2:b", "s-2:b", false
			}
			in := bundleInput{now: now, outcome: selection.Outcome{
				Rollout: rollout.Layout{MaxUnavailable: 3, Partitions: []rollout.Part{{Name: "first", Count: 2, MaxUnavailable: 1}, {Name: "second", Count: 1}}},
				Targets: []selection.Target{inPartitions("one", 0), inPartitions("two", test.partitions...), inPartitions("three", 1)},
			}, deployments: []*fleet.BundleDeployment{deployment("one", broken), deployment("two"), deployment("three")}}
			var got fleet.BundleStatus
			setBundleStatus(&got, in, addUp(in))
			if message := conditions.Get(got.Conditions, "Ready").Message; !strings.HasPrefix(message, test.want) {
				t.Errorf("Ready says\n%q, want\n%q", message, test.want)
			}
		})
	}
}

func TestPartitionProblems_AreReported(t *testing.T) {
	partitioned := func(status, reason, message string, at time.Time) *genericcondition.GenericCondition {
		c := &genericcondition.GenericCondition{Type: "Partitioned", Reason: reason, Message: message, LastUpdateTime: at.Format(time.RFC3339)}
		c.Status = "False"
		if status == "True" {
			c.Status = "True"
		}
		return c
	}
	var status fleet.BundleStatus
	tell := func(outcome selection.Outcome, at time.Time) *genericcondition.GenericCondition {
		setBundleStatus(&status, bundleInput{outcome: outcome, now: at}, addUp(bundleInput{outcome: outcome}))
		return conditions.Get(status.Conditions, "Partitioned")
	}
	later, latest := now.Add(time.Hour), now.Add(2*time.Hour)
	strange := selection.Outcome{Rollout: rollout.Layout{Problem: "spec.rolloutStrategy.partitions: no"}}
	for i, step := range []struct {
		outcome selection.Outcome
		at      time.Time
		want    *genericcondition.GenericCondition
	}{
		{selection.Outcome{}, now, nil},
		{strange, now, partitioned("False", "PartitionsIncomplete", "spec.rolloutStrategy.partitions: no", now)},
		{strange, later, partitioned("False", "PartitionsIncomplete", "spec.rolloutStrategy.partitions: no", now)},
		{selection.Outcome{Failure: "rollout error: no", FailureReason: "RolloutInvalid"}, later, partitioned("False", "PartitionsIncomplete", "spec.rolloutStrategy.partitions: no", now)},
		{selection.Outcome{}, latest, partitioned("True", "", "", latest)},
	} {
		if diff := cmp.Diff(step.want, tell(step.outcome, step.at)); diff != "" {
			t.Errorf("step %d (-want +got):\n%s", i, diff)
		}
	}
}
