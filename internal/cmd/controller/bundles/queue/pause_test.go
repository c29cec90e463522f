package queue

import (
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// paced runs a queue whose passes are over so many clusters, and take 16 µs for each of them.
func paced(t *testing.T, clusters int) (*Queue, *passes) {
	t.Helper()
	return run(t, Options{}, func(q *Queue, k types.NamespacedName) error {
		q.Pause(k, clusters)
		<-time.After(time.Duration(clusters) * 16 * time.Microsecond)
		return nil
	})
}

func TestAddPaced_BurstOverManyClustersCausesFewPasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, p := paced(t, 12_500) // 200 ms, and a pause of 2 s
		q.AddPaced(key("a"), 0)
		<-time.After(50 * time.Millisecond) // so that no event comes when a pause ends
		for range 49 {
			<-time.After(100 * time.Millisecond)
			q.AddPaced(key("a"), 0)
		}
		<-time.After(100 * time.Millisecond)
		<-time.After(time.Minute)
		q.AddPaced(key("a"), 0) // after a quiet period
		<-time.After(time.Minute)
		p.expect(t, "a 0s", "a 2s", "a 4s", "a 6s", "a 1m5.05s")
		if len(q.paused) > 0 {
			t.Errorf("it remembers %v", q.paused)
		}
	})
}

func TestAdd_DoesNotWaitForThePause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, p := paced(t, 1_000_000) // 16 s, and the longest pause
		q.AddPaced(key("a"), 0)
		<-time.After(17 * time.Second)
		q.AddPaced(key("a"), 0)
		<-time.After(17 * time.Second)
		q.Add(key("a"))
		<-time.After(time.Second)
		q.AddPaced(key("a"), 0)
		q.Add(key("b"))
		<-time.After(time.Minute)
		p.expect(t, "a 0s", "a 17s", "a 34s", "b 35s", "a 50s")
	})
}

func TestAddPaced_FewClustersAreNotPaused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, p := paced(t, 125)
		for range 3 {
			q.AddPaced(key("a"), 0)
			<-time.After(5 * time.Millisecond)
		}
		q.AddPaced(key("a"), time.Second)
		<-time.After(time.Minute)
		p.expect(t, "a 0s", "a 5ms", "a 10ms", "a 1.015s")
	})
}
