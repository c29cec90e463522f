package status

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/fleet-hub/fleet/e2e/framework/recorded"
	"github.com/fleet-hub/fleet/internal/cmd/controller/bundles/index"
	"github.com/fleet-hub/fleet/internal/reconcile"
	"github.com/fleet-hub/fleet/internal/rules/rollout"
	"github.com/fleet-hub/fleet/internal/rules/selection"
	"github.com/fleet-hub/fleet/internal/rules/supervision"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

var now = time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)

// withoutTimes leaves out when conditions were written.
func withoutTimes(conditions []genericcondition.GenericCondition) []genericcondition.GenericCondition {
	for i := range conditions {
		conditions[i].LastUpdateTime = ""
	}
	return conditions
}

func TestRecordedBundles_HaveTheRecordedStatus(t *testing.T) {
	all := recorded.Objects[fleet.BundleDeployment](t, "bundledeployments")
	for _, b := range recorded.Objects[fleet.Bundle](t, "bundles") {
		in := bundleInput{outcome: selection.Outcome{Generation: 1, ManifestHash: b.Status.ResourcesSHA256Sum}, now: now}
		for _, bd := range all {
			if index.BundleOf(bd) == reconcile.KeyOf(b) {
				in.deployments = append(in.deployments, bd)
				in.outcome.Targets = append(in.outcome.Targets, selection.Target{Cluster: index.ClusterOf(bd), Namespace: bd.Namespace})
			}
		}
		var got fleet.BundleStatus
		setBundleStatus(&got, undivided(in), addUp(undivided(in)))
		want := b.Status
		withoutTimes(want.Conditions)
		withoutTimes(got.Conditions)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("status of %s (-want +got):\n%s", b.Name, diff)
		}
	}
}

// The recorded status does not change, except for AgentReporting, which Rancher Fleet does not have.
func TestRecordedClusters_HaveTheRecordedStatus(t *testing.T) {
	all := recorded.Objects[fleet.BundleDeployment](t, "bundledeployments")
	for _, c := range recorded.Objects[fleet.Cluster](t, "clusters") {
		in := clusterInput{reporting: supervision.ReportingHeard, now: now}
		for _, bd := range all {
			if bd.Namespace == c.Status.Namespace {
				in.deployments = append(in.deployments, bd)
			}
		}
		got := c.DeepCopy()
		setClusterStatus(got, in)
		want := c.DeepCopy()
		ours := genericcondition.GenericCondition{Type: "AgentReporting", Status: "True"}
		conditions.Set(&want.Status.Conditions, now, ours)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.Name, diff)
		}
		status := &got.Status
		status.Summary, status.ResourceCounts, status.Display = fleet.BundleSummary{}, fleet.ResourceCounts{}, fleet.ClusterDisplay{}
		status.Conditions = nil
		setClusterStatus(got, in)
		ready := *conditions.Get(c.Status.Conditions, conditions.Ready)
		ready.LastUpdateTime = ""
		if diff := cmp.Diff([]genericcondition.GenericCondition{ready, ours}, withoutTimes(status.Conditions)); diff != "" {
			t.Errorf("conditions of %s (-want +got):\n%s", c.Name, diff)
		}
		status.Conditions = want.Status.Conditions
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s from nothing (-want +got):\n%s", c.Name, diff)
		}
	}
}

func deployment(cluster string, modifiers ...func(*fleet.BundleDeployment)) *fleet.BundleDeployment {
	bd := &fleet.BundleDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "c-" + cluster, Name: "web", Labels: map[string]string{
			fleet.LabelCluster: cluster, fleet.LabelClusterNamespace: "ws",
		}},
		Spec:   fleet.BundleDeploymentSpec{StagedDeploymentID: "s-1:a", DeploymentID: "s-1:a"},
		Status: fleet.BundleDeploymentStatus{AppliedDeploymentID: "s-1:a", Ready: true, NonModified: true},
	}
	for _, modify := range modifiers {
		modify(bd)
	}
	return bd
}

func target(cluster, failure string) selection.Target {
	return selection.Target{Cluster: types.NamespacedName{Namespace: "ws", Name: cluster}, Namespace: "c-" + cluster, Failure: failure}
}

// undivided fills in what a rollout without limits has to say about the targets, whose newest state is what is staged.
func undivided(in bundleInput) bundleInput {
	layout := rollout.Undivided(len(in.outcome.Targets))
	in.outcome.Targets = slices.Clone(in.outcome.Targets)
	for i := range in.outcome.Targets {
		target := &in.outcome.Targets[i]
		target.Partitions = layout.Of[i]
		if target.Failure == "" {
			target.DeploymentID = "s-1:a"
		}
		for _, bd := range in.deployments {
			if bd.Namespace == target.Namespace && target.Failure == "" {
				target.DeploymentID = bd.Spec.StagedDeploymentID
			}
		}
	}
	in.outcome.Rollout = layout
	in.outcome.Rollout.Of = nil
	return in
}

// notInstalled is the status after a failure that is not tried again.
func notInstalled(bd *fleet.BundleDeployment) {
	bd.Status.Ready = false
	bd.Status.Conditions = []genericcondition.GenericCondition{
		{Type: conditions.Deployed, Status: "True"},
		{Type: conditions.Installed, Status: "False", Reason: conditions.ReasonError, Message: "not installed: YAML parse error"},
	}
}

// fails returns a change to the status after a deployment that failed for a reason.
func fails(reason string) func(*fleet.BundleDeployment) {
	return func(bd *fleet.BundleDeployment) {
		bd.Status.Conditions = []genericcondition.GenericCondition{{Type: conditions.Deployed, Status: "False", Reason: reason, Message: "no"}}
	}
}

func applied(id string) func(*fleet.BundleDeployment) {
	return func(bd *fleet.BundleDeployment) { bd.Status.AppliedDeploymentID = id }
}

func TestSetBundleStatus(t *testing.T) {
	staged := deployment("one", func(bd *fleet.BundleDeployment) { bd.Spec.StagedDeploymentID = "s-2:b" })
	condition := func(status, reason, message string) genericcondition.GenericCondition {
		c := genericcondition.GenericCondition{Type: "Ready", Status: "False", Reason: reason, Message: message, LastUpdateTime: "2026-11-21T08:00:00Z"}
		if status == "True" {
			c.Status = "True"
		}
		return c
	}
	tests := map[string]struct {
		in      bundleInput
		want    genericcondition.GenericCondition
		display fleet.BundleDisplay
		counts  [4]int // unavailable, max, of the partition, generation
	}{
		"no targets: ready, and the message says so": {
			bundleInput{}, condition("True", "", "no Cluster is a target of this Bundle: compare spec.targets with the labels of the Clusters"),
			fleet.BundleDisplay{ReadyClusters: "0/0"}, [4]int{0, 1, 0, 0},
		},
		"target without a deployment: pending": {
			bundleInput{outcome: selection.Outcome{Generation: 2, Targets: []selection.Target{target("one", "")}}},
			condition("False", "", "Pending(1) [Cluster ws/one]"), fleet.BundleDisplay{ReadyClusters: "0/1", State: "Pending"}, [4]int{0, 1, 1, 2},
		},
		"failed target: its error is reported": {
			bundleInput{outcome: selection.Outcome{Targets: []selection.Target{target("one", "no"), target("two", "")}}, deployments: []*fleet.BundleDeployment{deployment("one"), deployment("two")}},
			condition("False", "Error", "ErrApplied(1) [Cluster ws/one: no]"), fleet.BundleDisplay{ReadyClusters: "1/2", State: "ErrApplied"}, [4]int{0, 2, 0, 0},
		},
		"chart that cannot be installed: an error": {
			bundleInput{outcome: selection.Outcome{Targets: []selection.Target{target("one", "")}}, deployments: []*fleet.BundleDeployment{deployment("one", notInstalled)}},
			condition("False", "Error", "NotReady(1) [Cluster ws/one: not installed: YAML parse error]"), fleet.BundleDisplay{ReadyClusters: "0/1", State: "NotReady"}, [4]int{1, 1, 1, 0},
		},
		"first deployment waits for a dependency: no error": {
			bundleInput{outcome: selection.Outcome{Targets: []selection.Target{target("one", "")}}, deployments: []*fleet.BundleDeployment{deployment("one", applied(""), fails(conditions.ReasonAwaitingDependencies))}},
			condition("False", "", "ErrApplied(1) [Cluster ws/one: no]"), fleet.BundleDisplay{ReadyClusters: "0/1", State: "ErrApplied"}, [4]int{1, 1, 1, 0},
		},
		"deployment fails: an error": {
			bundleInput{outcome: selection.Outcome{Targets: []selection.Target{target("one", "")}}, deployments: []*fleet.BundleDeployment{deployment("one", applied(""), fails(conditions.ReasonDependencyMissing))}},
			condition("False", "Error", "ErrApplied(1) [Cluster ws/one: no]"), fleet.BundleDisplay{ReadyClusters: "0/1", State: "ErrApplied"}, [4]int{1, 1, 1, 0},
		},
		"error on a ready cluster, another one needs time: no error": {
			bundleInput{outcome: selection.Outcome{Targets: []selection.Target{target("one", ""), target("two", "")}}, deployments: []*fleet.BundleDeployment{deployment("one", fails(conditions.ReasonError)), deployment("two", applied(""))}},
			condition("False", "", "WaitApplied(1) [Cluster ws/two]"), fleet.BundleDisplay{ReadyClusters: "1/2", State: "WaitApplied"}, [4]int{1, 2, 1, 0},
		},
		"failed Bundle: its error is reported, deployments are counted": {
			bundleInput{outcome: selection.Outcome{Generation: 4, Failure: "targeting error: no", FailureReason: "Error"}, deployments: []*fleet.BundleDeployment{deployment("one")}},
			condition("False", "Error", "targeting error: no"), fleet.BundleDisplay{ReadyClusters: "1/1"}, [4]int{0, 1, 0, 4},
		},
		"invalid selector: held deployments are counted, its error comes first": {
			bundleInput{
				outcome:     selection.Outcome{Blocked: "targeting error: no", Targets: []selection.Target{target("one", ""), target("two", "")}},
				deployments: []*fleet.BundleDeployment{deployment("one")},
			},
			condition("False", "SelectorInvalid", "targeting error: no; Pending(1) [Cluster ws/two]"),
			fleet.BundleDisplay{ReadyClusters: "1/2", State: "Pending"}, [4]int{0, 2, 1, 0},
		},
		"invalid selector, all deployments are ready": {
			bundleInput{outcome: selection.Outcome{Blocked: "targeting error: no"}},
			condition("False", "SelectorInvalid", "targeting error: no"), fleet.BundleDisplay{ReadyClusters: "0/0"}, [4]int{0, 1, 0, 0},
		},
		"deployment of no target: not counted": {
			bundleInput{outcome: selection.Outcome{Targets: []selection.Target{target("one", "")}}, deployments: []*fleet.BundleDeployment{deployment("one"), deployment("two")}},
			condition("True", "", ""), fleet.BundleDisplay{ReadyClusters: "1/1"}, [4]int{0, 1, 0, 0},
		},
		"staged change: not applied": {
			bundleInput{outcome: selection.Outcome{Targets: []selection.Target{target("one", "")}}, deployments: []*fleet.BundleDeployment{
				deployment("one", func(bd *fleet.BundleDeployment) { bd.Spec.StagedDeploymentID = "s-2:b" }),
			}},
			condition("False", "", "WaitApplied(1) [Cluster ws/one]"), fleet.BundleDisplay{ReadyClusters: "0/1", State: "WaitApplied"}, [4]int{0, 1, 1, 0},
		},
		"a paused Bundle with a staged change": {
			bundleInput{spec: fleet.BundleSpec{Paused: true}, outcome: selection.Outcome{Targets: []selection.Target{target("one", "")}}, deployments: []*fleet.BundleDeployment{staged}},
			condition("False", "", "spec.paused is true: the newest state is not deployed until it is false; WaitApplied(1) [Cluster ws/one]"),
			fleet.BundleDisplay{ReadyClusters: "0/1", State: "WaitApplied"}, [4]int{0, 1, 1, 0},
		},
		"a paused Bundle without a change": {
			bundleInput{spec: fleet.BundleSpec{Paused: true}, outcome: selection.Outcome{Targets: []selection.Target{target("one", "")}}, deployments: []*fleet.BundleDeployment{deployment("one")}},
			condition("True", "", "spec.paused is true: this is the state before the pause, and changes on the clusters are not seen"),
			fleet.BundleDisplay{ReadyClusters: "1/1"}, [4]int{0, 1, 0, 0},
		},
		"a limit that holds back first deployments": {
			bundleInput{spec: fleet.BundleSpec{RolloutStrategy: &fleet.RolloutStrategy{MaxNew: ptr.To(-1)}}, outcome: selection.Outcome{Targets: []selection.Target{target("one", "")}}},
			condition("False", "", "spec.rolloutStrategy.maxNew is -1: no cluster gets its first deployment until it is higher; Pending(1) [Cluster ws/one]"),
			fleet.BundleDisplay{ReadyClusters: "0/1", State: "Pending"}, [4]int{0, 1, 1, 0},
		},
		"a limit that freezes available clusters": {
			bundleInput{spec: fleet.BundleSpec{RolloutStrategy: &fleet.RolloutStrategy{MaxUnavailable: ptr.To(intstr.FromInt32(0))}}, outcome: selection.Outcome{Targets: []selection.Target{target("one", "")}}, deployments: []*fleet.BundleDeployment{staged}},
			condition("False", "", "spec.rolloutStrategy.maxUnavailable is 0: available clusters do not get the newest state until it is higher; WaitApplied(1) [Cluster ws/one]"),
			fleet.BundleDisplay{ReadyClusters: "0/1", State: "WaitApplied"}, [4]int{0, 1, 1, 0},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			test.in = undivided(test.in)
			test.in.now = now
			var got fleet.BundleStatus
			setBundleStatus(&got, test.in, addUp(test.in))
			if diff := cmp.Diff([]genericcondition.GenericCondition{test.want}, got.Conditions); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
			if got.Display != test.display {
				t.Errorf("display = %+v, want %+v", got.Display, test.display)
			}
			counts := [4]int{got.Unavailable, got.MaxUnavailable, 0, int(got.ObservedGeneration)}
			for _, partition := range got.Partitions {
				counts[2] += partition.Unavailable
			}
			if counts != test.counts {
				t.Errorf("unavailable, at most, in the partition, generation = %v, want %v", counts, test.counts)
			}
			before := *got.DeepCopy()
			test.in.now = now.Add(time.Hour)
			setBundleStatus(&got, test.in, addUp(test.in))
			if diff := cmp.Diff(before, got); diff != "" {
				t.Errorf("told again it changes:\n%s", diff)
			}
		})
	}
}

func TestUntargeted_NamesTheCause(t *testing.T) {
	const nowhere = "no Cluster is a target of this Bundle: "
	for name, test := range map[string]struct {
		outcome selection.Outcome
		want    string
	}{
		"a target":               {selection.Outcome{Targets: []selection.Target{target("one", "")}, Unknown: "no group"}, ""},
		"a group is missing":     {selection.Outcome{Unknown: "no group", Refused: "refused"}, nowhere + "no group"},
		"a Cluster is missing":   {selection.Outcome{Absent: "no Cluster"}, nowhere + "no Cluster"},
		"a workspace refuses it": {selection.Outcome{Refused: "refused"}, nowhere + "refused"},
		"none matches":           {selection.Outcome{}, nowhere + "compare spec.targets with the labels of the Clusters"},
	} {
		if got := untargeted(test.outcome); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

func TestReadySources(t *testing.T) {
	from := func(repo string, ready bool) *fleet.BundleDeployment {
		return deployment("one", func(bd *fleet.BundleDeployment) {
			bd.Labels[fleet.LabelRepoName] = repo
			bd.Status.Ready = ready
		})
	}
	tests := map[string]struct {
		in         []*fleet.BundleDeployment
		ready, all int
	}{
		"none":                                   {nil, 0, 0},
		"no repository: not counted":             {[]*fleet.BundleDeployment{deployment("one")}, 0, 0},
		"each repository counts once":            {[]*fleet.BundleDeployment{from("a", true), from("a", true), from("b", true)}, 2, 2},
		"all of a repository must be ready":      {[]*fleet.BundleDeployment{from("a", true), from("a", false), from("b", true)}, 1, 2},
		"the first of a repository is not ready": {[]*fleet.BundleDeployment{from("a", false), from("a", true)}, 0, 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			ready, all := readySources(test.in, fleet.LabelRepoName)
			if ready != test.ready || all != test.all {
				t.Errorf("%d of %d, want %d of %d", ready, all, test.ready, test.all)
			}
		})
	}
}

func TestDeploymentMatters(t *testing.T) {
	tests := map[string]struct {
		change func(*fleet.BundleDeployment)
		want   bool
	}{
		"nothing":                      {func(*fleet.BundleDeployment) {}, false},
		"its display":                  {func(bd *fleet.BundleDeployment) { bd.Status.Display.State = "Ready" }, false},
		"a label":                      {func(bd *fleet.BundleDeployment) { bd.Labels["a"] = "b" }, false},
		"its GitRepo":                  {func(bd *fleet.BundleDeployment) { bd.Labels[fleet.LabelRepoName] = "repo" }, true},
		"its HelmOp":                   {func(bd *fleet.BundleDeployment) { bd.Labels[fleet.LabelHelmOpName] = "op" }, true},
		"its state":                    {func(bd *fleet.BundleDeployment) { bd.Status.Ready = false }, true},
		"what is applied":              {func(bd *fleet.BundleDeployment) { bd.Status.AppliedDeploymentID = "s-2:b" }, true},
		"a promotion":                  {func(bd *fleet.BundleDeployment) { bd.Spec.DeploymentID = "s-2:b" }, true},
		"a staged state":               {func(bd *fleet.BundleDeployment) { bd.Spec.StagedDeploymentID = "s-2:b" }, true},
		"a recreated BundleDeployment": {func(bd *fleet.BundleDeployment) { bd.UID = "other" }, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			older, newer := deployment("one"), deployment("one")
			test.change(newer)
			if got := deploymentMatters(older, newer); got != test.want {
				t.Errorf("matters = %v, want %v", got, test.want)
			}
		})
	}
}

// The BundleDeployment of a cluster may be staged before maxNew is set to 0.
func TestHeldBack_NamesMaxNewIfADeploymentWasOnlyStaged(t *testing.T) {
	spec := fleet.BundleSpec{RolloutStrategy: &fleet.RolloutStrategy{MaxNew: ptr.To(0)}}
	want := "spec.rolloutStrategy.maxNew is 0: no cluster gets its first deployment until it is higher"
	found := figures{summary: fleet.BundleSummary{WaitApplied: 1}, waits: []rollout.Wait{rollout.WaitMaxNew}}
	if got := heldBack(spec, found); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
