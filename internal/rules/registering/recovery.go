package registering

import "time"

// RecoverySpread is the time over which agents spread their first recovery requests after a loss. When 1,000 agents
// lose their credentials at once, they make 17 requests a second. An API server that has just started is slow, and
// receives the requests of several seconds in one. They must be fewer than 60 even then. A hub with more agents publishes a
// longer time, so that they make no more requests a second. Agents wait for at most LongestRecoverySpread.
const RecoverySpread, LongestRecoverySpread = 60 * time.Second, 10 * time.Minute

// chances is the number of values of Recovery.Chance. It is large enough that agents of a large hub rarely share one.
const chances = 1 << 16

// Recovery describes with what an agent can return without a bootstrap secret, and what came of it.
type Recovery struct {
	// Server is the hub's address.
	Server string
	// CanRequest means that the agent has its key, a recovery token and a ticket.
	CanRequest bool
	// CanVerify means that the agent has the hub's public key, so that it can use a hub document.
	CanVerify bool
	// Since is when this process noticed that it has no identity that the hub accepts.
	Since time.Time
	// Chance is a random number from 0 to 65535, which is drawn once for each loss.
	Chance int
	// Spread is the time over which agents of this hub spread their first requests, as the hub has published it, or 0.
	Spread time.Duration
	// Attempt describes the request with the recovery token.
	Attempt
}

// turn returns the time until the agent may make its first recovery request. It includes RejectionPatience, so that a
// bootstrap secret that arrives in a moment, or a hub that has just started, makes the recovery unnecessary. Many
// agents are rejected at once, but each loses its own Secret alone, so that only rejected ones use the hub's spread.
func (r Recovery) turn(now time.Time, isStored bool) time.Duration {
	if r.Request != nil && now.Sub(r.Request.MadeAt) < CredentialPatience {
		return 0
	}
	return r.Since.Add(RejectionPatience + r.spread(isStored)*time.Duration(r.Chance)/chances).Sub(now)
}

func (r Recovery) spread(isStored bool) time.Duration {
	if !isStored {
		return RecoverySpread
	}
	return min(max(r.Spread, RecoverySpread), LongestRecoverySpread)
}

// probesPerSpread is how often an agent of a large hub tests its rejected identity at most while it waits for its turn. The pauses
// grow with the number of agents, so that the hub gets no more requests a second. On other hubs, the usual pauses are as long.
const probesPerSpread = 4

// waitForTurn returns the step of an agent that waits for its turn.
func waitForTurn(in Input, pause time.Duration) Outcome {
	out := Outcome{Stage: Await, Awaited: RecoveryTurn, ProbeStored: in.Stored != nil, Pause: pause}
	if spread := in.Recovery.spread(out.ProbeStored); spread > RecoverySpread {
		out.ProbePause = spread / probesPerSpread
	}
	return out
}

// canRecover reports whether a recovery may replace the lost identity. A bootstrap secret for another hub forbids it,
// because the agent is meant to leave its hub.
func canRecover(in Input) bool {
	return in.Recovery != nil && (in.Recovery.CanRequest || in.Recovery.CanVerify) &&
		(in.Bootstrap == nil || sameServer(in.Bootstrap.APIServerURL, in.Recovery.Server))
}

// recoverIdentity returns the step of an agent that returns with its recovery token. It never gives up, because the
// hub may accept the agent again at any time. If the hub rejects the token or is not trusted, a hub document may
// contain another token, address or CA.
func recoverIdentity(in Input) Outcome {
	r := in.Recovery
	if pause := r.turn(in.Now, in.Stored != nil); pause > 0 {
		return waitForTurn(in, pause)
	}
	refused := r.TokenAnswer.Answer == Rejected && r.Request == nil // a pending request may still be granted
	useless := !r.CanRequest || refused || r.TokenAnswer.Answer == Untrusted || r.TokenAnswer.against(in.Now, RejectionPatience)
	if useless && r.CanVerify {
		return Outcome{Stage: Await, Awaited: HubDocument, ProbeStored: in.Stored != nil}
	}
	step := r.next(in)
	step.Recovery = true
	return step
}
