package supervision_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/rules/rulestest"
	"github.com/fleet-hub/fleet/internal/rules/supervision"
)

type reports = map[string]supervision.Reports

// fakes are the agents of a hostile workspace, which have reported once.
func fakes(n int) supervision.Reports { return supervision.Reports{Late: n, Reported: n} }

func TestWithheld(t *testing.T) {
	ten := func(late func(i, reported int) int) reports { // workspaces a to j with 1 to 512 agents
		all := reports{}
		for i := range 10 {
			reported := 1 << i
			all[string(rune('a'+i))] = supervision.Reports{Late: late(i, reported), Reported: reported}
		}
		return all
	}
	tests := map[string]struct {
		in   reports
		want []string
	}{
		"no workspace":                   {reports{}, nil},
		"no agent":                       {reports{"a": {}}, nil},
		"three of three":                 {reports{"a": {3, 3}}, nil},
		"four of four":                   {reports{"a": {4, 4}}, []string{"a"}},
		"half of them":                   {reports{"a": {4, 8}}, nil},
		"more than half":                 {reports{"a": {5, 9}}, []string{"a"}},
		"a third of a large hub":         {reports{"a": {3000, 9000}}, nil},
		"most of a large hub":            {reports{"a": {5001, 10000}}, []string{"a"}},
		"two workspaces, outage: both":   {reports{"a": {200, 200}, "b": {4, 4}}, []string{"a", "b"}},
		"two workspaces, outage: small":  {reports{"a": {200, 200}, "b": {3, 3}}, []string{"a"}},
		"three workspaces, outage: all":  {reports{"a": {200, 200}, "b": {3, 3}, "c": {1, 1}}, []string{"a", "b", "c"}},
		"many small workspaces, outage":  {reports{"a": {1, 1}, "b": {1, 1}, "c": {1, 1}, "d": {1, 1}, "e": {1, 1}}, []string{"a", "b", "c", "d", "e"}},
		"site of a workspace":            {reports{"a": {0, 60}, "b": {50, 50}}, nil},
		"site with most of the clusters": {reports{"a": {0, 40}, "b": {50, 50}}, []string{"b"}},
		"half of a workspace":            {reports{"a": {90, 90}, "b": {5, 10}}, []string{"a"}},

		"hostile workspace, one of ten is dead":      {reports{"hostile": fakes(1000), "b": {1, 10}}, []string{"hostile"}},
		"hostile workspace, the only one is dead":    {reports{"hostile": fakes(1000), "b": {1, 1}}, []string{"hostile"}},
		"hostile workspace, three of three are dead": {reports{"hostile": fakes(1000), "b": {3, 3}}, []string{"hostile"}},
		"hostile workspace, four of four are dead":   {reports{"hostile": fakes(1000), "b": {4, 4}}, []string{"hostile", "b"}}, // as without it
		"hostile workspace, others report":           {reports{"hostile": fakes(1000), "b": {4, 4}, "c": {0, 4}}, []string{"hostile"}},
		"hostile workspace, its agents report":       {reports{"hostile": {0, 1000}, "b": {4, 4}}, nil},

		"ten workspaces, outage":           {ten(func(_, reported int) int { return reported }), []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"}},
		"ten workspaces, largest is dead":  {ten(func(i, reported int) int { return reported * (i / 9) }), []string{"j"}},
		"ten workspaces, second is dead":   {ten(func(i, reported int) int { return reported * (i / 8 % 2) * (9 - i) }), nil},
		"ten workspaces, a third is late":  {ten(func(_, reported int) int { return reported / 3 }), nil},
		"ten workspaces, without largest":  {ten(func(i, reported int) int { return reported * (1 - i/9) }), nil},
		"ten workspaces, without smallest": {ten(func(i, reported int) int { return reported * min(i, 1) }), []string{"b", "c", "d", "e", "f", "g", "h", "i", "j"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(slices.Sorted(slices.Values(test.want)), withheld(test.in)); diff != "" {
				t.Errorf("withheld (-want +got):\n%s", diff)
			}
		})
	}
}

func withheld(in reports) []string {
	return slices.Sorted(maps.Keys(supervision.Withheld(in)))
}

// anyHub returns up to six workspaces with up to twelve agents each.
func anyHub(random *rand.Rand) reports {
	hub := reports{}
	for i := range 1 + random.IntN(6) {
		reported := random.IntN(13)
		hub[fmt.Sprint("w", i)] = supervision.Reports{Late: random.IntN(reported + 1), Reported: reported}
	}
	return hub
}

// with returns a hub with one more workspace.
func with(hub reports, own supervision.Reports) reports {
	hub = maps.Clone(hub)
	hub["hostile"] = own
	return hub
}

// many is the rule for a hub all of whose agents count.
func many(hub reports) bool {
	var all supervision.Reports
	for _, own := range hub {
		all.Late, all.Reported = all.Late+own.Late, all.Reported+own.Reported
	}
	return all.Late >= 4 && 2*all.Late > all.Reported
}

// Whatever the agents of one workspace do, silent agents of another one are withheld only if many agents are late without
// those of the first.
func TestWithheld_OneWorkspaceCannotCauseItForOthers(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	withholding := 0
	for range 20_000 {
		hub := anyHub(random)
		reported := random.IntN(1000)
		hostile := supervision.Reports{Late: random.IntN(reported + 1), Reported: reported}
		for _, workspace := range withheld(with(hub, hostile)) {
			if workspace == "hostile" {
				continue
			}
			withholding++
			if own := hub[workspace]; 2*own.Late <= own.Reported || !many(hub) {
				t.Fatalf("workspace %s of %v is withheld because of %v", workspace, hub, hostile)
			}
		}
	}
	if withholding < 100 {
		t.Errorf("only %d workspaces were withheld", withholding)
	}
}

// Agents that one workspace lets become silent change nothing for the other workspaces. Those that report can only cause
// that silent agents are marked.
func TestWithheld_FakesOfOneWorkspaceChangeNothingForOthers(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	others := func(in reports) []string {
		return slices.DeleteFunc(withheld(in), func(workspace string) bool { return workspace == "hostile" })
	}
	for range 20_000 {
		hub, fresh := anyHub(random), random.IntN(20)
		few, more := 12+random.IntN(10), 100+random.IntN(1000) // at least as many as in any other workspace
		first := others(with(hub, supervision.Reports{Late: few, Reported: few + fresh}))
		second := others(with(hub, supervision.Reports{Late: more, Reported: more + fresh}))
		if !slices.Equal(first, second) {
			t.Fatalf("%v with %d reporting agents: withheld are %v with %d silent ones, and %v with %d", hub, fresh, first, few, second, more)
		}
		if alone := withheld(hub); len(hub) == 1 && fresh == 0 && !slices.Equal(alone, first) {
			t.Fatalf("%v: withheld are %v, and %v with %d fakes", hub, alone, first, few)
		}
		for workspace, own := range hub {
			if 2*own.Late <= own.Reported && slices.Contains(first, workspace) {
				t.Fatalf("%v: %s is withheld, and half of its agents report", hub, workspace)
			}
		}
	}
}

// In an outage of the hub, all agents are late.
func TestWithheld_OutageOfTheHub(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	for range 5_000 {
		hub := reports{}
		for workspace, own := range anyHub(random) {
			hub[workspace] = fakes(own.Reported)
		}
		got := supervision.Withheld(hub)
		for workspace, own := range hub {
			if own.Late >= 4 && !got[workspace] {
				t.Fatalf("%v: %s is not withheld", hub, workspace)
			}
		}
	}
}

func TestSilentAgent_IsWithheldForALimitedTime(t *testing.T) {
	conf := config.Config{}
	conf.AgentCheckinInterval.Duration = 10 * time.Minute
	// arriving returns the input with a heartbeat every ten minutes, between these times before noon.
	arriving := func(from, to time.Duration) func(*supervision.ReportingInput) {
		return func(in *supervision.ReportingInput) {
			for ago := from; ago >= to; ago -= 10 * time.Minute {
				in.Heartbeats = in.Heartbeats.Add(rulestest.Noon().Add(-ago), conf)
			}
		}
	}
	tests := map[string]struct {
		in      supervision.ReportingInput
		overdue bool
		again   time.Duration // after noon; negative: before it
		never   bool
	}{
		"no heartbeats arrive":                   {observed(10 * time.Hour), false, 0, true},
		"heartbeats arrived before":              {observed(10*time.Hour, arriving(20*time.Hour, time.Hour)), false, 0, true},
		"heartbeats arrive, a while":             {observed(10*time.Hour, arriving(90*time.Minute, 0)), false, 30 * time.Minute, false},
		"heartbeats arrive, twelve intervals":    {observed(10*time.Hour, arriving(2*time.Hour, 0)), true, 0, false},
		"heartbeats arrive since before":         {observed(time.Hour, arriving(5*time.Hour, 0)), false, time.Hour, false},
		"heartbeats arrive, silent long enough":  {observed(2*time.Hour, arriving(5*time.Hour, 0)), true, 0, false},
		"a pause began again":                    {observed(10*time.Hour, arriving(9*time.Hour, 2*time.Hour), arriving(time.Hour, 0)), false, time.Hour, false},
		"a shorter pause does not count":         {observed(10*time.Hour, arriving(9*time.Hour, 90*time.Minute), arriving(time.Hour, 0)), true, -7 * time.Hour, false},
		"the agent's interval is longer":         {observed(10*time.Hour, ownCheckin("30m"), arriving(2*time.Hour, 0)), false, 4 * time.Hour, false},
		"the agent's interval is shorter":        {observed(time.Hour, ownCheckin("1m"), gaps(time.Minute, time.Minute, time.Minute), arriving(5*time.Hour, 0)), false, time.Hour, false},
		"it is marked: nothing is withheld":      {observed(10*time.Hour, marked, arriving(90*time.Minute, 0)), false, 0, true},
		"others still report, it is not overdue": {observed(40*time.Minute, arriving(5*time.Hour, 0)), false, 80 * time.Minute, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := rulestest.Pure(t, supervision.DecideReporting, test.in)
			if got.Stage != supervision.ReportingSilent || got.Overdue != test.overdue {
				t.Errorf("stage %s, overdue %v", got.Stage, got.Overdue)
			}
			want := rulestest.Noon().Add(test.again)
			if test.never {
				want = time.Time{}
			}
			if !got.LookAgain.Equal(want) {
				t.Errorf("looked at again at %s, want %s", got.LookAgain, want)
			}
		})
	}
}
