package registering

import (
	"testing"
	"time"

	"github.com/fleet-hub/fleet/internal/protocol"
)

// agentRecovery adds what an agent needs to return. It lost its identity this long ago.
func agentRecovery(ago time.Duration, modifiers ...func(*Recovery, time.Time)) func(*Input) {
	return func(s *Input) {
		s.Recovery = &Recovery{Server: agentHub, CanRequest: true, CanVerify: true, Since: s.Now.Add(-ago), Chance: chances / 2}
		for _, modify := range modifiers {
			modify(s.Recovery, s.Now)
		}
	}
}

func recoverySaid(answer Answer, ago time.Duration) func(*Recovery, time.Time) {
	return func(r *Recovery, now time.Time) { r.TokenAnswer = LastAnswer{Answer: answer, Since: now.Add(-ago)} }
}

func recoveryRequested(ago time.Duration) func(*Recovery, time.Time) {
	return func(r *Recovery, now time.Time) {
		r.Request = &PendingRequest{Name: "request-2", MadeAt: now.Add(-ago)}
	}
}

func recoveryGranted(proof Answer, ago time.Duration) func(*Recovery, time.Time) {
	return func(r *Recovery, now time.Time) {
		r.Credential = &protocol.Credential{Token: "g0lden", DeploymentNamespace: "cluster-a", ClusterNamespace: "fleet-default", ClusterName: "a"}
		r.CredentialAnswer = LastAnswer{Answer: proof, Since: now.Add(-ago)}
	}
}

func onLargeHub(r *Recovery, _ time.Time) { r.Spread = 24 * time.Hour }

func noDocument(r *Recovery, _ time.Time) { r.CanVerify = false }

func noTicket(r *Recovery, _ time.Time) { r.CanRequest = false }

func TestDecide_Recovery(t *testing.T) {
	const long = time.Hour
	const turn = RejectionPatience + RecoverySpread/2
	here, elsewhere := agentBootstrap(agentHub), agentBootstrap("https://elsewhere.example")
	request := Outcome{Stage: Request, Recovery: true}
	document := Outcome{Stage: Await, Awaited: HubDocument}
	askingToo := func(step Outcome) Outcome { step.ProbeStored = true; return step }
	tests := map[string]struct {
		in   Input
		want Outcome
		err  error
	}{
		// Before the recovery.
		"identity works: no recovery": {
			in: agentState(agentStored(Accepted, 0), agentRecovery(long)), want: Outcome{Stage: Use},
		},
		"hub is silent: no recovery": {
			in:   agentState(agentStored(Unanswered, long), agentRecovery(long)),
			want: Outcome{Stage: Await, Awaited: AnswerToStored, ProbeStored: true},
		},
		"first rejection at start: asked again": {
			in:   agentState(agentStored(Rejected, RejectionPatience-1), agentRecovery(RejectionPatience-1)),
			want: Outcome{Stage: Await, Awaited: AnswerToStored, ProbeStored: true},
		},
		"first rejection while serving: identity stays in use": {
			in:   agentState(agentStored(Rejected, RejectionPatience-1), agentServing, agentRecovery(RejectionPatience-1)),
			want: Outcome{Stage: Use, ProbeStored: true},
		},
		"lasting rejection: the agent waits for its turn and asks again": {
			in:   agentState(agentStored(Rejected, RejectionPatience), agentRecovery(RejectionPatience)),
			want: Outcome{Stage: Await, Awaited: RecoveryTurn, ProbeStored: true, Pause: RecoverySpread / 2},
		},
		"lasting rejection on a large hub: the agent waits longer": {
			in:   agentState(agentStored(Rejected, RejectionPatience), agentRecovery(RejectionPatience, onLargeHub)),
			want: Outcome{Stage: Await, Awaited: RecoveryTurn, ProbeStored: true, ProbePause: LongestRecoverySpread / 4, Pause: LongestRecoverySpread / 2},
		},
		"Secret is missing on a large hub: it is the only one": {
			in: agentState(agentRecovery(0, onLargeHub)), want: Outcome{Stage: Await, Awaited: RecoveryTurn, Pause: turn},
		},
		"Secret is missing: the agent waits for its turn": {
			in: agentState(agentRecovery(0)), want: Outcome{Stage: Await, Awaited: RecoveryTurn, Pause: turn},
		},
		"Secret is missing at the agent's turn: recovery request": {
			in: agentState(agentRecovery(turn)), want: request,
		},
		"Secret is invalid: recovery request": {
			in: agentState(agentStoredProblem, agentRecovery(long)), want: request,
		},
		"configuration is invalid: recovery request": {
			in: agentState(agentConfigProblem, agentRecovery(long)), want: request,
		},
		"rejected for longer than the turn: recovery request": {
			in: agentState(agentStored(Rejected, long), agentRecovery(long)), want: askingToo(request),
		},
		"CA is no longer trusted: recovery request": {
			in: agentState(agentStored(Untrusted, long), agentRecovery(long)), want: askingToo(request),
		},

		// A bootstrap secret comes first.
		"bootstrap secret exists: it is used": {
			in: agentState(here, agentRecovery(long)), want: Outcome{Stage: Request},
		},
		"bootstrap secret appears while the answer is awaited: it is used": {
			in: agentState(here, agentRecovery(long, recoveryRequested(0))), want: Outcome{Stage: Request},
		},
		"bootstrap secret is used, hub rejects the identity: it is tested again": {
			in: agentState(here, agentStored(Rejected, long), agentRecovery(long)), want: askingToo(Outcome{Stage: Request}),
		},
		"bootstrap request is pending, no recovery is possible: the identity is not tested": {
			in:   agentState(here, agentStored(Rejected, long), agentRequested(0), agentRecovery(long, noTicket)),
			want: Outcome{Stage: Await, Awaited: GrantedCredential},
		},
		"bootstrap request to another hub is pending: the identity is not tested": {
			in:   agentState(elsewhere, agentStored(Rejected, long), agentMoved(Rejected, long), agentRequested(0), agentRecovery(long)),
			want: Outcome{Stage: Await, Awaited: GrantedCredential},
		},
		"bootstrap secret is rejected: recovery request": {
			in: agentState(here, agentTokenSaid(Rejected, long), agentRecovery(long)), want: request,
		},
		"bootstrap secret is invalid: recovery request": {
			in: agentState(agentBootstrapProblem, agentRecovery(long)), want: request,
		},
		"bootstrap secret of another hub is rejected: no recovery at the old hub": {
			in: agentState(elsewhere, agentTokenSaid(Rejected, long), agentRecovery(long)), want: Outcome{Stage: GiveUp}, err: ErrTokenRejected,
		},

		// The recovery.
		"request is made: its credential is awaited": {
			in:   agentState(agentRecovery(long, recoveryRequested(0))),
			want: Outcome{Stage: Await, Awaited: GrantedCredential, Recovery: true},
		},
		"identity was lost again before the turn, request is pending: it is continued": {
			in:   agentState(agentRecovery(0, recoveryRequested(0))),
			want: Outcome{Stage: Await, Awaited: GrantedCredential, Recovery: true},
		},
		"identity was lost again before the turn, request has expired: it waits for its turn": {
			in:   agentState(agentRecovery(0, recoveryRequested(CredentialPatience))),
			want: Outcome{Stage: Await, Awaited: RecoveryTurn, Pause: turn},
		},
		"request is not answered for long: another one": {
			in: agentState(agentRecovery(long, recoveryRequested(CredentialPatience))), want: request,
		},
		"request is granted: the credential is tried": {
			in:   agentState(agentRecovery(long, recoveryRequested(0), recoveryGranted("", 0))),
			want: Outcome{Stage: Await, Awaited: AnswerToCredential, Recovery: true},
		},
		"credential works: stored": {
			in:   agentState(agentStored(Rejected, long), agentRecovery(long, recoveryRequested(0), recoveryGranted(Accepted, 0))),
			want: Outcome{Stage: Use, Store: true, Recovery: true},
		},
		"credential stays rejected: another request": {
			in: agentState(agentRecovery(long, recoveryRequested(0), recoveryGranted(Rejected, credentialPatience))), want: request,
		},

		// The hub document.
		"first rejection of the recovery token: the hub document may have another one": {
			in: agentState(agentRecovery(long, recoverySaid(Rejected, 0))), want: document,
		},
		"first rejection of the recovery token, request is pending: its credential is awaited": {
			in:   agentState(agentRecovery(long, recoverySaid(Rejected, RejectionPatience-1), recoveryRequested(0))),
			want: Outcome{Stage: Await, Awaited: GrantedCredential, Recovery: true},
		},
		"recovery token stays rejected: the hub document may have another one": {
			in: agentState(agentRecovery(long, recoverySaid(Rejected, RejectionPatience))), want: document,
		},
		"all tokens are rejected: the stored one is asked again, too": {
			in:   agentState(agentStored(Rejected, long), agentRecovery(long, recoverySaid(Rejected, long))),
			want: askingToo(document),
		},
		"hub is not trusted: the hub document may have another CA": {
			in: agentState(agentStored(Untrusted, long), agentRecovery(long, recoverySaid(Untrusted, 0))), want: askingToo(document),
		},
		"recovery token or ticket was lost: the hub document may have a token": {
			in: agentState(agentRecovery(long, noTicket)), want: document,
		},
		"hub's key was lost: the rejected token is tried again": {
			in: agentState(agentRecovery(long, noDocument, recoverySaid(Rejected, long))), want: request,
		},
		"recovery Secret has only the key, running: a person is awaited": {
			in: agentState(agentRunning, agentRecovery(long, noDocument, noTicket)), want: Outcome{Stage: AwaitBootstrap}, err: ErrNoIdentity,
		},
		"recovery Secret has only the key, at start: the agent ends as before": {
			in: agentState(agentRecovery(long, noDocument, noTicket)), want: Outcome{Stage: GiveUp}, err: ErrNoIdentity,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { expectStep(t, test.in, test.want, test.err) })
	}
}

// Agents whose credentials are rejected in the same second make at most 20 recovery requests a second.
func TestRecoveryTurns_SpreadRequestsOfManyAgents(t *testing.T) {
	for name, test := range map[string]struct {
		agents   int
		spread   time.Duration // as the hub has published it
		isStored bool
		seconds  int // from the first request to the last
	}{
		"1,000 agents, hub publishes nothing":           {1000, 0, true, 60},
		"10,000 agents, a minute for each 1,000":        {10_000, 10 * time.Minute, true, 600},
		"hub publishes less than a minute":              {1000, time.Second, true, 60},
		"hub publishes a day: ten minutes":              {1000, 24 * time.Hour, true, 600},
		"each has lost its Secret: it does not wait on": {1000, 10 * time.Minute, false, 60},
	} {
		t.Run(name, func(t *testing.T) {
			perSecond := map[int]int{}
			for i := range test.agents {
				r := Recovery{Since: agentNoon(), Chance: i * chances / test.agents, Spread: test.spread}
				perSecond[int(r.turn(agentNoon(), test.isStored).Seconds())]++
			}
			for second, requests := range perSecond {
				if requests > 20 || second < 10 || second >= 10+test.seconds {
					t.Errorf("%d requests in second %d", requests, second)
				}
			}
			if len(perSecond) != test.seconds {
				t.Errorf("requests in %d seconds, want %d", len(perSecond), test.seconds)
			}
		})
	}
}
