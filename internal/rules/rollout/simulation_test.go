package rollout

import (
	"fmt"
	"math/rand"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/fleet-hub/fleet/internal/rules/targeting"
	"github.com/fleet-hub/fleet/internal/rules/targeting/targetingtest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// simulation is a rollout to clusters whose agents act as the test says.
type simulation struct {
	bundle      *fleet.Bundle
	clusters    []*fleet.Cluster
	groups      targeting.Groups
	deployments map[string]*fleet.BundleDeployment // by cluster
	unreachable map[string]bool
	newest      string
}

func simulate(b *fleet.Bundle, clusters []*fleet.Cluster, groups ...*fleet.ClusterGroup) *simulation {
	return &simulation{
		bundle: b, clusters: clusters, groups: targeting.NewGroups(groups),
		deployments: map[string]*fleet.BundleDeployment{}, unreachable: map[string]bool{}, newest: "1",
	}
}

func (s *simulation) layout(t testing.TB) Layout {
	t.Helper()
	layout, err := NewLayout(s.bundle, s.clusters, s.groups)
	if err != nil {
		t.Fatal(err)
	}
	return layout
}

func (s *simulation) steps(layout Layout) (out []Step) {
	for i, c := range s.clusters {
		out = append(out, Step{
			DeploymentID: s.newest, Deployment: s.deployments[c.Name], Unreachable: s.unreachable[c.Name],
			Paused: targeting.IsPaused(s.bundle, c), Partitions: layout.Of[i],
		})
	}
	return out
}

// write carries out the decision for one cluster. It returns false if there was nothing to do.
func (s *simulation) write(cluster string, action Action) bool {
	bd := s.deployments[cluster]
	if bd == nil && action != NoChange {
		bd = &fleet.BundleDeployment{}
		s.deployments[cluster] = bd
	}
	if action == NoChange || bd.Spec.StagedDeploymentID == s.newest && (action == Stage || bd.Spec.DeploymentID == s.newest) {
		return false
	}
	bd.Spec.StagedDeploymentID = s.newest
	if action == Promote {
		bd.Spec.DeploymentID = s.newest
	}
	return true
}

// applied sets the report of an agent that has applied its state.
func (s *simulation) applied(cluster string, ready bool) {
	bd := s.deployments[cluster]
	bd.Status.AppliedDeploymentID, bd.Status.Ready = bd.Spec.DeploymentID, ready
}

// awaits reports whether an agent has something to do.
func (s *simulation) awaits(cluster string) bool {
	bd := s.deployments[cluster]
	return bd != nil && bd.Spec.DeploymentID != "" && !IsAvailable(bd)
}

// pass decides and writes in random order, but the disruptive steps first. No limit may be reached before the promotion of
// an available target.
func (s *simulation) pass(t *testing.T, random *rand.Rand) (wrote bool) {
	t.Helper()
	layout := s.layout(t)
	steps := s.steps(layout)
	decision := Decide(layout, steps)
	order := random.Perm(len(steps))
	slices.SortStableFunc(order, func(a, b int) int { return boolOrder(decision.Disruptive[b]) - boolOrder(decision.Disruptive[a]) })
	created := 0
	for _, i := range order {
		name := s.clusters[i].Name
		if bd := s.deployments[name]; bd == nil && decision.Actions[i] != NoChange || bd != nil && bd.Spec.DeploymentID == "" && decision.Actions[i] == Promote {
			created++
		}
		if decision.Disruptive[i] {
			s.judge(t, layout, i)
		}
		wrote = s.write(name, decision.Actions[i]) || wrote
	}
	if created > layout.MaxNew || created != decision.NewlyCreated {
		t.Fatalf("%d created, %d said, at most %d", created, decision.NewlyCreated, layout.MaxNew)
	}
	return wrote
}

func boolOrder(b bool) int {
	if b {
		return 1
	}
	return 0
}

// judge counts unavailable and reachable targets independently of the rule.
func (s *simulation) judge(t *testing.T, layout Layout, promoted int) {
	t.Helper()
	all, within := 0, make([]int, len(layout.Partitions))
	for i, c := range s.clusters {
		bd := s.deployments[c.Name]
		if bd == nil || bd.Spec.DeploymentID == "" || s.unreachable[c.Name] || bd.Status.Ready && bd.Status.AppliedDeploymentID == bd.Spec.DeploymentID {
			continue
		}
		all++
		for _, p := range layout.Of[i] {
			within[p]++
		}
	}
	if all >= layout.MaxUnavailable {
		t.Fatalf("%s is promoted with %d of %d unavailable", s.clusters[promoted].Name, all, layout.MaxUnavailable)
	}
	for _, p := range layout.Of[promoted] {
		if within[p] >= layout.Partitions[p].MaxUnavailable {
			t.Fatalf("%s is promoted with %d of %d unavailable in partition %d", s.clusters[promoted].Name, within[p], layout.Partitions[p].MaxUnavailable, p)
		}
	}
}

// randomStrategy returns a strategy with which every rollout ends.
func randomStrategy(random *rand.Rand) fleet.RolloutStrategy {
	amount := func() *intstr.IntOrString {
		switch random.Intn(3) {
		case 0:
			return nil
		case 1:
			return number(int32(1 + random.Intn(5)))
		default:
			return text(fmt.Sprint(1+random.Intn(60), "%"))
		}
	}
	out := fleet.RolloutStrategy{MaxUnavailable: amount(), MaxNew: pointer(1 + random.Intn(20))}
	if random.Intn(2) == 0 {
		out.MaxUnavailablePartitions = number(int32(random.Intn(3)))
	}
	if random.Intn(2) == 0 {
		out.AutoPartitionThreshold, out.AutoPartitionSize = pointer(random.Intn(30)), amount()
		return out
	}
	for i := range 1 + random.Intn(3) {
		out.Partitions = append(out.Partitions, fleet.Partition{
			Name: fmt.Sprint(i), ClusterSelector: targetingtest.Selector(fmt.Sprint("l", random.Intn(3)), "yes"), MaxUnavailable: amount(),
		})
	}
	return out
}

// happen changes a cluster at random, independently of the rollout.
func (s *simulation) happen(random *rand.Rand) {
	name := s.clusters[random.Intn(len(s.clusters))].Name
	bd := s.deployments[name]
	switch random.Intn(12) {
	case 0:
		s.unreachable[name] = !s.unreachable[name]
	case 1:
		s.newest = fmt.Sprint(1 + random.Intn(3))
	case 2:
		if bd != nil {
			bd.Status.Ready = false
		}
	case 3:
		delete(s.deployments, name)
	default:
		if bd != nil && !s.unreachable[name] {
			s.applied(name, random.Intn(4) > 0)
		}
	}
}

// No promotion exceeds a limit, whatever happens meanwhile. When every cluster becomes ready, the rollout ends with
// the newest state everywhere.
func TestSimulatedRollout_KeepsItsLimitsAndCompletes(t *testing.T) {
	for seed := range int64(300) {
		random := rand.New(rand.NewSource(seed))
		var clusters []*fleet.Cluster
		for i, c := range numbered(1 + random.Intn(40)) {
			for l := range 3 {
				if (i+l)%(l+2) == 0 {
					targetingtest.Labelled(fmt.Sprint("l", l), "yes")(c)
				}
			}
			clusters = append(clusters, c)
		}
		s := simulate(targetingtest.Bundle(remaining, strategy(randomStrategy(random))), clusters)
		for range 60 {
			s.pass(t, random)
			for range random.Intn(6) {
				s.happen(random)
			}
		}
		s.unreachable = map[string]bool{}
		for rounds := 0; ; rounds++ {
			wrote := s.pass(t, random)
			working := 0
			for _, c := range clusters {
				if s.awaits(c.Name) {
					s.applied(c.Name, true)
					working++
				}
			}
			if !wrote && working == 0 {
				break
			}
			if rounds > 1000 {
				t.Fatalf("seed %d: no end", seed)
			}
		}
		for _, c := range clusters {
			if bd := s.deployments[c.Name]; bd == nil || bd.Spec.DeploymentID != s.newest || !IsAvailable(bd) {
				t.Fatalf("seed %d: %s is left behind: %+v", seed, c.Name, bd)
			}
		}
	}
}

// Caches list objects in any order. The decision must not depend on it.
func TestDecide_DoesNotDependOnTheOrderOfInput(t *testing.T) {
	random := rand.New(rand.NewSource(7))
	clusters, groups := numbered(30), []*fleet.ClusterGroup{targetingtest.Group("even", "even", "yes"), targetingtest.Group("prod", "env", "prod")}
	for i, c := range clusters {
		targetingtest.Labelled("even", map[bool]string{true: "yes", false: "no"}[i%2 == 0], "env", []string{"dev", "prod", "test"}[i%3])(c)
	}
	b := targetingtest.Bundle(targetingtest.Targets(targetingtest.Everywhere()), strategy(fleet.RolloutStrategy{MaxUnavailable: number(7), Partitions: []fleet.Partition{
		{Name: "even", ClusterGroup: "even", MaxUnavailable: number(4)}, {Name: "prod", ClusterGroup: "prod"}, {Name: "dev", ClusterSelector: targetingtest.Selector("env", "dev")},
	}}))
	told := func() string {
		var ordered []*fleet.Cluster
		for _, target := range allTargets(t, b, clusters, groups...) {
			ordered = append(ordered, target.Cluster)
		}
		s := simulate(b, ordered, groups...)
		for _, c := range ordered {
			s.deployments[c.Name] = old()
		}
		s.newest = "2"
		decision := Decide(s.layout(t), s.steps(s.layout(t)))
		text := ""
		for i, line := range decision.inWords() {
			text += ordered[i].Name + " " + line + "\n"
		}
		return text
	}
	want := told()
	for range 50 {
		random.Shuffle(len(clusters), func(i, j int) { clusters[i], clusters[j] = clusters[j], clusters[i] })
		random.Shuffle(len(groups), func(i, j int) { groups[i], groups[j] = groups[j], groups[i] })
		if got := told(); got != want {
			t.Fatalf("another order, another rollout:\n%s\nwant:\n%s", got, want)
		}
	}
}

func allTargets(t testing.TB, b *fleet.Bundle, clusters []*fleet.Cluster, groups ...*fleet.ClusterGroup) []targeting.Target {
	t.Helper()
	selection, err := targeting.NewSelection(b)
	if err != nil {
		t.Fatal(err)
	}
	return selection.Targets("s-1", clusters, targeting.NewGroups(groups), nil)
}
