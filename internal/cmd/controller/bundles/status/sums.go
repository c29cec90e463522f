package status

import (
	"cmp"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/rules/rollout"
	"github.com/fleet-hub/fleet/internal/rules/selection"
	"github.com/fleet-hub/fleet/internal/rules/state"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// sums caches the figures of each Bundle. A changed BundleDeployment is subtracted and added again. The figures are
// computed from scratch only when targeting has changed.
//
//	BundleDeployment changed ─► touch ─┐
//	ledger changed ─► reset ───────────┴─► of ─► counts, the first that are not ready
type sums struct {
	mu      sync.Mutex
	bundles map[types.NamespacedName]*sumsOfBundle
	// resets counts the resets of all Bundles.
	resets int
}

// fewTargets is the number of targets up to which figures are computed each time. A hub has one Bundle for each agent, so
// to keep them would take more memory than it saves time.
const fewTargets = 4

func newSums() *sums { return &sums{bundles: map[types.NamespacedName]*sumsOfBundle{}} }

// touch records that a Bundle's BundleDeployment in a cluster namespace has changed.
func (s *sums) touch(bundle types.NamespacedName, namespace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if of := s.bundles[bundle]; of != nil {
		of.touched[namespace] = true
	}
}

// reset drops the figures of a Bundle, so that they are computed again.
func (s *sums) reset(bundle types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resets++
	delete(s.bundles, bundle)
}

// asOf must be called before the ledger is read. If a reset follows, the figures computed from that ledger entry are
// not kept.
func (s *sums) asOf() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.resets
}

// finding returns the BundleDeployment in a cluster namespace, or nil.
type finding func(namespace string) *fleet.BundleDeployment

// of returns the current figures of a Bundle. It must not be called concurrently for the same Bundle.
func (s *sums) of(bundle types.NamespacedName, in bundleInput, find finding) figures {
	s.mu.Lock()
	of, known := s.bundles[bundle]
	if !known {
		of = newSumsOfBundle(in)
	}
	if !known && in.asOf == s.resets && len(in.outcome.Targets) > fewTargets {
		s.bundles[bundle] = of
	}
	touched := of.touched
	of.touched = map[string]bool{}
	s.mu.Unlock()
	if !known {
		for i := range of.outcome.Targets {
			of.add(i, of.partOf(i, in, find))
		}
		return of.figures(in, find)
	}
	for namespace := range touched {
		for _, i := range of.byNamespace[namespace] {
			of.remove(i)
			of.add(i, of.partOf(i, in, find))
		}
	}
	return of.figures(in, find)
}

// sumsOfBundle are the figures of one Bundle. Only touched is shared; the other fields belong to the caller of
// sums.of.
type sumsOfBundle struct {
	touched map[string]bool // guarded by the lock of sums

	outcome     selection.Outcome
	byNamespace map[string][]int
	// parts are the contributions of the targets.
	parts []part
	all   sum
	// partitions are the sums of the rollout's partitions.
	partitions []sum
}

// part is the contribution of one target.
type part struct {
	state    fleet.BundleState
	failed   bool
	standing rollout.Standing
}

// sum adds up the parts of several targets.
type sum struct {
	states   map[fleet.BundleState]int
	failed   int
	tally    rollout.Tally
	notReady map[int]bool
}

func newSum() sum { return sum{states: map[fleet.BundleState]int{}, notReady: map[int]bool{}} }

func newSumsOfBundle(in bundleInput) *sumsOfBundle {
	of := &sumsOfBundle{
		touched: map[string]bool{}, outcome: in.outcome, byNamespace: map[string][]int{},
		parts: make([]part, len(in.outcome.Targets)), all: newSum(),
	}
	for i, target := range in.outcome.Targets {
		of.byNamespace[target.Namespace] = append(of.byNamespace[target.Namespace], i)
	}
	for range in.outcome.Rollout.Partitions {
		of.partitions = append(of.partitions, newSum())
	}
	return of
}

func (of *sumsOfBundle) partOf(i int, in bundleInput, find finding) part {
	target := of.outcome.Targets[i]
	bd := find(target.Namespace)
	entry := entryWith(target, bd, in.trouble)
	return part{state: entry.State, failed: entry.Failed, standing: target.Step(bd).Standing()}
}

func (of *sumsOfBundle) add(i int, p part) {
	of.parts[i] = p
	of.all.count(i, p, 1)
	for _, partition := range of.outcome.Targets[i].Partitions {
		of.partitions[partition].count(i, p, 1)
	}
}

func (of *sumsOfBundle) remove(i int) {
	of.all.count(i, of.parts[i], -1)
	for _, partition := range of.outcome.Targets[i].Partitions {
		of.partitions[partition].count(i, of.parts[i], -1)
	}
}

// count adds a part to the sum, or subtracts it if times is -1.
func (s *sum) count(i int, p part, times int) {
	s.states[p.state] += times
	s.tally.Add(p.standing, times)
	if p.failed {
		s.failed += times
	}
	if times > 0 && p.state != fleet.Ready {
		s.notReady[i] = true
	} else {
		delete(s.notReady, i)
	}
}

// figures returns the sums in the form that a status shows.
func (of *sumsOfBundle) figures(in bundleInput, find finding) figures {
	out := figures{summary: of.summaryOf(of.all, in, find), failed: of.all.failed > 0}
	tallies := make([]rollout.Tally, len(of.partitions))
	for p, partition := range of.partitions {
		tallies[p] = partition.tally
	}
	out.progress = rollout.ProgressOfTallies(of.outcome.Rollout, of.all.tally, tallies)
	for p := range out.progress.Partitions {
		out.progress.Partitions[p].Summary = of.summaryOf(of.partitions[p], in, find)
	}
	return out
}

// summaryOf returns a summary with the first targets, by name, that are not ready.
func (of *sumsOfBundle) summaryOf(s sum, in bundleInput, find finding) fleet.BundleSummary {
	first := make([]int, 0, state.MaxListed+1)
	byName := func(a, b int) int {
		return cmp.Compare(of.outcome.Targets[a].Cluster.String(), of.outcome.Targets[b].Cluster.String())
	}
	for i := range s.notReady {
		if len(first) == state.MaxListed && byName(i, first[state.MaxListed-1]) > 0 {
			continue
		}
		at, _ := slices.BinarySearchFunc(first, i, byName)
		first = slices.Insert(first, at, i)
		first = first[:min(len(first), state.MaxListed)]
	}
	var listed []state.Entry
	for _, i := range first {
		target := of.outcome.Targets[i]
		entry := entryWith(target, find(target.Namespace), in.trouble)
		entry.State = of.parts[i].state // the state that was counted
		listed = append(listed, entry)
	}
	out := state.Summarize(listed)
	counted := state.Counted(s.states)
	counted.NonReadyResources = out.NonReadyResources
	return counted
}
