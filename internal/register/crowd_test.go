package register

import (
	"math/rand/v2"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/fleet-hub/fleet/internal/register/pace"
	"github.com/fleet-hub/fleet/internal/rules/registering"
)

const (
	// crowd is the number of agents of a large hub.
	crowd = 10_000
	// served is the number of requests that the hub accepts in a second, as few as one that has just started.
	served = 60
)

// randomBytes is a source of randomness that repeats itself in each run.
type randomBytes struct{ *rand.Rand }

func (r randomBytes) Read(buffer []byte) (int, error) {
	for i := range buffer {
		buffer[i] = byte(r.IntN(256))
	}
	return len(buffer), nil
}

// returning is an agent that has lost its identity, or whose identity is rejected.
type returning struct {
	state  registering.Recovery
	stored *registering.StoredIdentity
	pace   pace.Pace
}

// requests reports whether the agent makes a recovery request now.
func (r *returning) requests(now time.Time) bool {
	step := registering.Decide(registering.Input{Now: now, Running: true, Stored: r.stored, Recovery: &r.state})
	return step.Stage == registering.Request && step.Recovery && r.pace.Until(now) <= 0
}

// A hub is restored to before ten thousand agents have joined, and answers 429 to most of their requests.
func TestTenThousandAgents_AllReturnToABusyHub(t *testing.T) {
	allReturn(t, crowd/20, 0, nil) // they take turns for a minute, and then each of them waits longer than before
}

// The hub has published that it has so many agents: it can serve them as they come.
func TestTenThousandAgents_AllReturnOverTenMinutes(t *testing.T) {
	allReturn(t, served, 10*time.Minute, func(since time.Time) *registering.StoredIdentity {
		return &registering.StoredIdentity{LastAnswer: registering.LastAnswer{Answer: registering.Rejected, Since: since}}
	})
}

// allReturn expects that all agents return, with at most so many requests in a second.
func allReturn(t *testing.T, limit int, spread time.Duration, stored func(since time.Time) *registering.StoredIdentity) {
	t.Helper()
	random, loss := randomBytes{rand.New(rand.NewPCG(1, 2))}, time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	var away []*returning
	for range crowd {
		agent := &returning{
			state: registering.Recovery{CanRequest: true, CanVerify: true, Since: loss, Chance: pace.FineChance(random), Spread: spread},
			pace:  pace.New(firstRecoveryPause, longRecoveryPause, random),
		}
		if stored != nil {
			agent.stored = stored(loss)
		}
		away = append(away, agent)
	}
	busy, most, now := apierrors.NewTooManyRequests("busy", 1), 0, loss
	for ; len(away) > 0 && now.Before(loss.Add(time.Hour)); now = now.Add(time.Second) {
		var left []*returning
		requests := 0
		for _, agent := range away {
			if agent.requests(now) {
				if requests++; requests <= served {
					continue // it returns
				}
				agent.pace.Tried(now, busy)
			}
			left = append(left, agent)
		}
		away, most = left, max(most, requests)
	}
	t.Logf("all returned after %s, with at most %d requests in a second", now.Sub(loss), most)
	if len(away) > 0 {
		t.Errorf("%d agents did not return", len(away))
	}
	if most > limit {
		t.Errorf("%d requests in a second", most)
	}
}
