package registering

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fleet-hub/fleet/internal/protocol"
)

const agentHub = "https://hub.example:6443"

// agentNoon is the time of every state below.
func agentNoon() time.Time { return time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC) }

func agentState(modifiers ...func(*Input)) Input {
	state := Input{Now: agentNoon()}
	for _, modify := range modifiers {
		modify(&state)
	}
	return state
}

// agentStored adds a stored identity, and the answer that its hub has been giving for this long.
func agentStored(answer Answer, ago time.Duration) func(*Input) {
	return func(s *Input) {
		s.Stored = &StoredIdentity{Server: agentHub, CA: []byte("ca-1"), LastAnswer: LastAnswer{Answer: answer, Since: s.Now.Add(-ago)}}
	}
}

func agentStoredProblem(s *Input) { s.StoredProblem = protocol.ErrIncomplete }

func agentBootstrap(server string) func(*Input) {
	return func(s *Input) {
		s.Bootstrap = &protocol.Bootstrap{APIServerURL: server, APIServerCA: []byte("ca-1"), ClusterNamespace: "fleet-default", Token: "t0ps3cret", TokenName: "t1", SystemRegistrationNamespace: "r"}
	}
}

// agentCA gives the bootstrap secret another CA.
func agentCA(ca string) func(*Input) {
	return func(s *Input) { s.Bootstrap.APIServerCA = []byte(ca) }
}

// agentStoredCA gives the stored identity another CA.
func agentStoredCA(ca string) func(*Input) {
	return func(s *Input) { s.Stored.CA = []byte(ca) }
}

func agentSystemStore(s *Input) { s.SystemStore = true }

// agentMoved adds the answer that the stored identity has been getting, for this long, at the bootstrap secret's
// address.
func agentMoved(answer Answer, ago time.Duration) func(*Input) {
	return func(s *Input) { s.AnswerAtNewAddress = LastAnswer{Answer: answer, Since: s.Now.Add(-ago)} }
}

func agentBootstrapProblem(s *Input) {
	s.BootstrapProblem = fmt.Errorf("bootstrap secret: %w", protocol.ErrIncomplete)
}

func agentConfigProblem(s *Input) { s.ConfigProblem = errors.New("agentTLSMode: unknown") }

func agentServing(s *Input) { s.Serving, s.Running = true, true }

func agentRunning(s *Input) { s.Running = true }

func agentTokenSaid(answer Answer, ago time.Duration) func(*Input) {
	return func(s *Input) { s.TokenAnswer = LastAnswer{Answer: answer, Since: s.Now.Add(-ago)} }
}

func agentRequested(ago time.Duration) func(*Input) {
	return func(s *Input) { s.Request = &PendingRequest{Name: "request-1", MadeAt: s.Now.Add(-ago)} }
}

func agentGranted(proof Answer, ago time.Duration) func(*Input) {
	return func(s *Input) {
		s.Credential = &protocol.Credential{Token: "g0lden", DeploymentNamespace: "cluster-a", ClusterNamespace: "fleet-default", ClusterName: "a"}
		s.CredentialAnswer = LastAnswer{Answer: proof, Since: s.Now.Add(-ago)}
	}
}

func TestDecide(t *testing.T) {
	const long = time.Hour
	elsewhere := agentBootstrap("https://elsewhere.example:6443")
	here := agentBootstrap(agentHub)
	tests := map[string]struct {
		in   Input
		want Outcome
		err  error
	}{
		// The stored identity.
		"stored identity: proven before it is used": {
			in:   agentState(agentStored("", 0)),
			want: Outcome{Stage: Await, Awaited: AnswerToStored, ProbeStored: true},
		},
		"stored identity works: used": {
			in:   agentState(agentStored(Accepted, 0)),
			want: Outcome{Stage: Use},
		},
		"identity works, bootstrap secret exists: bootstrap secret is dropped unused": {
			in:   agentState(agentStored(Accepted, 0), here),
			want: Outcome{Stage: Use, DropBootstrap: true},
		},
		"identity works, bootstrap secret is invalid: bootstrap secret is dropped": {
			in:   agentState(agentStored(Accepted, 0), agentBootstrapProblem),
			want: Outcome{Stage: Use, DropBootstrap: true},
		},
		"identity works, configuration is invalid: used": {
			in:   agentState(agentStored(Accepted, 0), agentConfigProblem),
			want: Outcome{Stage: Use},
		},
		"hub down at start: awaited, identity is kept": {
			in:   agentState(agentStored(Unanswered, long)),
			want: Outcome{Stage: Await, Awaited: AnswerToStored, ProbeStored: true},
		},
		"hub down at start, bootstrap secret for the same hub: awaited": {
			in:   agentState(agentStored(Unanswered, long), here),
			want: Outcome{Stage: Await, Awaited: AnswerToStored, ProbeStored: true},
		},
		"hub down at start, bootstrap secret spells its address differently: awaited": {
			in:   agentState(agentStored(Unanswered, long), agentBootstrap("https://HUB.example:6443/")),
			want: Outcome{Stage: Await, Awaited: AnswerToStored, ProbeStored: true},
		},
		"hub silent, other hub rejects the identity: registered there": {
			in:   agentState(agentStored(Unanswered, 0), elsewhere, agentMoved(Rejected, 0)),
			want: Outcome{Stage: Request},
		},
		"hub silent, other hub rejects the token: silent hub is awaited": {
			in:   agentState(agentStored(Unanswered, long), elsewhere, agentMoved(Rejected, long), agentTokenSaid(Rejected, long)),
			want: Outcome{Stage: Await, Awaited: AnswerToStored, ProbeStored: true},
		},
		"bootstrap secret for another hub, identity not proven yet: own hub is tried first": {
			in:   agentState(agentStored("", 0), elsewhere),
			want: Outcome{Stage: Await, Awaited: AnswerToStored, ProbeStored: true},
		},
		"hub goes down while serving: identity stays in use": {
			in:   agentState(agentStored(Unanswered, long), agentServing),
			want: Outcome{Stage: Use, ProbeStored: true},
		},
		"identity in doubt while serving: stays in use until the hub answers": {
			in:   agentState(agentStored("", 0), agentServing, here),
			want: Outcome{Stage: Use, ProbeStored: true},
		},

		// Rejected identities.
		"first 401 at start: does not count yet": {
			in:   agentState(agentStored(Rejected, 0)),
			want: Outcome{Stage: Await, Awaited: AnswerToStored, ProbeStored: true},
		},
		"lasting 401 at start: agent ends": {
			in:   agentState(agentStored(Rejected, RejectionPatience)),
			want: Outcome{Stage: GiveUp}, err: ErrIdentityRejected,
		},
		"lasting untrusted CA at start: agent ends": {
			in:   agentState(agentStored(Untrusted, RejectionPatience)),
			want: Outcome{Stage: GiveUp}, err: ErrUntrustedCA,
		},
		"first 401 at start, bootstrap secret exists: registers": {
			in:   agentState(agentStored(Rejected, 0), here),
			want: Outcome{Stage: Request},
		},
		"untrusted CA at start, bootstrap secret exists: registers": {
			in:   agentState(agentStored(Untrusted, 0), here),
			want: Outcome{Stage: Request},
		},
		"first 401 at start, bootstrap secret unusable: does not count yet": {
			in:   agentState(agentStored(Rejected, 0), here, agentConfigProblem),
			want: Outcome{Stage: Await, Awaited: AnswerToStored, ProbeStored: true},
		},
		"first 401 while serving: identity stays in use": {
			in:   agentState(agentStored(Rejected, time.Second), agentServing),
			want: Outcome{Stage: Use, ProbeStored: true},
		},
		"lasting 401 while serving: waits for a bootstrap secret, and keeps asking": {
			in:   agentState(agentStored(Rejected, RejectionPatience), agentServing),
			want: Outcome{Stage: AwaitBootstrap, ProbeStored: true}, err: ErrIdentityRejected,
		},
		"hub accepts a rejected identity again: used": {
			in:   agentState(agentStored(Accepted, 0), agentRunning),
			want: Outcome{Stage: Use},
		},
		"first 401 while serving, bootstrap secret exists: identity stays in use": {
			in:   agentState(agentStored(Rejected, RejectionPatience-1), agentServing, here),
			want: Outcome{Stage: Use, ProbeStored: true},
		},
		"lasting 401 while serving, bootstrap secret exists: registers": {
			in:   agentState(agentStored(Rejected, RejectionPatience), agentServing, here),
			want: Outcome{Stage: Request},
		},
		"rejected agent gets a bootstrap secret: registers at once": {
			in:   agentState(agentStored(Rejected, 0), agentRunning, here),
			want: Outcome{Stage: Request},
		},

		// Missing Secrets.
		"first start: registers": {
			in:   agentState(here),
			want: Outcome{Stage: Request},
		},
		"identity is invalid, bootstrap secret exists: registers": {
			in:   agentState(agentStoredProblem, here),
			want: Outcome{Stage: Request},
		},
		"start without identity and bootstrap secret: agent ends": {
			in:   agentState(),
			want: Outcome{Stage: GiveUp}, err: ErrNoIdentity,
		},
		"start with an invalid identity: agent ends": {
			in:   agentState(agentStoredProblem),
			want: Outcome{Stage: GiveUp}, err: ErrNoIdentity,
		},
		"start with an invalid bootstrap secret: agent ends": {
			in:   agentState(agentBootstrapProblem),
			want: Outcome{Stage: GiveUp}, err: ErrBootstrapUnusable,
		},
		"start with an invalid configuration: agent ends": {
			in:   agentState(here, agentConfigProblem),
			want: Outcome{Stage: GiveUp}, err: ErrBootstrapUnusable,
		},
		"running agent loses both Secrets: waits": {
			in:   agentState(agentRunning),
			want: Outcome{Stage: AwaitBootstrap}, err: ErrNoIdentity,
		},
		"running agent with an invalid bootstrap secret: waits": {
			in:   agentState(agentRunning, agentBootstrapProblem),
			want: Outcome{Stage: AwaitBootstrap}, err: ErrBootstrapUnusable,
		},
		"running agent loses its identity, bootstrap secret exists: registers": {
			in:   agentState(agentServing, here),
			want: Outcome{Stage: Request},
		},

		// Registration.
		"first 401 for the token: does not count yet": {
			in:   agentState(here, agentTokenSaid(Rejected, time.Second)),
			want: Outcome{Stage: Request},
		},
		"lasting 401 for the token: agent ends": {
			in:   agentState(here, agentTokenSaid(Rejected, RejectionPatience)),
			want: Outcome{Stage: GiveUp}, err: ErrTokenRejected,
		},
		"lasting 401 for the token, request pending: agent ends": {
			in:   agentState(here, agentRequested(time.Minute), agentTokenSaid(Rejected, RejectionPatience)),
			want: Outcome{Stage: GiveUp}, err: ErrTokenRejected,
		},
		"lasting 401 for the token, agent was running: agent ends": {
			in:   agentState(here, agentRunning, agentTokenSaid(Rejected, RejectionPatience)),
			want: Outcome{Stage: GiveUp}, err: ErrTokenRejected,
		},
		"hub stays untrusted: agent ends": {
			in:   agentState(here, agentTokenSaid(Untrusted, RejectionPatience)),
			want: Outcome{Stage: GiveUp}, err: ErrUntrustedCA,
		},
		"hub down: requested again": {
			in:   agentState(here, agentTokenSaid(Unanswered, long)),
			want: Outcome{Stage: Request},
		},
		"request made: credential is awaited": {
			in:   agentState(here, agentTokenSaid(Accepted, long), agentRequested(CredentialPatience-1)),
			want: Outcome{Stage: Await, Awaited: GrantedCredential},
		},
		"request too old: another one is made": {
			in:   agentState(here, agentTokenSaid(Accepted, long), agentRequested(CredentialPatience)),
			want: Outcome{Stage: Request},
		},
		"hub goes down, request pending: credential is awaited": {
			in:   agentState(here, agentTokenSaid(Unanswered, time.Minute), agentRequested(time.Minute)),
			want: Outcome{Stage: Await, Awaited: GrantedCredential},
		},
		"credential granted: proven before it is used": {
			in:   agentState(here, agentRequested(0), agentGranted("", 0)),
			want: Outcome{Stage: Await, Awaited: AnswerToCredential},
		},
		"credential rejected briefly: awaited, because its RBAC may not be effective yet": {
			in:   agentState(here, agentRequested(0), agentGranted(Rejected, credentialPatience-1)),
			want: Outcome{Stage: Await, Awaited: AnswerToCredential},
		},
		"credential stays rejected: another request is made": {
			in:   agentState(here, agentRequested(0), agentGranted(Rejected, credentialPatience)),
			want: Outcome{Stage: Request},
		},
		"hub goes down before the proof: awaited, without another request": {
			in:   agentState(here, agentRequested(time.Minute), agentGranted(Unanswered, time.Minute)),
			want: Outcome{Stage: Await, Awaited: AnswerToCredential},
		},
		"credential works: stored, and bootstrap secret is dropped": {
			in:   agentState(here, agentRequested(0), agentGranted(Accepted, 0)),
			want: Outcome{Stage: Use, Store: true, DropBootstrap: true},
		},
		"credential works, identity was rejected: identity is replaced": {
			in:   agentState(agentStored(Rejected, long), here, agentRequested(0), agentGranted(Accepted, 0)),
			want: Outcome{Stage: Use, Store: true, DropBootstrap: true},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { expectStep(t, test.in, test.want, test.err) })
	}
}

// expectStep compares the next step and the kind of its error.
func expectStep(t *testing.T, in Input, want Outcome, kind error) {
	t.Helper()
	got := Decide(in)
	if !errors.Is(got.Err, kind) || (got.Err == nil) != (kind == nil) {
		t.Errorf("error %v, want %v", got.Err, kind)
	}
	got.Err = nil
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("step (-want +got):\n%s", diff)
	}
}

// The errors with which an agent ends, or which it reports while it waits: what is wrong, and what to do.
func TestDecide_ErrorsNameCauseAndRemedy(t *testing.T) {
	const provide = "; run on the hub: fleet repair CLUSTER -n WORKSPACE"
	const create = provide + ", or, if the cluster has no Cluster yet: fleet token create CLUSTER --cluster CLUSTER -n WORKSPACE"
	here := agentBootstrap(agentHub)
	tests := map[string]struct {
		in   Input
		want string
	}{
		"nothing there": {
			in: agentState(),
			want: "the agent has neither a credential nor a bootstrap secret: there is no Secret fleet-agent and no Secret fleet-agent-bootstrap" +
				create,
		},
		"an unreadable credential": {
			in: agentState(agentStoredProblem),
			want: "the agent has neither a credential nor a bootstrap secret: Secret fleet-agent is unreadable: incomplete, " +
				"and there is no Secret fleet-agent-bootstrap" + create,
		},
		"an unreadable bootstrap secret": {
			in:   agentState(agentBootstrapProblem),
			want: "the bootstrap secret cannot be used: bootstrap secret: incomplete" + create,
		},
		"an unreadable configuration": {
			in:   agentState(here, agentConfigProblem),
			want: "the bootstrap secret cannot be used: agentTLSMode: unknown; correct ConfigMap fleet-agent",
		},
		"a rejected credential": {
			in:   agentState(agentStored(Rejected, time.Hour)),
			want: "the hub rejects the agent's credential, and there is no bootstrap secret" + provide,
		},
		"a credential for a hub with another CA": {
			in: agentState(agentStored(Untrusted, time.Hour)),
			want: "the hub's certificate is not trusted: the certificate of https://hub.example:6443 is not signed by the CA " +
				"in Secret fleet-agent, and there is no bootstrap secret" + provide,
		},
		"a credential without a CA": {
			in: agentState(agentStored(Untrusted, time.Hour), agentStoredCA("")),
			want: "the hub's certificate is not trusted: Secret fleet-agent has no CA for https://hub.example:6443, the system's roots do not suffice " +
				"or agentTLSMode forbids them, and there is no bootstrap secret" + provide,
		},
		"a rejected token": {
			in: agentState(here, agentTokenSaid(Rejected, time.Hour)),
			want: `the hub rejected the registration token (ClusterRegistrationToken "t1" in namespace "fleet-default"): ` +
				"it has expired or was deleted" + create,
		},
		"an untrusted hub": {
			in: agentState(here, agentTokenSaid(Untrusted, time.Hour)),
			want: "the hub's certificate is not trusted: the certificate of https://hub.example:6443 is signed by unknown authority; " +
				"check apiServerURL, apiServerCA and agentTLSMode of the hub, then run on the hub: fleet repair CLUSTER -n WORKSPACE",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			step := Decide(test.in)
			if step.Err == nil {
				t.Fatalf("step %+v has no sentence", step)
			}
			if diff := cmp.Diff(test.want, step.Err.Error()); diff != "" {
				t.Errorf("sentence (-want +got):\n%s", diff)
			}
		})
	}
}

// Decide must hold these invariants for every combination of inputs.
func TestDecide_HoldsInvariantsForEveryState(t *testing.T) {
	holds := map[string]func(in Input, step Outcome) bool{
		"only GiveUp and AwaitBootstrap have an error": func(_ Input, step Outcome) bool {
			return (step.Err != nil) == (step.Stage == GiveUp || step.Stage == AwaitBootstrap)
		},
		"no error shows the token": func(_ Input, step Outcome) bool {
			return step.Err == nil || !strings.Contains(step.Err.Error(), "t0ps3cret")
		},
		"only Await sets Awaited": func(_ Input, step Outcome) bool {
			return (step.Awaited != "") == (step.Stage == Await)
		},
		"a bootstrap secret is dropped only beside an identity that works": func(_ Input, step Outcome) bool {
			return !step.DropBootstrap || step.Stage == Use
		},
		"only a proven credential is stored": func(in Input, step Outcome) bool {
			from := in.Attempt
			if step.Recovery {
				from = in.Recovery.Attempt
			}
			return !step.Store || from.Credential != nil && from.CredentialAnswer.Answer == Accepted
		},
		"only a stored identity is tried": func(in Input, step Outcome) bool {
			return !step.ProbeStored && !step.ProbeNewAddress || in.Stored != nil
		},
		"it is tried elsewhere only if a bootstrap secret names another hub": func(in Input, step Outcome) bool {
			return !step.ProbeNewAddress && !step.Rewrite || in.Bootstrap != nil && in.ConfigProblem == nil
		},
		"only an address at which the identity works is stored": func(in Input, step Outcome) bool {
			return !step.Rewrite || in.AnswerAtNewAddress.Answer == Accepted && !step.Store
		},
		"a bootstrap secret with another address is dropped only after it was tried": func(in Input, step Outcome) bool {
			return !elsewhere(in) || !step.DropBootstrap || step.Store || in.AnswerAtNewAddress.Answer == Accepted || in.AnswerAtNewAddress.against(in.Now, RejectionPatience)
		},
		"if the other address is not tried, the answer from there has no effect": func(in Input, step Outcome) bool {
			return elsewhere(in) || !step.ProbeNewAddress && !step.Rewrite
		},
		"a hub that is down never ends the process": func(in Input, step Outcome) bool {
			return step.Stage != GiveUp || in.Stored == nil || in.Stored.LastAnswer.Answer != Unanswered
		},
		"an identity in use stays in use until the hub has rejected it for a while": func(in Input, step Outcome) bool {
			return !in.Serving || in.Stored == nil || !in.Stored.LastAnswer.against(in.Now, 0) ||
				in.Stored.LastAnswer.against(in.Now, RejectionPatience) || step.Stage == Use
		},
		"a running agent does not end while a bootstrap secret may still be created": func(in Input, step Outcome) bool {
			return step.Stage != GiveUp || !in.Running || in.Bootstrap != nil
		},
		"a request is made with a bootstrap secret and a configuration, or with a recovery token and a ticket": func(in Input, step Outcome) bool {
			if step.Recovery {
				return in.Recovery.CanRequest
			}
			return step.Stage != Request || in.Bootstrap != nil && in.ConfigProblem == nil
		},
		"an agent that can recover neither ends nor waits for a person": func(in Input, step Outcome) bool {
			return in.Recovery == nil || in.Bootstrap != nil || step.Stage != GiveUp && step.Stage != AwaitBootstrap
		},
		"a recovery never follows a bootstrap secret for another hub": func(in Input, step Outcome) bool {
			return !step.Recovery || in.Bootstrap == nil || sameServer(in.Bootstrap.APIServerURL, in.Recovery.Server)
		},
		"a recovery only replaces an identity that the hub has rejected for a while": func(in Input, step Outcome) bool {
			return !step.Recovery || in.Stored == nil || in.Stored.LastAnswer.against(in.Now, 0)
		},
		"an identity that works is used": func(in Input, step Outcome) bool {
			return in.Stored == nil || in.Stored.LastAnswer.Answer != Accepted || step.Stage == Use && !step.Store
		},
	}
	broken := map[string]bool{}
	for _, state := range everyAgentState() {
		step := Decide(state)
		for name, hold := range holds {
			if !broken[name] && !hold(state, step) {
				broken[name] = true
				t.Errorf("violated: %s: %+v\nfor %+v", name, step, state)
			}
		}
	}
}

// everyAgentState returns all combinations of the values that matter.
func everyAgentState() []Input {
	states := []Input{agentState()}
	each := func(options ...func(*Input)) {
		var more []Input
		for _, state := range states {
			for _, option := range options {
				next := state
				option(&next)
				more = append(more, next)
			}
		}
		states = more
	}
	nothing := func(*Input) {}
	var storedAs, tokenAs, proofAs, movedAs []func(*Input)
	for _, answer := range []Answer{"", Accepted, Rejected, Untrusted, Unanswered} {
		for _, ago := range []time.Duration{0, time.Hour} {
			if ago > 0 && answer != Rejected && answer != Untrusted {
				continue // the time does not matter
			}
			if answer != Untrusted && (ago > 0) == (answer == Rejected) {
				movedAs = append(movedAs, agentMoved(answer, ago))
			}
			storedAs = append(storedAs, agentStored(answer, ago))
			tokenAs = append(tokenAs, agentTokenSaid(answer, ago))
			proofAs = append(proofAs, agentGranted(answer, ago))
		}
	}
	each(append(storedAs, nothing, agentStoredProblem)...)
	each(nothing, agentBootstrap(agentHub), agentBootstrap("https://elsewhere.example"), agentBootstrapProblem)
	each(movedAs...)
	each(nothing, agentConfigProblem)
	each(nothing, agentRecovery(0), agentRecovery(time.Hour), agentRecovery(time.Hour, recoverySaid(Rejected, time.Hour)),
		agentRecovery(time.Hour, recoveryRequested(0), recoveryGranted(Accepted, 0)))
	each(nothing, agentServing, agentRunning)
	each(tokenAs...)
	each(nothing, agentRequested(0), agentRequested(time.Hour))
	each(append(proofAs, nothing)...)
	return states
}

func TestPollPause(t *testing.T) {
	tests := map[string]struct{ age, want time.Duration }{
		"new request: shortest pause":     {age: 0, want: 60 * time.Millisecond},
		"older request: pause is its age": {age: 300 * time.Millisecond, want: 300 * time.Millisecond},
		"request of seconds: two seconds": {age: 4 * time.Second, want: 2 * time.Second},
		"just before the pause grows":     {age: 20 * time.Second, want: 2 * time.Second},
		"hub is late: tenth of the age":   {age: 50 * time.Second, want: 5 * time.Second},
		"hub waits: longest pause":        {age: 29 * time.Minute, want: 10 * time.Second},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := PollPause(test.age); got != test.want {
				t.Errorf("pause %s, want %s", got, test.want)
			}
		})
	}
}
