package rollout

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// deployed returns a ready deployment with these staged, current and applied IDs.
func deployed(staged, current, applied string) *fleet.BundleDeployment {
	return &fleet.BundleDeployment{
		Spec:   fleet.BundleDeploymentSpec{StagedDeploymentID: staged, DeploymentID: current},
		Status: fleet.BundleDeploymentStatus{AppliedDeploymentID: applied, Ready: true},
	}
}

func unready(bd *fleet.BundleDeployment) *fleet.BundleDeployment {
	bd.Status.Ready = false
	return bd
}

func going(bd *fleet.BundleDeployment) *fleet.BundleDeployment {
	bd.DeletionTimestamp = &metav1.Time{}
	return bd
}

// step returns a step towards deployment ID "2" in the first partition.
func step(bd *fleet.BundleDeployment, modifiers ...func(*Step)) Step {
	s := Step{DeploymentID: "2", Deployment: bd, Partitions: []int{0}}
	for _, modify := range modifiers {
		modify(&s)
	}
	return s
}

// old returns a ready deployment with the previous state.
func old() *fleet.BundleDeployment { return deployed("1", "1", "1") }

func unreadied(s *Step)           { s.Deployment = unready(s.Deployment) }
func pausedStep(s *Step)          { s.Paused = true }
func unreachable(s *Step)         { s.Unreachable = true }
func absent(s *Step)              { s.Absent = true }
func blocked(s *Step)             { s.Blocked = true }
func uncertain(s *Step)           { s.Uncertain = true }
func nowhere(s *Step)             { s.Partitions = nil }
func within(p ...int) func(*Step) { return func(s *Step) { s.Partitions = p } }

// layout allows this many unavailable targets in total and in each partition. It waits for every partition.
func layout(all int, partitions ...int) Layout {
	out := Layout{MaxUnavailable: all, MaxNew: 50}
	for _, most := range partitions {
		out.Partitions = append(out.Partitions, Part{MaxUnavailable: most})
	}
	return out
}

func maxNew(most int, l Layout) Layout {
	l.MaxNew = most
	return l
}

func late(partitions int, l Layout) Layout {
	l.MaxUnavailablePartitions = partitions
	return l
}

var actionNames = map[Action]string{NoChange: "leave", Stage: "stage", Promote: "promote"}

// inWords returns the action of each step, and why it waits.
func (d Decision) inWords() (out []string) {
	for i, action := range d.Actions {
		text := actionNames[action]
		if d.Disruptive[i] {
			text += " first"
		}
		if d.Waits[i] != "" {
			text += ": " + string(d.Waits[i])
		}
		out = append(out, text)
	}
	return out
}

func TestDecide(t *testing.T) {
	tests := map[string]struct {
		layout Layout
		steps  []Step
		want   []string
		more   Decision // NewlyCreated and Again only
	}{
		"nothing to do": {layout(1, 1), nil, nil, Decision{}},
		"targets that are up to date: unchanged": {
			layout(1, 1), []Step{step(deployed("2", "2", "2"))}, []string{"promote"}, Decision{},
		},
		"no limits: everything is promoted": {
			layout(3, 3), []Step{step(nil), step(old()), step(unready(old()))}, []string{"promote", "promote first", "promote"}, Decision{NewlyCreated: 1},
		},
		"limit reached: the others are staged": {
			layout(2, 3), []Step{step(old()), step(old()), step(old())}, []string{"promote first", "promote first", "stage: maxUnavailable"}, Decision{},
		},
		"unavailable targets count, whatever their position": {
			layout(1, 2), []Step{step(old()), step(deployed("2", "2", "1"))}, []string{"stage: maxUnavailable", "promote"}, Decision{},
		},
		"unavailable target: promoted beyond the limit": {
			layout(1, 3), []Step{step(unready(old())), step(deployed("1", "1", "0")), step(old())},
			[]string{"promote", "promote", "stage: maxUnavailable"}, Decision{},
		},
		"limit of zero: only available targets wait": {
			layout(0, 3), []Step{step(old()), step(unready(old())), step(nil)}, []string{"stage: maxUnavailable", "promote", "promote"}, Decision{NewlyCreated: 1},
		},
		"limit of a partition reached: the others are staged": {
			layout(3, 1, 1), []Step{step(old()), step(old()), step(old(), within(1))},
			[]string{"promote first", "stage: maxUnavailable", "leave: earlier partition"}, Decision{},
		},
		"earlier partition within its limit: later one starts": {
			layout(3, 1, 1), []Step{step(deployed("2", "2", "2")), step(deployed("2", "2", "1")), step(old(), within(1))},
			[]string{"promote", "promote", "promote first"}, Decision{},
		},
		"MaxUnavailablePartitions unfinished: later one starts": {
			late(1, layout(4, 0, 0, 0)), []Step{step(unready(old())), step(unready(old()), within(1)), step(unready(old()), within(2))},
			[]string{"promote", "promote", "leave: earlier partition"}, Decision{},
		},
		"cluster in two partitions: both limits count": {
			layout(4, 2, 1), []Step{step(old(), within(0, 1)), step(unready(deployed("1", "1", "1")), within(1))},
			[]string{"stage: maxUnavailable", "promote"}, Decision{},
		},
		"cluster in two partitions: the earlier one decides when": {
			layout(4, 4, 4), []Step{step(old(), within(0, 1)), step(old(), within(1))}, []string{"promote first", "promote first"}, Decision{},
		},
		"target without a partition: unchanged": {
			layout(4, 4), []Step{step(old(), nowhere), step(nil, nowhere)}, []string{"leave: no partition", "leave: no partition"}, Decision{},
		},
		"but counts": {
			layout(1, 4), []Step{step(unready(old()), nowhere), step(old())}, []string{"leave: no partition", "stage: maxUnavailable"}, Decision{},
		},
		"paused target: staged": {
			layout(4, 4), []Step{step(old(), pausedStep), step(nil, pausedStep), step(deployed("2", "2", "2"), pausedStep)},
			[]string{"stage: paused", "stage: paused", "stage"}, Decision{NewlyCreated: 1},
		},
		"paused and unavailable target: staged": {
			layout(4, 4), []Step{step(unready(old()), pausedStep)}, []string{"stage: paused"}, Decision{},
		},
		"unreachable target: staged, and does not count against limits": {
			layout(1, 1), []Step{step(unready(old()), unreachable), step(old(), unreachable), step(old())},
			[]string{"stage: unreachable", "stage: unreachable", "promote first"}, Decision{},
		},
		"unreachable target: later partition does not wait": {
			layout(1, 0, 1), []Step{step(unready(old()), unreachable), step(old(), within(1))}, []string{"stage: unreachable", "promote first"}, Decision{},
		},
		"first deployment to an unreachable cluster: promoted": {
			layout(1, 1), []Step{step(nil, unreachable), step(old())}, []string{"promote", "promote first"}, Decision{NewlyCreated: 1},
		},
		"agent that has never reported: newest state, and does not count against limits": {
			layout(1, 1), []Step{step(unready(deployed("1", "1", "")), absent), step(nil, absent), step(old())},
			[]string{"promote", "promote", "promote first"}, Decision{NewlyCreated: 1},
		},
		"agent that has never reported: later partition does not wait": {
			layout(1, 0, 1), []Step{step(unready(deployed("1", "1", "")), absent), step(old(), within(1))}, []string{"promote", "promote first"}, Decision{},
		},
		"agent that has never reported, but has applied something: counts": {
			layout(1, 2), []Step{step(unready(old()), absent), step(old())}, []string{"promote", "stage: maxUnavailable"}, Decision{},
		},
		"first deployments: count at once": {
			layout(1, 2), []Step{step(nil), step(old())}, []string{"promote", "stage: maxUnavailable"}, Decision{NewlyCreated: 1},
		},
		"partition not reached: its first deployments are staged, and use up no limit": {
			layout(4, 0, 4), []Step{step(unready(old())), step(nil, within(1)), step(nil, blocked, within(1)), step(nil, nowhere)},
			[]string{"promote", "stage: earlier partition", "leave: blocked", "leave: no partition"}, Decision{NewlyCreated: 1},
		},
		"partition not reached: maxNew limits what is staged in one round": {
			maxNew(1, layout(4, 0, 4)), []Step{step(unready(old())), step(nil, within(1)), step(nil, within(1))},
			[]string{"promote", "stage: earlier partition", "leave: earlier partition"}, Decision{NewlyCreated: 1, Again: true},
		},
		"only staged, partition not reached: unchanged, and does not count": {
			layout(1, 1, 1), []Step{step(old()), step(old()), step(deployed("1", "", ""), unreadied, within(1))},
			[]string{"promote first", "stage: maxUnavailable", "leave: earlier partition"}, Decision{},
		},
		"only staged, partition reached: promoted and counted like a new one": {
			maxNew(2, layout(1, 3)), []Step{step(deployed("1", "", ""), unreadied), step(deployed("2", "", ""), unreadied, unreachable), step(nil), step(old())},
			[]string{"promote", "promote", "leave: maxNew", "stage: maxUnavailable"}, Decision{NewlyCreated: 2, Again: true},
		},
		"only staged and paused: neither counts nor uses up maxNew": {
			maxNew(1, layout(1, 3)), []Step{step(deployed("1", "", ""), unreadied, pausedStep), step(nil, unreachable), step(old())},
			[]string{"stage: paused", "promote", "promote first"}, Decision{NewlyCreated: 1},
		},
		"only staged, promotion uncertain: counts once": {
			layout(2, 3), []Step{step(deployed("2", "", ""), unreadied, uncertain), step(old())}, []string{"promote", "promote first"}, Decision{NewlyCreated: 1},
		},
		"only staged, maxNew 0: not promoted": {
			maxNew(0, layout(1, 3)), []Step{step(deployed("2", "", ""), unreadied)}, []string{"leave: maxNew"}, Decision{},
		},
		"maxNew reached: no more first deployments in this round": {
			maxNew(1, layout(3, 3)), []Step{step(nil), step(nil), step(unready(old()))}, []string{"promote", "leave: maxNew", "promote"}, Decision{NewlyCreated: 1, Again: true},
		},
		"maxNew 0: creates none and requests no further round": {
			maxNew(0, layout(3, 3)), []Step{step(nil), step(unready(old()))}, []string{"leave: maxNew", "promote"}, Decision{},
		},
		"maxNew: counts across partitions": {
			maxNew(1, late(1, layout(3, 3, 3))), []Step{step(nil), step(nil, within(1))}, []string{"promote", "leave: maxNew"}, Decision{NewlyCreated: 1, Again: true},
		},
		"blocked target: unchanged and counted, nothing waits for it": {
			layout(1, 0, 1), []Step{step(old(), blocked), step(nil, blocked), step(old(), within(1))},
			[]string{"leave: blocked", "leave: blocked", "promote first"}, Decision{},
		},
		"promotion uncertain: counted and tried again": {
			layout(1, 2), []Step{step(old()), step(old(), uncertain)}, []string{"stage: maxUnavailable", "promote"}, Decision{},
		},
		"promotion uncertain in this round: counted, others wait": {
			layout(1, 1, 1), []Step{step(nil, blocked, uncertain), step(old()), step(old(), within(1))},
			[]string{"leave: blocked", "stage: maxUnavailable", "leave: earlier partition"}, Decision{},
		},
		"deployment being deleted: counted and unchanged": {
			layout(1, 0, 1), []Step{step(going(old())), step(old(), within(1))}, []string{"leave: blocked", "leave: earlier partition"}, Decision{},
		},
		"return to a state that the agent still has: promoted beyond the limit": {
			layout(0, 0), []Step{step(deployed("1", "2", "2"))}, []string{"promote"}, Decision{},
		},
		"return to a state that the agent still has: next partition starts in the same round": {
			layout(1, 0, 1), []Step{step(deployed("1", "2", "2")), step(old(), within(1))}, []string{"promote", "promote first"}, Decision{},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := Decide(test.layout, test.steps)
			if diff := cmp.Diff(test.want, got.inWords()); diff != "" {
				t.Errorf("decision (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.more, Decision{NewlyCreated: got.NewlyCreated, Again: got.Again}); diff != "" {
				t.Errorf("creations (-want +got):\n%s", diff)
			}
		})
	}
}
