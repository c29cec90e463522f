package liveness_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
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

// While more than half are silent, nothing is reported again and no other agent is marked.
func TestManySilent_IsReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := clusters(10)
		h := begin(t, all...)
		h.beating(all[6:]...).during(40 * minute)
		h.expect("33m 6 of 10")
		h.beating(all[7:]...).during(10 * time.Hour)
		h.expect()
		h.restart() // which everyone is given time by, and then it is told again
		h.beating(all[7:]...).during(10 * time.Hour)
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
		h.expect("45s new Missing")
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
