package registering

import "time"

// RecoverySpread is the time over which agents spread their first recovery requests after a loss. When 1,000 agents
// lose their credentials at once, they make 17 requests a second. An API server that has just started is slow, and
// receives the requests of several seconds in one. They must be fewer than 60 even then.
const RecoverySpread = 60 * time.Second

// chances is the number of values of Recovery.Chance.
const chances = 256

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
	// Chance is a random number from 0 to 255, which is drawn once for each loss.
	Chance int
	// Attempt describes the request with the recovery token.
	Attempt
}

// turn returns the time until the agent may make its first recovery request. It includes RejectionPatience, so that a
// bootstrap secret that arrives in a moment, or a hub that has just started, makes the recovery unnecessary.
func (r Recovery) turn(now time.Time) time.Duration {
	if r.Request != nil {
		return 0
	}
	return r.Since.Add(RejectionPatience + RecoverySpread*time.Duration(r.Chance)/chances).Sub(now)
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
	if pause := r.turn(in.Now); pause > 0 {
		return Outcome{Stage: Await, Awaited: RecoveryTurn, AskAgain: in.Stored != nil, Pause: pause}
	}
	refused := r.Token.Answer == Rejected && r.Request == nil // a pending request may still be granted
	useless := !r.CanRequest || refused || r.Token.Answer == Untrusted || r.Token.against(in.Now, RejectionPatience)
	if useless && r.CanVerify {
		return Outcome{Stage: Await, Awaited: HubDocument, AskAgain: in.Stored != nil}
	}
	step := r.next(in.Now)
	step.Recovery = true
	return step
}
