package liveness_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/config"
)

func clusters(n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("c%03d", i))
	}
	return names
}

// The hub cannot be reached for a while: all agents become silent within one interval.
func TestManySilentAtOnce_NoneIsMarked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := clusters(20)
		h := begin(t, all...)
		h.beating(all...).during(30 * minute)
		h.expect()
		h.pass(24 * time.Hour)
		h.expect("33m 20 of 20")
		h.expectStale()
		h.beating(all...).during(100 * minute)
		h.expect()
	})
}

// Heartbeats are spread over the interval: the first agent is silent long before the last one.
func TestSilenceThatStartsForSome_IsSeenForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := begin(t)
		for i, name := range clusters(10) {
			h.add(name)
			h.spread[name] = time.Duration(i) * minute
		}
		h.beating(clusters(10)...).during(40 * minute)
		h.expect()
		h.pass(2 * time.Hour)
		h.expect("24m 10 of 10")
	})
}

func TestAgentsThatStaySilent_AreMarkedAnIntervalLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := clusters(10)
		h := begin(t, all...)
		h.pass(time.Hour)
		h.expect("33m 10 of 10")
		for i, name := range all[:7] { // they come one after another
			h.pass(minute)
			h.spread[name] = time.Duration(i) * minute
			h.beat(name)
		}
		h.expect()
		h.beating(all[:7]...).during(30 * minute)
		// Half of them were back after 5 minutes; a second later it was noticed, and 11 minutes later they were due.
		h.expect("9m c007 Silent", "9m c008 Silent", "9m c009 Silent")
		h.expectStale("c007", "c008", "c009")
	})
}

// Agents that were stale before stay so, and do not count as newly silent.
func TestAgentsSilentBefore_StayMarked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := clusters(9)
		h := begin(t, all...)
		h.beating(all[4:]...).during(40 * minute)
		h.expect("33m c000 Silent", "33m c001 Silent", "33m c002 Silent", "33m c003 Silent")
		h.pass(time.Hour)
		h.expect("33m 5 of 5")
		h.expectStale(all[:4]...)
		h.beat("c000")
		h.expect("0s c000 Heard")
		h.expectStale(all[1:4]...)
	})
}

// The standby has observed all Clusters since before their agents became silent.
func TestStandbyTakesOver_MarkedAgentsStayMarked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := clusters(10)
		h := begin(t, all...)
		h.standby = h.observer()
		for i, name := range all[:6] {
			h.beating(all[i+1:]...).during(50 * minute)
			h.expect(fmt.Sprintf("33m %s Silent", name))
			h.mark(name)
		}
		h.takeOver()
		h.expectStale(all[:6]...)
		h.beating(all[6:]...).during(2 * time.Hour)
		h.expect()
		h.expectStale(all[:6]...)
		h.beat(all[0])
		h.expect("0s c000 Heard")
	})
}

// While more than half are silent, nothing is reported again and no other agent is marked.
func TestManySilent_IsReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := clusters(10)
		h := begin(t, all...)
		h.beating(all[6:]...).during(40 * minute)
		h.expect("33m 6 of 10")
		h.beating(all[7:]...).during(time.Hour)
		h.expect()
		h.restart() // which everyone is given time by, and then it is told again
		h.beating(all[7:]...).during(time.Hour)
		h.expect("33m 7 of 10")
	})
}

// Clusters that are gone permanently are deleted. The others are judged as usual.
func TestDeletedClusters_DoNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := clusters(10)
		h := begin(t, all...)
		h.beating(all[6:]...).during(40 * minute)
		h.expect("33m 6 of 10")
		for _, name := range all[:4] {
			h.remove(name)
		}
		h.beating(all[6:]...).during(20 * minute)
		h.expect("11m c004 Silent", "11m c005 Silent")
	})
}

func TestAgentsSilentOneAfterAnother_AreMarked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := clusters(8)
		h := begin(t, all...)
		for i := range all {
			h.beating(all[i+1:]...).during(50 * minute)
			h.expect(fmt.Sprintf("33m c%03d Silent", i))
		}
		h.expectStale(all...)
	})
}

func TestFewSilentAgents_AreMarked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := begin(t, clusters(3)...)
		h.pass(time.Hour)
		h.expect("33m c000 Silent", "33m c001 Silent", "33m c002 Silent")
	})
}

// A deployed agent that never reported is marked although many are silent.
func TestMissingAgents_AreMarkedWhileManyAreSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := begin(t, clusters(5)...)
		h.pass(time.Hour)
		h.expect("33m 5 of 5")
		h.add("new", unheard, imported)
		h.pass(minute)
		h.expect("45s new Missing, absent")
	})
}

// When many agents return at once, all are judged once a second, and not once per agent.
func TestManyReturns_CauseFewJudgements(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := clusters(300)
		h := begin(t, all...)
		h.pass(time.Hour)
		h.expect("33m 300 of 300")
		before := h.reads
		for _, name := range all {
			h.pass(10 * time.Millisecond)
			h.beat(name)
		}
		h.pass(time.Minute)
		if reads := h.reads - before; reads > 6*len(all) {
			t.Errorf("%d reads for %d returns", reads, len(all))
		}
		h.expect()
	})
}

// When most clusters of a hub are switched off permanently, the others go on reporting.
func TestManySilent_AreMarkedWhenOthersReportForTwelveIntervals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := clusters(10)
		h := begin(t, all...)
		h.beating(all[6:]...).during(119 * minute)
		h.expect("33m 6 of 10") // the first heartbeat of others was after 10 minutes
		h.beating(all[6:]...).during(20 * minute)
		h.expect("11m c000 Silent", "11m c001 Silent", "11m c002 Silent", "11m c003 Silent", "11m c004 Silent", "11m c005 Silent")
	})
}

// The time counts from the first heartbeat after an outage of all.
func TestOutage_DoesNotCountForTheTwelveIntervals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := clusters(10)
		h := begin(t, all...)
		h.beating(all...).during(300 * minute)
		h.beating().during(600 * minute)
		h.expect("333m 10 of 10")
		h.beating(all[6:]...).during(115 * minute)
		h.expect()
		h.beating(all[6:]...).during(10 * minute)
		h.expect("6m c000 Silent", "6m c001 Silent", "6m c002 Silent", "6m c003 Silent", "6m c004 Silent", "6m c005 Silent")
	})
}

// An agent is given another interval once: agents elsewhere that come and go do not prolong its silence.
func TestSilentAgent_IsForgivenOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := begin(t, clusters(6)...)
		comeAndGo := func() {
			for _, name := range others(7) {
				h.add(name)
			}
			h.pass(minute)
			h.beat(others(7)[0])
			h.pass(4 * minute)
			for _, name := range others(7) {
				h.remove(name)
			}
		}
		h.pass(40 * minute)
		h.expect("33m 6 of 6")
		comeAndGo() // the other interval ends after 11 minutes
		h.pass(8 * minute)
		h.expect("12m 6 of 6")
		comeAndGo()
		h.expect("1m c000 Silent", "1m c001 Silent", "1m c002 Silent", "1m c003 Silent", "1m c004 Silent", "1m c005 Silent")
	})
}

// others are the agents of another workspace, in the order in which they are named.
func others(n int) (names []string) {
	for _, name := range clusters(n) {
		names = append(names, "hostile/"+name)
	}
	return names
}

// The holder of one token registers any number of agents. Whatever they do, the agents of other workspaces are judged as if
// they were not there.
func TestAgentsOfOneWorkspace_DoNotChangeHowOthersAreJudged(t *testing.T) {
	hostile := others(50)
	behaviours := map[string]func(h *hub, i int) []string{ // who reports in a phase of twenty minutes
		"none":               nil,
		"silent":             func(*hub, int) []string { return nil },
		"report":             func(*hub, int) []string { return hostile },
		"every other report": func(*hub, int) []string { return hostile[:25] },
		"come and go": func(_ *hub, i int) []string {
			if i%3 == 0 {
				return hostile
			}
			return nil
		},
	}
	dead := map[string]struct {
		agents, dead int
		want         []string
	}{
		"one of one":       {1, 1, []string{"33m c000 Silent"}},
		"three of three":   {3, 3, []string{"33m c000 Silent", "33m c001 Silent", "33m c002 Silent"}},
		"one of ten":       {10, 1, []string{"33m c000 Silent"}},
		"five of ten":      {10, 5, []string{"33m c000 Silent", "33m c001 Silent", "33m c002 Silent", "33m c003 Silent", "33m c004 Silent"}},
		"two of a hundred": {100, 2, []string{"33m c000 Silent", "33m c001 Silent"}},
	}
	for behaviour, reporting := range behaviours {
		for name, test := range dead {
			t.Run(name+" while the others: "+behaviour, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					own := clusters(test.agents)
					h := begin(t, own...)
					if reporting != nil {
						for _, name := range hostile {
							h.add(name)
						}
					}
					for i := range 30 {
						beating := own[test.dead:]
						if reporting != nil {
							beating = append(slices.Clone(beating), reporting(h, i)...)
						}
						h.beating(beating...).during(20 * minute)
					}
					h.forget("hostile")
					h.expect(test.want...)
				})
			})
		}
	}
}

// More than half of the agents of a workspace are silent: they are withheld as if the fakes of the other one were not there.
func TestFakesOfOneWorkspace_DoNotProlongTheSilenceOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		own := clusters(10)
		h := begin(t, own...)
		for _, name := range others(100) {
			h.add(name)
		}
		h.beating(own[6:]...).during(119 * minute)
		h.expect("33m 106 of 110 in hostile, ws")
		h.beating(own[6:]...).during(20 * minute)
		h.forget("hostile")
		h.expect("11m c000 Silent", "11m c001 Silent", "11m c002 Silent", "11m c003 Silent", "11m c004 Silent", "11m c005 Silent")
	})
}

// All agents of a site, which has a workspace of its own, are silent, and most agents of the hub report.
func TestSiteOfOneWorkspace_IsMarked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := begin(t, clusters(5)...)
		elsewhere := others(20)
		for _, name := range elsewhere {
			h.add(name)
		}
		h.beating(elsewhere...).during(40 * minute)
		h.expect("33m c000 Silent", "33m c001 Silent", "33m c002 Silent", "33m c003 Silent", "33m c004 Silent")
	})
}

// The agent of the hub's own cluster reports also when those of other clusters cannot reach the hub.
func TestLocalAgent_DoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := clusters(4)
		h := begin(t)
		h.config.Bootstrap = config.Bootstrap{Namespace: "fleet-local"}
		for _, name := range append([]string{"fleet-local/local"}, all...) {
			h.add(name)
		}
		h.beating("fleet-local/local").during(10 * time.Hour)
		h.expect("33m 4 of 4")
		h.beating().during(40 * minute)
		h.expect("33m fleet-local/local Silent")
	})
}

// No agent is marked, but each is reported as late once, so that repairs can start.
func TestManySilentAgents_AreLateWithoutBeingMarked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := clusters(10)
		h := begin(t, all...)
		late := map[string]int{}
		h.tracker.OnLate(func(key types.NamespacedName) { late[key.Name]++ })
		h.pass(24 * time.Hour)
		h.expect("33m 10 of 10")
		h.expectStale()
		for _, name := range all {
			if late[name] != 1 || !h.tracker.Late(types.NamespacedName{Namespace: "ws", Name: name}) {
				t.Errorf("%s: reported late %d times", name, late[name])
			}
		}
		h.beat("c000")
		if h.tracker.Late(types.NamespacedName{Namespace: "ws", Name: "c000"}) {
			t.Error("an agent is late right after its heartbeat")
		}
	})
}
