package rollout

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fleet-hub/fleet/e2e/framework/golden"
	"github.com/fleet-hub/fleet/internal/rules/targeting/targetingtest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// stage runs a rollout and records what happens.
type stage struct {
	*simulation
	t    *testing.T
	text strings.Builder
}

func (s *stage) tell(format string, args ...any) { fmt.Fprintf(&s.text, format+"\n", args...) }

// passes runs rounds of the controller until nothing is left to write, and records each round.
func (s *stage) passes() {
	for {
		layout := s.layout(s.t)
		decision := Decide(layout, s.steps(layout))
		done := map[string][]string{}
		waits := map[Wait][]string{}
		for i, c := range s.clusters {
			isNew := s.deployments[c.Name] == nil
			if s.write(c.Name, decision.Actions[i]) {
				what := map[Action]string{Stage: "stages", Promote: "promotes"}[decision.Actions[i]]
				if isNew {
					what = "creates"
				}
				done[what] = append(done[what], c.Name)
			}
			waits[decision.Waits[i]] = append(waits[decision.Waits[i]], c.Name)
		}
		if len(done) == 0 {
			s.report(layout, waits)
			return
		}
		for _, what := range []string{"creates", "stages", "promotes"} {
			if len(done[what]) > 0 {
				s.tell("  the controller %s %s", what, strings.Join(done[what], " "))
			}
		}
	}
}

// report records the progress and why targets wait.
func (s *stage) report(layout Layout, waits map[Wait][]string) {
	progress := ProgressOf(layout, s.steps(layout))
	for _, wait := range []Wait{WaitNoPartition, WaitPaused, WaitUnreachable, WaitMaxNew, WaitLimit, WaitPartition} {
		if len(waits[wait]) > 0 {
			s.tell("  waiting (%s): %s", wait, strings.Join(waits[wait], " "))
		}
	}
	var partitions []string
	for _, p := range progress.Partitions {
		partitions = append(partitions, fmt.Sprintf("%s %d/%d of %d", p.Name, p.Unavailable, p.MaxUnavailable, p.Count))
	}
	s.tell("  unavailable %d/%d, unreachable %d, partitions %d/%d: %s", progress.Unavailable, progress.MaxUnavailable, progress.Unreachable,
		progress.UnavailablePartitions, progress.MaxUnavailablePartitions, strings.Join(partitions, ", "))
}

// change gives the Bundle a new state.
func (s *stage) change(to string) {
	s.newest = to
	s.tell("the Bundle changes to %s", to)
	s.passes()
}

// agents lets all reachable agents apply their state. They report ready, except those in failing.
func (s *stage) agents(failing ...string) (working bool) {
	var ready, failed []string
	for _, c := range s.clusters {
		if !s.awaits(c.Name) || s.unreachable[c.Name] {
			continue
		}
		fails := false
		for _, name := range failing {
			fails = fails || name == c.Name
		}
		if !fails {
			ready = append(ready, c.Name)
			s.applied(c.Name, true)
		} else if s.deployments[c.Name].Status.AppliedDeploymentID != s.deployments[c.Name].Spec.DeploymentID {
			failed = append(failed, c.Name)
			s.applied(c.Name, false)
		}
	}
	if len(ready) > 0 {
		s.tell("%s: ready", strings.Join(ready, " "))
	}
	if len(failed) > 0 {
		s.tell("%s: applied, not ready", strings.Join(failed, " "))
	}
	if len(ready)+len(failed) == 0 {
		return false
	}
	s.passes()
	return true
}

// toItsEnd lets agents work until none has anything to do.
func (s *stage) toItsEnd(failing ...string) {
	for s.agents(failing...) {
	}
	s.tell("nothing moves any more")
}

func TestTranscripts_MatchTheGoldens(t *testing.T) {
	dev, prod := targetingtest.Group("dev", "env", "dev"), targetingtest.Group("prod", "env", "prod")
	six := func() []*fleet.Cluster {
		clusters := numbered(6)
		for i, c := range clusters {
			targetingtest.Labelled("env", []string{"dev", "dev", "prod", "prod", "prod", "test"}[i])(c)
		}
		return clusters
	}
	manual := fleet.RolloutStrategy{MaxUnavailable: number(1), Partitions: []fleet.Partition{{Name: "dev", ClusterGroup: "dev"}, {Name: "prod", ClusterGroup: "prod"}}}
	tests := map[string]struct {
		bundle *fleet.Bundle
		play   func(*stage)
	}{
		"partition by partition": {targetingtest.Bundle(remaining, strategy(manual)), func(s *stage) {
			s.change("1")
			s.toItsEnd()
			s.change("2")
			s.toItsEnd()
		}},
		"clusters in no partition": {targetingtest.Bundle(strategy(manual)), func(s *stage) {
			s.change("1")
			s.toItsEnd()
		}},
		"a cluster fails, and the fix reaches it": {targetingtest.Bundle(remaining, strategy(manual)), func(s *stage) {
			s.change("1")
			s.toItsEnd()
			s.change("2")
			s.toItsEnd("c000", "c002", "c003")
			s.change("3")
			s.toItsEnd()
		}},
		"a cluster that is silent comes back": {targetingtest.Bundle(remaining, strategy(manual)), func(s *stage) {
			s.change("1")
			s.toItsEnd()
			s.unreachable["c000"], s.unreachable["c003"] = true, true
			s.tell("c000 c003: silent")
			s.change("2")
			s.toItsEnd()
			s.unreachable = map[string]bool{}
			s.tell("c000 c003: report again")
			s.passes()
			s.toItsEnd()
		}},
		"a pause in the middle": {targetingtest.Bundle(strategy(fleet.RolloutStrategy{MaxUnavailable: number(2)})), func(s *stage) {
			s.change("1")
			s.toItsEnd()
			s.change("2")
			s.bundle.Spec.Paused = true
			s.tell("the Bundle is paused")
			s.toItsEnd()
			s.bundle.Spec.Paused = false
			s.tell("the Bundle goes on")
			s.passes()
			s.toItsEnd()
		}},
		"back to the state before": {targetingtest.Bundle(strategy(fleet.RolloutStrategy{MaxUnavailable: number(1), AutoPartitionThreshold: pointer(2), AutoPartitionSize: number(2)})), func(s *stage) {
			s.change("1")
			s.toItsEnd()
			s.change("2")
			s.agents()
			s.change("1")
			s.toItsEnd()
		}},
		"few first deployments at a time": {targetingtest.Bundle(strategy(fleet.RolloutStrategy{MaxNew: pointer(2), MaxUnavailablePartitions: number(1), AutoPartitionThreshold: pointer(1), AutoPartitionSize: number(2), MaxUnavailable: number(1)})), func(s *stage) {
			s.change("1")
			s.toItsEnd()
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := &stage{simulation: simulate(test.bundle, six(), dev, prod), t: t}
			test.play(s)
			golden.Expect(t, filepath.Join("rollouts", strings.ReplaceAll(strings.ReplaceAll(name, " ", "-"), ",", "")+".txt"), s.text.String())
		})
	}
}
