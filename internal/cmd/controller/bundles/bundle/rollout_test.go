package bundle

import (
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub"
	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/hubtest"
	rulesdelivery "github.com/fleet-hub/fleet/internal/rules/delivery"
	"github.com/fleet-hub/fleet/internal/rules/rollout"
	"github.com/fleet-hub/fleet/internal/rules/selection"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func strategy(s fleet.RolloutStrategy) func(*fleet.Bundle) {
	return func(b *fleet.Bundle) { b.Spec.RolloutStrategy = &s }
}

func atMost(unavailable string) func(*fleet.Bundle) {
	most := intstr.Parse(unavailable)
	return strategy(fleet.RolloutStrategy{MaxUnavailable: &most})
}

// at has these IDs, and is ready.
func at(staged, current, applied string) func(*fleet.BundleDeployment) {
	return func(bd *fleet.BundleDeployment) {
		bd.Spec.StagedDeploymentID, bd.Spec.DeploymentID = staged, current
		bd.Status.AppliedDeploymentID, bd.Status.Ready = applied, true
	}
}

func older(bd *fleet.BundleDeployment) { at("s-0:a", "s-0:a", "s-0:a")(bd) }

// writesOf says of each BundleDeployment what is written, and what first.
func writesOf(out writes) (first, others []string) {
	text := func(w write) string {
		if w.existing == nil {
			return "create " + w.Deployment.Namespace
		}
		switch {
		case rulesdelivery.Same(w.existing, w.Deployment):
			return "nothing " + w.Deployment.Namespace
		case w.Deployment.Spec.DeploymentID != w.existing.Spec.DeploymentID:
			return "promote " + w.Deployment.Namespace
		case w.Deployment.Spec.StagedDeploymentID != w.existing.Spec.StagedDeploymentID:
			return "stage " + w.Deployment.Namespace
		default:
			return "refresh " + w.Deployment.Namespace
		}
	}
	for _, w := range out.first {
		first = append(first, text(w))
	}
	for _, w := range out.others {
		others = append(others, text(w))
	}
	return first, others
}

func TestRound_WritesWithinTheLimits(t *testing.T) {
	three := []*fleet.Cluster{cluster("a"), cluster("b"), cluster("c")}
	all := someDeployments(existing("a", older), existing("b", older), existing("c", older))
	tests := map[string]struct {
		in            input
		first, others []string
	}{
		"no limit: everything at once": {
			input{bundle: bundle(everywhere), clusters: three, existing: all}, []string{"promote c-a", "promote c-b", "promote c-c"}, nil,
		},
		"one at a time, the others are staged": {
			input{bundle: bundle(everywhere, atMost("1")), clusters: three, existing: all}, []string{"promote c-a"}, []string{"stage c-b", "stage c-c"},
		},
		"uncertain promotion: counts, and is retried": {
			input{bundle: bundle(everywhere, atMost("1")), clusters: three, existing: all, written: selection.Written{Uncertain: map[string]bool{"c-b": true}}},
			nil, []string{"stage c-a", "promote c-b", "stage c-c"},
		},
		"silent clusters are staged and do not count": {
			input{bundle: bundle(everywhere, atMost("1")), clusters: three, existing: all, unreachable: map[types.NamespacedName]bool{{Namespace: "ws", Name: "a"}: true}},
			[]string{"promote c-b"}, []string{"stage c-a", "stage c-c"},
		},
		"creations are written after promotions": {
			input{bundle: bundle(everywhere, atMost("2")), clusters: three, existing: all[1:]}, []string{"promote c-b"}, []string{"create c-a", "stage c-c"},
		},
		"a later partition is only refreshed": {
			input{bundle: bundle(everywhere, strategy(fleet.RolloutStrategy{Partitions: []fleet.Partition{
				{ClusterName: "c", MaxUnavailable: &intstr.IntOrString{}}, {ClusterName: "a"},
			}})), clusters: three, existing: all}, nil, []string{"refresh c-a", "refresh c-b", "stage c-c"},
		},
		"an invalid strategy changes nothing": {
			input{bundle: bundle(everywhere, atMost("ten")), clusters: three, existing: all}, nil, nil,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			out := firstRound(test.in)
			first, others := writesOf(out)
			if diff := cmp.Diff([][]string{test.first, test.others}, [][]string{first, others}); diff != "" {
				t.Errorf("first, others (-want +got):\n%s", diff)
			}
			if len(out.orphans) > 0 {
				t.Errorf("%d are torn down", len(out.orphans))
			}
		})
	}
}

func TestStreamed_OnlyWithoutLimits(t *testing.T) {
	layout := func(maxNew, limit int) rollout.Layout {
		out := rollout.Undivided(200)
		out.MaxNew, out.MaxUnavailable = maxNew, limit
		return out
	}
	tests := map[string]struct {
		layout    rollout.Layout
		maxNew    int
		atTheTime int
	}{
		"no limits: streamed":                        {layout: layout(50, 200), maxNew: 200, atTheTime: 50},
		"small maxNew: few at a time":                {layout: layout(2, 200), maxNew: 200, atTheTime: 2},
		"maxNew above the number of targets":         {layout: layout(500, 200), maxNew: 500, atTheTime: atATime},
		"maxNew of zero":                             {layout: layout(0, 200), maxNew: 0, atTheTime: atATime},
		"maxUnavailable below the number of targets": {layout: layout(50, 20), maxNew: 50, atTheTime: atATime},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			rest, concurrent := streamed(test.layout)
			if rest.MaxNew != test.maxNew || concurrent != test.atTheTime {
				t.Errorf("%d new ones, %d at a time; want %d, %d", rest.MaxNew, concurrent, test.maxNew, test.atTheTime)
			}
			if rest.MaxNew = test.layout.MaxNew; !cmp.Equal(test.layout, rest) {
				t.Errorf("more has changed: %s", cmp.Diff(test.layout, rest))
			}
		})
	}
}

// TestMaxNew_LimitsConcurrentCreations blocks all creations and counts those that have started.
func TestMaxNew_LimitsConcurrentCreations(t *testing.T) {
	for _, most := range []int{1, 3} {
		d := newDelivery(t, bundle(everywhere, mostNew(most)), 60)
		synctest.Test(t, func(t *testing.T) {
			goOn, ended := make(chan struct{}), make(chan error, 1)
			var held atomic.Int32
			for number := range 60 {
				d.hub.Before(createOf(number), func() {
					held.Add(1)
					<-goOn
					held.Add(-1)
				})
			}
			go func() { ended <- d.pass(t.Context()) }()
			for begun := range 60 {
				synctest.Wait()
				if now, want := int(held.Load()), min(most, 60-begun); now > want || now == 0 || begun > most && begun+most < 60 && now != want {
					t.Errorf("%d under way after %d, want %d", now, begun, want)
				}
				goOn <- struct{}{}
			}
			if err := <-ended; err != nil || len(d.all(t)) != 60 {
				t.Errorf("%d BundleDeployments, %v", len(d.all(t)), err)
			}
		})
	}
}

// What a Bundle's status needs to know of the rollout is in the store of outcomes.
func TestRollout_IsStoredInTheLedger(t *testing.T) {
	in := input{
		bundle:   bundle(everywhere, strategy(fleet.RolloutStrategy{Partitions: []fleet.Partition{{Name: "p", ClusterName: "b"}, {Name: "all", ClusterSelector: &metav1.LabelSelector{}}, {ClusterGroup: "none"}}})),
		clusters: []*fleet.Cluster{cluster("a"), cluster("b")}, unreachable: map[types.NamespacedName]bool{{Namespace: "ws", Name: "a"}: true}, manifestHash: "0123",
	}
	out := firstRound(in).outcome
	want := rollout.Layout{
		MaxUnavailable: 2, MaxNew: 50, Partitions: []rollout.Part{{Name: "p", Count: 1, MaxUnavailable: 1}, {Name: "all", Count: 2, MaxUnavailable: 2}, {MaxUnavailable: 1}},
		Problem: "spec.rolloutStrategy.partitions[2].clusterGroup: there is no ClusterGroup none",
	}
	if diff := cmp.Diff(want, out.Rollout); diff != "" {
		t.Errorf("layout (-want +got):\n%s", diff)
	}
	for i := range out.Targets {
		if out.Targets[i].DeploymentID == "" {
			t.Errorf("%s has no deployment ID", out.Targets[i].Cluster)
		}
		out.Targets[i].DeploymentID = ""
	}
	targets := []selection.Target{
		{Cluster: types.NamespacedName{Namespace: "ws", Name: "a"}, Namespace: "c-a", Partitions: []int{1}, Unreachable: true},
		{Cluster: types.NamespacedName{Namespace: "ws", Name: "b"}, Namespace: "c-b", Partitions: []int{0, 1}},
	}
	if diff := cmp.Diff(targets, out.Targets); diff != "" {
		t.Errorf("targets (-want +got):\n%s", diff)
	}
	failed := firstRound(input{bundle: bundle(everywhere, atMost("ten")), clusters: in.clusters, manifestHash: "0123"}).outcome
	wantFailure := selection.Outcome{
		Generation: 3, ManifestHash: "0123", FailureReason: "RolloutInvalid",
		Failure: `rollout error: spec.rolloutStrategy.maxUnavailable: invalid rollout strategy: "ten" is neither a number nor a percentage such as "10%"`,
	}
	if diff := cmp.Diff(wantFailure, failed); diff != "" {
		t.Errorf("failure (-want +got):\n%s", diff)
	}
}

func TestLetsContinue(t *testing.T) {
	bd := func(modifiers ...func(*fleet.BundleDeployment)) *fleet.BundleDeployment {
		return existing("one", modifiers...)
	}
	unready := func(bd *fleet.BundleDeployment) { bd.Status.Ready = false }
	tests := map[string]struct {
		older, newer *fleet.BundleDeployment
		want         bool
	}{
		"nothing":                           {bd(older), bd(older), false},
		"it has become ready":               {bd(older, unready), bd(older), true},
		"it has applied the promoted state": {bd(at("2", "2", "1")), bd(at("2", "2", "2")), true},
		"it has failed":                     {bd(older), bd(older, unready), false},
		"it failed before its promotion":    {bd(at("2", "1", "1")), bd(at("2", "1", "1"), unready), true},
		"it has failed for longer":          {bd(at("2", "1", "1"), unready), bd(at("2", "1", "1"), unready), false},
		"it was promoted":                   {bd(at("2", "1", "1")), bd(at("2", "2", "1")), false},
		"it was staged":                     {bd(at("1", "1", "1")), bd(at("2", "1", "1")), true},
		"it is still not ready":             {bd(older, unready), bd(older, unready, version("2")), false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := letsContinue(test.older, test.newer); got != test.want {
				t.Errorf("letsContinue = %v, want %v", got, test.want)
			}
		})
	}
}

func TestWaitsForOthers(t *testing.T) {
	for wait, want := range map[rollout.Wait]bool{
		"": false, rollout.WaitLimit: true, rollout.WaitPartition: true, rollout.WaitMaxNew: true,
		rollout.WaitPaused: false, rollout.WaitUnreachable: false, rollout.WaitBlocked: false, rollout.WaitNoPartition: false,
	} {
		if got := wait.IsForOthers(); got != want {
			t.Errorf("%q waits for others: %v, want %v", wait, got, want)
		}
	}
}

// A promotion is tried once. After a conflict, the next pass decides again.
func TestPromotion_IsTriedOnce(t *testing.T) {
	h := &handler{app: &hub.App{}}
	promoted := write{Outcome: rulesdelivery.Outcome{Deployment: existing("one", at("2", "2", "1"))}, existing: existing("one", at("2", "1", "1"))}
	client, ok := h.client(promoted).(once)
	if !ok {
		t.Fatal("a promotion may be worked out anew")
	}
	if _, err := client.Get("c-one", "web", metav1.GetOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("error = %v, want a conflict", err)
	}
	staged := write{Outcome: rulesdelivery.Outcome{Deployment: existing("one", at("2", "1", "1"))}, existing: existing("one", at("1", "1", "1"))}
	if _, ok := h.client(staged).(once); ok {
		t.Error("what is staged is tried once only")
	}
}

// A rollout makes many passes: what waits for its turn costs nothing in those that do not reach it.
func TestWaitingTarget_IsNotComputedAgain(t *testing.T) {
	in := settledWorld(t)
	for i, bd := range in.existing {
		bd = bd.DeepCopy()
		bd.Status.AppliedDeploymentID, bd.Status.Ready = bd.Spec.DeploymentID, true
		in.existing[i] = bd
	}
	b := in.bundle.DeepCopy()
	b.Generation, b.Spec.DefaultNamespace = 4, "other"
	strategy(fleet.RolloutStrategy{Partitions: []fleet.Partition{
		{ClusterName: "three", MaxUnavailable: &intstr.IntOrString{}}, {ClusterSelector: &metav1.LabelSelector{}},
	}})(b)
	in.bundle = b
	values := []byte(`{"name":"three"}`)
	in.values = map[string]*rulesdelivery.Values{"c-three": {Current: values, Staged: values}}
	first, out := look(t, in)
	if want := "c-one,c-three,c-two worked out, c-three written"; first.String() != want {
		t.Fatalf("the first pass: %s, want %s", first, want)
	}
	for i, bd := range in.existing {
		if bd.Namespace == "c-three" {
			staged := out.others[0].Deployment.DeepCopy()
			staged.Generation = 2
			in.existing[i] = staged
		}
	}
	in.values = nil
	for range 2 { // the second finds out that nothing is owed, the third knows
		if again, _ := look(t, in); again.String() != " worked out,  written" {
			t.Errorf("another pass: %s", again)
		}
	}
}

// Templates may take a second for each cluster. The change that corrects them does not wait for all clusters.
func TestBundleThatChangesDuringAPass_EvaluatesNoMoreTemplates(t *testing.T) {
	d := newDelivery(t, bundle(everywhere, func(b *fleet.Bundle) {
		b.Spec.Helm = &fleet.HelmOptions{Values: &fleet.GenericMap{Data: map[string]any{"a": `${ fail "no good" }`}}}
	}), 3)
	in, err := d.gather(t.Context(), hubtest.MustGet[*fleet.Bundle](t, d.hub, "ws", "web"))
	if err != nil {
		t.Fatal(err)
	}
	evaluated := func() (count int) {
		for _, target := range in.selected().Targets {
			if target.Err != nil {
				count++
			}
		}
		return count
	}
	if got := evaluated(); got != 3 {
		t.Errorf("%d templates are evaluated, want 3", got)
	}
	d.change(t)
	if got := evaluated(); got != 0 {
		t.Errorf("%d templates are evaluated after the change", got)
	}
	d.hub.Requests()
	if err := d.rollOut(t.Context(), in); err != nil || len(d.hub.Requests()) > 0 {
		t.Errorf("the pass continues, error %v", err)
	}
	if outcome, reported := d.outcomes.Get(web); reported {
		t.Errorf("the pass reports %+v", outcome)
	}
	if err := d.pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	if outcome, _ := d.outcomes.Get(web); len(outcome.Targets) != 3 {
		t.Errorf("the next pass reports %d targets", len(outcome.Targets))
	}
}
