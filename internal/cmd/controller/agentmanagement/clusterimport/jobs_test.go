package clusterimport

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// steppedClock is a clock that a test moves.
type steppedClock struct{ now time.Time }

func (c *steppedClock) read() time.Time { return c.now }

func newTestJobs() (*jobs, *steppedClock) {
	clock := &steppedClock{now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	return newJobs(clock.read), clock
}

func TestOneJobForEachCluster(t *testing.T) {
	j, _ := newTestJobs()
	if begun, _ := j.begin("ws/a", "x"); !begun {
		t.Fatal("the first job did not begin")
	}
	if begun, wait := j.begin("ws/a", "x"); begun || wait != 0 {
		t.Errorf("a second job of the cluster began (%v) or has to wait (%s) while the first runs", begun, wait)
	}
	if begun, _ := j.begin("ws/a", "y"); begun {
		t.Error("another job of the cluster began while the first runs")
	}
	if begun, _ := j.begin("ws/b", "x"); !begun {
		t.Error("a job of another cluster did not begin")
	}
	if !j.busy("ws/a", "1") || !j.busy("ws/b", "1") || j.busy("ws/c", "1") {
		t.Error("busy does not name exactly the two clusters with jobs")
	}
}

func TestAFailedJobWaitsLongerEachTime(t *testing.T) {
	j, clock := newTestJobs()
	least := []time.Duration{2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second}
	for attempt, want := range least {
		if begun, _ := j.begin("ws/a", "x"); !begun {
			t.Fatalf("attempt %d did not begin after its wait", attempt)
		}
		retry := j.failed("ws/a", errServer)
		if retry < want || retry > want+want/4 {
			t.Errorf("attempt %d waits %s, want between %s and a quarter more", attempt, retry, want)
		}
		if begun, wait := j.begin("ws/a", "x"); begun || wait != retry {
			t.Errorf("attempt %d: begun %v, wait %s; want to wait %s", attempt, begun, wait, retry)
		}
		clock.now = clock.now.Add(retry)
	}
}

func TestSomethingElseIsTriedAtOnce(t *testing.T) {
	j, clock := newTestJobs()
	j.begin("ws/a", "wrong kubeconfig")
	j.failed("ws/a", errServer)
	if begun, _ := j.begin("ws/a", "right kubeconfig"); !begun {
		t.Fatal("the repaired cluster has to wait for the failure of the broken one")
	}
	retry := j.failed("ws/a", errServer)
	if retry > 3*time.Second {
		t.Errorf("the repaired cluster inherits the failures of the broken one: waits %s", retry)
	}
	clock.now = clock.now.Add(retry)
	if begun, _ := j.begin("ws/a", "right kubeconfig"); !begun {
		t.Error("not tried again after the wait")
	}
}

func TestTheWaitIsBounded(t *testing.T) {
	j, clock := newTestJobs()
	for failures := range 100 {
		if begun, _ := j.begin("ws/a", "x"); !begun {
			t.Fatal("it did not begin")
		}
		retry := j.failed("ws/a", errServer)
		if retry > retryMax+retryMax/4 || failures > 9 && retry < retryMax {
			t.Errorf("after %d failures: %s", failures, retry)
		}
		clock.now = clock.now.Add(retry)
	}
}

func TestASuccessIsNotRepeatedFromAnOldCache(t *testing.T) {
	j, _ := newTestJobs()
	j.begin("ws/a", "x")
	j.succeeded("ws/a", "100")
	got := map[string]bool{}
	for _, version := range []string{"9", "99", "100", "101", "not a number"} {
		got[version] = j.busy("ws/a", version)
	}
	want := map[string]bool{"9": true, "99": true, "100": false, "101": false, "not a number": false}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("busy by version (-want +got):\n%s", diff)
	}
}

func TestForgetting(t *testing.T) {
	j, _ := newTestJobs()
	j.begin("ws/failed", "x")
	j.failed("ws/failed", errServer)
	j.begin("ws/running", "x")
	j.forget("ws/failed")
	j.forget("ws/running")
	if begun, _ := j.begin("ws/failed", "x"); !begun {
		t.Error("a forgotten failure still delays")
	}
	if begun, _ := j.begin("ws/running", "x"); begun {
		t.Error("a running job was forgotten: two would run at once")
	}
	if retry := j.failed("ws/unknown", errServer); retry != 0 {
		t.Errorf("a job nobody knows is retried after %s", retry)
	}
	j.succeeded("ws/unknown", "1") // a Cluster deleted meanwhile: must not come back
	if j.busy("ws/unknown", "0") {
		t.Error("a success of an unknown job was noted")
	}
}
