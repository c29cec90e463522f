package registering

import (
	"testing"
	"time"

	"github.com/fleet-hub/fleet/internal/protocol"
)

// agentRecovery adds what an agent needs to return. It lost its identity this long ago.
func agentRecovery(ago time.Duration, modifiers ...func(*Recovery, time.Time)) func(*Input) {
	return func(s *Input) {
		s.Recovery = &Recovery{Server: agentHub, CanRequest: true, CanVerify: true, Since: s.Now.Add(-ago), Chance: 128}
		for _, modify := range modifiers {
			modify(s.Recovery, s.Now)
		}
	}
}

func recoverySaid(answer Answer, ago time.Duration) func(*Recovery, time.Time) {
	return func(r *Recovery, now time.Time) { r.Token = Verdict{Answer: answer, Since: now.Add(-ago)} }
}

func recoveryRequested(ago time.Duration) func(*Recovery, time.Time) {
	return func(r *Recovery, now time.Time) {
		r.Request = &PendingRequest{Name: "request-2", MadeAt: now.Add(-ago)}
	}
}

func recoveryGranted(proof Answer, ago time.Duration) func(*Recovery, time.Time) {
	return func(r *Recovery, now time.Time) {
		r.Credential = &protocol.Credential{Token: "g0lden", DeploymentNamespace: "cluster-a", ClusterNamespace: "fleet-default", ClusterName: "a"}
		r.Proof = Verdict{Answer: proof, Since: now.Add(-ago)}
	}
}

func noDocument(r *Recovery, _ time.Time) { r.CanVerify = false }

func noTicket(r *Recovery, _ time.Time) { r.CanRequest = false }

func TestDecide_Recovery(t *testing.T) {
	const long = time.Hour
	const turn = RejectionPatience + RecoverySpread/2
	here, elsewhere := agentBootstrap(agentHub), agentBootstrap("https://elsewhere.example")
	request := Outcome{Stage: Request, Recovery: true}
	document := Outcome{Stage: Await, Awaited: HubDocument}
	askingToo := func(step Outcome) Outcome { step.AskAgain = true; return step }
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
			want: Outcome{Stage: Await, Awaited: AnswerToStored, AskAgain: true},
		},
		"first rejection at start: asked again": {
			in:   agentState(agentStored(Rejected, RejectionPatience-1), agentRecovery(RejectionPatience-1)),
			want: Outcome{Stage: Await, Awaited: AnswerToStored, AskAgain: true},
		},
		"first rejection while serving: identity stays in use": {
			in:   agentState(agentStored(Rejected, RejectionPatience-1), agentServing, agentRecovery(RejectionPatience-1)),
			want: Outcome{Stage: Use, AskAgain: true},
		},
		"lasting rejection: the agent waits for its turn and asks again": {
			in:   agentState(agentStored(Rejected, RejectionPatience), agentRecovery(RejectionPatience)),
			want: Outcome{Stage: Await, Awaited: RecoveryTurn, AskAgain: true, Pause: RecoverySpread / 2},
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
			in: agentState(agentStored(Rejected, long), agentRecovery(long)), want: request,
		},
		"CA is no longer trusted: recovery request": {
			in: agentState(agentStored(Untrusted, long), agentRecovery(long)), want: request,
		},

		// A bootstrap secret comes first.
		"bootstrap secret exists: it is used": {
			in: agentState(here, agentRecovery(long)), want: Outcome{Stage: Request},
		},
		"bootstrap secret appears while the answer is awaited: it is used": {
			in: agentState(here, agentRecovery(long, recoveryRequested(0))), want: Outcome{Stage: Request},
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
			in: agentState(agentRecovery(long, recoveryRequested(0), recoveryGranted(Rejected, ProofPatience))), want: request,
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

// 1,000 agents that lose their credentials in the same second make at most 60 recovery requests a second.
func TestRecoveryTurns_SpreadRequestsOfAThousandAgents(t *testing.T) {
	perSecond := map[int]int{}
	for i := range 1000 {
		r := Recovery{Since: agentNoon(), Chance: i % chances}
		perSecond[int(r.turn(agentNoon()).Seconds())]++
	}
	for second, requests := range perSecond {
		if requests > 20 || second < 10 || second >= 70 {
			t.Errorf("%d requests in second %d", requests, second)
		}
	}
	if len(perSecond) != 60 {
		t.Errorf("requests in %d seconds, want 60", len(perSecond))
	}
}
