package clusterimport

import (
	"testing"
	"time"

	supervisionrule "github.com/fleet-hub/fleet/internal/rules/supervision"
)

func newTestSupervision() (*supervision, *steppedClock) {
	clock := &steppedClock{now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	return newSupervision(clock.read), clock
}

// expectDue fails unless a look is due after least, or up to a quarter later.
func expectDue(t *testing.T, s *supervision, of string, least time.Duration) time.Duration {
	t.Helper()
	due := s.due("ws/a", of)
	if due < least || due > least+least/4 {
		t.Errorf("due after %s; want %s, up to a quarter later", due, least)
	}
	return due
}

func TestLooksGetRarer(t *testing.T) {
	for name, heard := range map[string]bool{"one that is awaited": false, "one that has gone": true} {
		t.Run(name, func(t *testing.T) {
			s, clock := newTestSupervision()
			s.deployed("ws/a", true, true)
			clock.now = clock.now.Add(expectDue(t, s, "x", supervisionrule.FirstLook))
			for looks := range 9 {
				if due := s.due("ws/a", "x"); due > 0 {
					t.Fatalf("look %d is due after %s, and its time has come", looks, due)
				}
				s.looked("ws/a", heard, supervisionrule.Outcome{})
				clock.now = clock.now.Add(expectDue(t, s, "x", supervisionrule.NextLook(looks+1, heard)))
			}
		})
	}
}

func TestAProcessThatHasJustStartedLooksSoon(t *testing.T) {
	s, _ := newTestSupervision()
	if due := s.due("ws/a", "x"); due < 0 || due > supervisionrule.FirstLook {
		t.Errorf("due after %s", due)
	}
	if s.known("ws/a").deployed {
		t.Error("it claims to have seen the agent deployed")
	}
}

func TestChange_IsLookedAtAtOnce(t *testing.T) {
	s, clock := newTestSupervision()
	s.deployed("ws/a", true, true)
	expectDue(t, s, "one kubeconfig", supervisionrule.FirstLook)
	if due := s.due("ws/a", "another"); due > 0 {
		t.Errorf("due after %s", due)
	}
	s.looked("ws/a", false, supervisionrule.Outcome{})
	clock.now = clock.now.Add(expectDue(t, s, "another", supervisionrule.NextLook(1, false)))
}

func TestWhatALookHasFoundIsRepairedOnce(t *testing.T) {
	s, _ := newTestSupervision()
	if got := s.wanted("ws/a"); got != supervisionrule.RepairNone {
		t.Errorf("an agent that nobody has looked at needs %q", got)
	}
	s.looked("ws/a", false, supervisionrule.Outcome{Repair: supervisionrule.RepairObjects})
	if got := s.wanted("ws/a"); got != supervisionrule.RepairObjects {
		t.Errorf("wanted %q", got)
	}
	s.want("ws/a", supervisionrule.RepairIdentity)
	s.looked("ws/a", false, supervisionrule.Outcome{Repair: supervisionrule.RepairObjects})
	if got := s.wanted("ws/a"); got != supervisionrule.RepairIdentity {
		t.Errorf("the greater repair gave way to %q", got)
	}
	s.deployed("ws/a", false, true)
	if got := s.wanted("ws/a"); got != supervisionrule.RepairNone {
		t.Errorf("wanted again: %q", got)
	}
	s.want("ws/a", supervisionrule.RepairIdentity)
	s.forget("ws/a")
	if got := s.wanted("ws/a"); got != supervisionrule.RepairNone {
		t.Errorf("remembered of one that is heard of: %q", got)
	}
}

// A fresh token begins another time of quiet; what was awaited before stays awaited since then.
func TestQuietAndSince(t *testing.T) {
	s, clock := newTestSupervision()
	began := clock.now
	s.deployed("ws/a", true, true)
	clock.now = began.Add(time.Minute)
	s.deployed("ws/a", false, false) // objects only
	s.looked("ws/a", false, supervisionrule.Outcome{})
	if got := s.known("ws/a"); !got.since.Equal(began) || !got.quiet.Equal(began) || got.tokens != 0 || !got.deployed {
		t.Errorf("%+v", got)
	}
	s.looked("ws/a", false, supervisionrule.Outcome{FreshToken: true})
	if got := s.known("ws/a"); !got.since.Equal(began) || !got.quiet.Equal(clock.now) || got.tokens != 1 {
		t.Errorf("%+v", got)
	}
	clock.now = began.Add(2 * time.Minute)
	s.deployed("ws/a", false, true) // handed over
	if got := s.known("ws/a"); !got.since.Equal(began) || !got.quiet.Equal(clock.now) || got.tokens != 1 {
		t.Errorf("%+v", got)
	}
	s.deployed("ws/a", true, true)
	if got := s.known("ws/a"); !got.since.Equal(clock.now) || got.tokens != 0 || got.looks != 0 {
		t.Errorf("one that is deployed anew begins with %+v", got)
	}
}
