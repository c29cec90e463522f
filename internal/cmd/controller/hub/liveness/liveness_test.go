package liveness_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/rules/supervision"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

const minute = time.Minute

func TestSilentAgent_IsMarkedUntilItReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := begin(t, "east", "west")
		h.beating("east", "west").during(100 * minute)
		h.expect()
		h.beating("west").during(32 * minute)
		h.expect()
		h.beating("west").during(2 * minute)
		h.expect("1m east Silent")
		h.expectStale("east")
		h.beating("west").during(600 * minute)
		h.expect() // said once
		h.beat("east")
		h.expect("0s east Heard")
		h.expectStale()
	})
}

// The agents' clocks are only compared with themselves.
func TestSkewedClocks_HaveNoEffect(t *testing.T) {
	for _, skew := range []time.Duration{-time.Hour, time.Hour} {
		t.Run(skew.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := begin(t)
				h.skew = skew
				h.add("east")
				h.beating("east").during(100 * minute)
				h.expect()
				h.beating().during(34 * minute)
				h.expect("33m east Silent")
				h.skew = -skew // the clock was set right, and more
				h.beat("east")
				h.expect("0s east Heard")
			})
		})
	}
}

// Three intervals in a row are a tenth longer, and one heartbeat is lost in each: the agent reports.
func TestJitter_IsTolerated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := begin(t, "east")
		for range 5 {
			h.pass(33*minute - time.Second)
			h.beat("east")
		}
		h.expect()
	})
}

func TestRestart_GivesAgentsAWholeInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := begin(t, "east", "west", "north")
		h.beating("west").during(34 * minute)
		h.expect("33m east Silent", "33m north Silent")
		h.mark("east") // as its status says by now; what north's says was not written
		h.pass(20 * minute)

		h.restart()
		h.expectStale("east") // without a word
		h.pass(32 * minute)
		h.expect()
		h.pass(2 * minute)
		h.expect("1m north Silent", "1m west Silent")
		h.beat("east")
		h.expect("0s east Heard")
	})
}

func TestDeployedAgent_IsMissingAfter45Seconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := begin(t)
		h.add("east", unheard)
		h.add("west", unheard)
		h.add("byhand", unheard, installedByHand)
		h.pass(10 * minute)
		h.expect("45s byhand Awaited, absent", "45s east Awaited, absent", "45s west Awaited, absent") // the import says why nothing was deployed
		h.change("east", imported)
		h.change("west", imported)
		h.change("byhand", imported)
		h.pass(44 * time.Second)
		h.beat("west")
		h.expect("0s east Awaited", "0s west Awaited", "44s west Heard") // this one may come any moment
		h.pass(2 * time.Second)
		h.expect("1s east Missing, absent")
		h.expectStale() // it never was there
		h.restart()
		h.mark("east")
		h.pass(10 * minute)
		h.expect("45s byhand Awaited, absent", "45s east Missing, absent")
		h.beat("east")
		h.expect("0s east Heard")
	})
}

func TestRedeployedAgent_IsAwaitedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := begin(t, "east")
		h.pass(34 * minute)
		h.expect("33m east Silent")
		h.change("east", unheard, imported)
		h.expect("0s east Awaited")
		h.pass(minute)
		h.expect("45s east Missing, absent")
		h.beat("east")
		h.expect("0s east Heard")
		h.pass(10 * minute)
		h.beat("east")
		h.pass(32 * minute)
		h.expect() // its interval was learned from heartbeats only
	})
}

func TestUnexpectedAgent_IsNotMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := begin(t, "east", "west", "local")
		h.pass(5 * minute)
		h.change("east", elsewhere)
		h.remove("west")
		h.config.Bootstrap.Namespace, h.config.Bootstrap.LocalAgentDisabled = "ws", true
		h.tracker.DecideAll()
		h.expect("5m east Unexpected", "5m local Unexpected")
		h.pass(100 * minute)
		h.expect()
		h.config.Bootstrap.LocalAgentDisabled = false
		h.tracker.DecideAll()
		h.expect("0s local Heard")
		h.pass(32 * minute) // nobody waited for it before
		h.expect()
		h.pass(2 * minute)
		h.expect("1m local Silent")
	})
}

// A new Cluster with the same name has another agent.
func TestRecreatedCluster_StartsANewRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := begin(t, "east")
		h.pass(34 * minute)
		h.expect("33m east Silent")
		h.add("east", unheard)
		h.expect("0s east Awaited")
		h.pass(100 * minute)
		h.expectStale()
		h.expect("45s east Awaited, absent")
		h.beat("east")
		h.expect("0s east Heard")
	})
}

func TestLongerInterval_IsLearned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := begin(t, "slow")
		for range 2 { // the second gap is the first of which both ends were seen
			h.pass(time.Hour)
			h.expect("33m slow Silent")
			h.beat("slow")
			h.expect("0s slow Heard")
		}
		for range 5 {
			h.pass(time.Hour)
			h.beat("slow")
		}
		h.expect()
		h.pass(200 * minute)
		h.expect("198m slow Silent")
	})
}

func TestChangedInterval_CountsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := begin(t, "east")
		h.pass(32 * minute)
		h.config.AgentCheckinInterval.Duration = time.Hour
		h.tracker.DecideAll()
		h.pass(60 * minute)
		h.expect()
		h.config.AgentCheckinInterval.Duration = minute
		h.tracker.DecideAll()
		h.expect("0s east Silent")
	})
}

func TestAgentInstalledByHand_KeepsItsIntervalUntilAdopted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := begin(t)
		h.add("hand", installedByHand)
		h.pass(49 * minute)
		h.expect()
		h.adopted = true
		h.tracker.DecideAll()
		h.expect("0s hand Silent")
	})
}

// The cache may be newer than a caller's Cluster. The answer fits the given Cluster.
func TestOf_FitsTheGivenCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := begin(t, "east")
		heard := h.cluster("east")
		h.change("east", unheard)
		awaited := h.cluster("east")
		h.change("east", elsewhere)
		theirs := h.cluster("east")
		for _, row := range []struct {
			now, asked *fleet.Cluster
			want       supervision.Reporting
		}{
			{heard, heard, supervision.ReportingHeard}, {heard, awaited, supervision.ReportingAwaited}, {heard, theirs, supervision.ReportingUnexpected},
			{awaited, heard, supervision.ReportingHeard}, {awaited, awaited, supervision.ReportingAwaited}, {awaited, theirs, supervision.ReportingUnexpected},
			{theirs, heard, supervision.ReportingHeard}, {theirs, awaited, supervision.ReportingAwaited}, {theirs, theirs, supervision.ReportingUnexpected},
		} {
			h.put(row.now)
			if got := h.tracker.Of(row.asked); got != row.want {
				t.Errorf("%s, want %s", got, row.want)
			}
		}
		unknown := &fleet.Cluster{}
		unknown.Name = "unknown"
		if got := h.tracker.Of(unknown); got != supervision.ReportingAwaited {
			t.Errorf("a Cluster that is not in the cache is %s", got)
		}
		if h.tracker.Stale(types.NamespacedName{Name: "unknown"}) {
			t.Error("a Cluster that is not there is stale")
		}
	})
}

func TestRun_JudgesNothingAfterItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := begin(t, "east")
		h.end()
		h.pass(time.Hour)
		h.expect()
	})
}

// Callers do not have to wait for the watch, because the cache is read.
func TestOf_ReadsTheCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := begin(t, "east")
		h.pass(34 * minute)
		h.expect("33m east Silent")
		h.store(h.beaten("east"))
		h.expectStale()
		h.expect("0s east Heard")
	})
}

// All Clusters are judged about once in two intervals, however many heartbeats there are.
func TestHeartbeat_CausesNoJudgementOfAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		names := make([]string, 200)
		for i := range names {
			names[i] = fmt.Sprintf("c%03d", i)
		}
		h := begin(t, names...)
		h.beating(names...).during(10 * minute)
		before := h.reads
		h.beating(names...).during(100 * minute)
		beats := 10 * len(names)
		if judged := (h.reads - before - beats) / len(names); judged > 5 {
			t.Errorf("%d reads for %d heartbeats: all were judged %d times", h.reads-before, beats, judged)
		}
		h.expect()
	})
}

func TestCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := begin(t, "a", "b", "c", "d", "e", "f")
		h.add("new", unheard)
		h.add("theirs", elsewhere)
		h.beating("a", "b", "c", "d", "e").during(34 * minute)
		want := map[supervision.Reporting]int{supervision.ReportingHeard: 5, supervision.ReportingSilent: 1, supervision.ReportingAwaited: 1, supervision.ReportingUnexpected: 1}
		if diff := cmp.Diff(want, h.tracker.Counts()); diff != "" {
			t.Errorf("counts (-want +got):\n%s", diff)
		}
		h.pass(34 * minute) // the others, too: none of them is marked, but the silence is counted
		want[supervision.ReportingHeard], want[supervision.ReportingSilent] = 0, 6
		delete(want, supervision.ReportingHeard)
		if diff := cmp.Diff(want, h.tracker.Counts()); diff != "" {
			t.Errorf("counts of many (-want +got):\n%s", diff)
		}
		h.expectStale("f")
	})
}
