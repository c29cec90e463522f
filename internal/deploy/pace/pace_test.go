package pace

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fleet-hub/fleet/internal/deploy/deploytest"
)

func TestBackoff(t *testing.T) {
	chance := 0.0
	b := NewBackoff(func() float64 { return chance })
	var got []time.Duration
	for range 10 {
		got = append(got, b.When("x"))
	}
	want := []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second,
		16 * time.Second, 32 * time.Second, 64 * time.Second, 2 * time.Minute, 2 * time.Minute}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if b.NumRequeues("x") != 10 || b.NumRequeues("y") != 0 {
		t.Errorf("counts: %d %d", b.NumRequeues("x"), b.NumRequeues("y"))
	}
	b.Forget("x")
	chance = 0.999
	if got := b.When("x"); got < 749*time.Millisecond || got >= 750*time.Millisecond {
		t.Errorf("spread to %s", got)
	}
}

func TestFailedCorrections_IncreasePause(t *testing.T) {
	var c Correction
	now := deploytest.Noon()
	for i := range correctionsPerMinute {
		if wait := c.Wait(now); wait != 0 {
			t.Fatalf("correction %d waits %s", i, wait)
		}
		c.Began(now)
		now = now.Add(time.Second)
	}
	if got := c.Wait(now); got != 50*time.Second {
		t.Errorf("after ten in ten seconds it waits %s", got)
	}
	now = now.Add(50 * time.Second)
	if got := c.Wait(now); got != 0 {
		t.Errorf("a minute after the first it waits %s", got)
	}
	c.Began(now)
	if got := c.Wait(now); got != time.Second {
		t.Errorf("the next one waits %s", got)
	}
	now = now.Add(time.Hour)
	var pauses []time.Duration
	for range 13 {
		c.Failed(now, "because", 0)
		pauses = append(pauses, c.Wait(now))
	}
	want := []time.Duration{
		500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 32 * time.Second,
		64 * time.Second, 128 * time.Second, 256 * time.Second, 512 * time.Second, lastCorrection, lastCorrection,
	}
	if diff := cmp.Diff(want, pauses); diff != "" {
		t.Errorf("after failures (-want +got):\n%s", diff)
	}
	c.Worked()
	if got := c.Wait(now); got != 0 || c.Failure != "" {
		t.Errorf("after success it waits %s because %q", got, c.Failure)
	}
}

func TestRandomValue_SpreadsPauses(t *testing.T) {
	var c Correction
	c.Failed(deploytest.Noon(), "", 0.99)
	if got := c.Wait(deploytest.Noon()); got <= firstRetry || got > firstRetry*3/2 {
		t.Errorf("waits %s", got)
	}
}
