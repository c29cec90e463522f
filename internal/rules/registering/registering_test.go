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

// stored: Secret fleet-agent holds an identity, and its hub has been saying this for so long.
func agentStored(answer Answer, ago time.Duration) func(*Input) {
	return func(s *Input) {
		s.Stored = &StoredIdentity{Server: agentHub, CA: []byte("ca-1"), Verdict: Verdict{Answer: answer, Since: s.Now.Add(-ago)}}
	}
}

func agentStoredProblem(s *Input) { s.StoredProblem = protocol.ErrIncomplete }

func agentBootstrap(server string) func(*Input) {
	return func(s *Input) {
		s.Bootstrap = &protocol.Bootstrap{APIServerURL: server, APIServerCA: []byte("ca-1"), ClusterNamespace: "fleet-default", Token: "t0ps3cret", TokenName: "t1", SystemRegistrationNamespace: "r"}
	}
}

// agentCA: the bootstrap secret has another CA.
func agentCA(ca string) func(*Input) {
	return func(s *Input) { s.Bootstrap.APIServerCA = []byte(ca) }
}

// agentStoredCA: the stored identity has another CA.
func agentStoredCA(ca string) func(*Input) {
	return func(s *Input) { s.Stored.CA = []byte(ca) }
}

func agentSystemStore(s *Input) { s.SystemStore = true }

// agentMoved: where the bootstrap secret says the hub is, the stored identity has been told this for so long.
func agentMoved(answer Answer, ago time.Duration) func(*Input) {
	return func(s *Input) { s.Moved = Verdict{Answer: answer, Since: s.Now.Add(-ago)} }
}

func agentBootstrapProblem(s *Input) {
	s.BootstrapProblem = fmt.Errorf("bootstrap secret: %w", protocol.ErrIncomplete)
}

func agentConfigProblem(s *Input) { s.ConfigProblem = errors.New("agentTLSMode: unknown") }

func agentServing(s *Input) { s.Serving, s.Running = true, true }

func agentRunning(s *Input) { s.Running = true }

func agentTokenSaid(answer Answer, ago time.Duration) func(*Input) {
	return func(s *Input) { s.Token = Verdict{Answer: answer, Since: s.Now.Add(-ago)} }
}

func agentRequested(ago time.Duration) func(*Input) {
	return func(s *Input) { s.Request = &PendingRequest{Name: "request-1", MadeAt: s.Now.Add(-ago)} }
}

func agentGranted(proof Answer, ago time.Duration) func(*Input) {
	return func(s *Input) {
		s.Credential = &protocol.Credential{Token: "g0lden", DeploymentNamespace: "cluster-a", ClusterNamespace: "fleet-default", ClusterName: "a"}
		s.Proof = Verdict{Answer: proof, Since: s.Now.Add(-ago)}
	}
}

func TestNext(t *testing.T) {
	const long = time.Hour
	elsewhere := agentBootstrap("https://elsewhere.example:6443")
	here := agentBootstrap(agentHub)
	tests := map[string]struct {
		in   Input
		want Outcome
		err  error
	}{
		// What a stored identity is worth.
		"a stored identity is asked about before it is used": {
			in:   agentState(agentStored("", 0)),
			want: Outcome{Stage: Await, Awaited: AnswerToStored, AskAgain: true},
		},
		"a stored identity that works is used": {
			in:   agentState(agentStored(Accepted, 0)),
			want: Outcome{Stage: Use},
		},
		"a bootstrap secret beside an identity that works is dropped unused": {
			in:   agentState(agentStored(Accepted, 0), here),
			want: Outcome{Stage: Use, DropBootstrap: true},
		},
		"and one that cannot be read": {
			in:   agentState(agentStored(Accepted, 0), agentBootstrapProblem),
			want: Outcome{Stage: Use, DropBootstrap: true},
		},
		"a configuration that cannot be read does not keep an identity from its work": {
			in:   agentState(agentStored(Accepted, 0), agentConfigProblem),
			want: Outcome{Stage: Use},
		},
		"a hub that is down at the start costs neither identity nor process": {
			in:   agentState(agentStored(Unanswered, long)),
			want: Outcome{Stage: Await, Awaited: AnswerToStored, AskAgain: true},
		},
		"nor does it with a bootstrap secret for the same hub": {
			in:   agentState(agentStored(Unanswered, long), here),
			want: Outcome{Stage: Await, Awaited: AnswerToStored, AskAgain: true},
		},
		"nor with one that spells its address in another way": {
			in:   agentState(agentStored(Unanswered, long), agentBootstrap("https://HUB.example:6443/")),
			want: Outcome{Stage: Await, Awaited: AnswerToStored, AskAgain: true},
		},
		"a silent hub is left for the one a bootstrap secret names, where the identity is not known": {
			in:   agentState(agentStored(Unanswered, 0), elsewhere, agentMoved(Rejected, 0)),
			want: Outcome{Stage: Request},
		},
		"but not when that one rejects the token": {
			in:   agentState(agentStored(Unanswered, long), elsewhere, agentMoved(Rejected, long), agentTokenSaid(Rejected, long)),
			want: Outcome{Stage: Await, Awaited: AnswerToStored, AskAgain: true},
		},
		"nor when it was not asked about yet": {
			in:   agentState(agentStored("", 0), elsewhere),
			want: Outcome{Stage: Await, Awaited: AnswerToStored, AskAgain: true},
		},
		"a hub that goes down while its identity is in use stops nothing": {
			in:   agentState(agentStored(Unanswered, long), agentServing),
			want: Outcome{Stage: Use, AskAgain: true},
		},
		"an identity in doubt stays in use until the hub has spoken": {
			in:   agentState(agentStored("", 0), agentServing, here),
			want: Outcome{Stage: Use, AskAgain: true},
		},

		// Rejected.
		"a first 401 at the start does not count yet": {
			in:   agentState(agentStored(Rejected, 0)),
			want: Outcome{Stage: Await, Awaited: AnswerToStored, AskAgain: true},
		},
		"a 401 that lasts ends a starting agent": {
			in:   agentState(agentStored(Rejected, RejectionPatience)),
			want: Outcome{Stage: GiveUp}, err: ErrIdentityRejected,
		},
		"so does an untrusted CA": {
			in:   agentState(agentStored(Untrusted, RejectionPatience)),
			want: Outcome{Stage: GiveUp}, err: ErrUntrustedCA,
		},
		"a first 401 counts where a bootstrap secret is at hand": {
			in:   agentState(agentStored(Rejected, 0), here),
			want: Outcome{Stage: Request},
		},
		"so does an untrusted CA with a bootstrap secret at hand": {
			in:   agentState(agentStored(Untrusted, 0), here),
			want: Outcome{Stage: Request},
		},
		"a bootstrap secret that cannot be used does not shorten the patience": {
			in:   agentState(agentStored(Rejected, 0), here, agentConfigProblem),
			want: Outcome{Stage: Await, Awaited: AnswerToStored, AskAgain: true},
		},
		"a first 401 does not stop a running agent": {
			in:   agentState(agentStored(Rejected, time.Second), agentServing),
			want: Outcome{Stage: Use, AskAgain: true},
		},
		"a 401 that lasts makes a running agent wait for a bootstrap secret, and ask on": {
			in:   agentState(agentStored(Rejected, RejectionPatience), agentServing),
			want: Outcome{Stage: AwaitBootstrap, AskAgain: true}, err: ErrIdentityRejected,
		},
		"it is used again when the hub takes it back": {
			in:   agentState(agentStored(Accepted, 0), agentRunning),
			want: Outcome{Stage: Use},
		},
		"nor does it with a bootstrap secret at hand": {
			in:   agentState(agentStored(Rejected, RejectionPatience-1), agentServing, here),
			want: Outcome{Stage: Use, AskAgain: true},
		},
		"a 401 that lasts makes it use that": {
			in:   agentState(agentStored(Rejected, RejectionPatience), agentServing, here),
			want: Outcome{Stage: Request},
		},
		"an agent that was rejected uses a new bootstrap secret at once": {
			in:   agentState(agentStored(Rejected, 0), agentRunning, here),
			want: Outcome{Stage: Request},
		},

		// Missing.
		"a first start registers": {
			in:   agentState(here),
			want: Outcome{Stage: Request},
		},
		"an identity that cannot be read is replaced": {
			in:   agentState(agentStoredProblem, here),
			want: Outcome{Stage: Request},
		},
		"a start with neither ends with what to do": {
			in:   agentState(),
			want: Outcome{Stage: GiveUp}, err: ErrNoIdentity,
		},
		"so does one with an identity that cannot be read": {
			in:   agentState(agentStoredProblem),
			want: Outcome{Stage: GiveUp}, err: ErrNoIdentity,
		},
		"and one with a bootstrap secret that cannot be read": {
			in:   agentState(agentBootstrapProblem),
			want: Outcome{Stage: GiveUp}, err: ErrBootstrapUnusable,
		},
		"and one with a configuration that cannot be read": {
			in:   agentState(here, agentConfigProblem),
			want: Outcome{Stage: GiveUp}, err: ErrBootstrapUnusable,
		},
		"a running agent that lost both waits": {
			in:   agentState(agentRunning),
			want: Outcome{Stage: AwaitBootstrap}, err: ErrNoIdentity,
		},
		"a running agent waits for a better bootstrap secret": {
			in:   agentState(agentRunning, agentBootstrapProblem),
			want: Outcome{Stage: AwaitBootstrap}, err: ErrBootstrapUnusable,
		},
		"a running agent whose identity was deleted registers with a new bootstrap secret": {
			in:   agentState(agentServing, here),
			want: Outcome{Stage: Request},
		},

		// Registering.
		"a first 401 to the token does not count yet": {
			in:   agentState(here, agentTokenSaid(Rejected, time.Second)),
			want: Outcome{Stage: Request},
		},
		"a token that stays rejected ends the agent": {
			in:   agentState(here, agentTokenSaid(Rejected, RejectionPatience)),
			want: Outcome{Stage: GiveUp}, err: ErrTokenRejected,
		},
		"also while its request is pending": {
			in:   agentState(here, agentRequested(time.Minute), agentTokenSaid(Rejected, RejectionPatience)),
			want: Outcome{Stage: GiveUp}, err: ErrTokenRejected,
		},
		"also in an agent that was running": {
			in:   agentState(here, agentRunning, agentTokenSaid(Rejected, RejectionPatience)),
			want: Outcome{Stage: GiveUp}, err: ErrTokenRejected,
		},
		"a hub that stays untrusted ends the agent": {
			in:   agentState(here, agentTokenSaid(Untrusted, RejectionPatience)),
			want: Outcome{Stage: GiveUp}, err: ErrUntrustedCA,
		},
		"a hub that is down is asked again": {
			in:   agentState(here, agentTokenSaid(Unanswered, long)),
			want: Outcome{Stage: Request},
		},
		"a request waits for its credential": {
			in:   agentState(here, agentTokenSaid(Accepted, long), agentRequested(CredentialPatience-1)),
			want: Outcome{Stage: Await, Awaited: GrantedCredential},
		},
		"but not for ever": {
			in:   agentState(here, agentTokenSaid(Accepted, long), agentRequested(CredentialPatience)),
			want: Outcome{Stage: Request},
		},
		"a hub that goes down meanwhile is waited for": {
			in:   agentState(here, agentTokenSaid(Unanswered, time.Minute), agentRequested(time.Minute)),
			want: Outcome{Stage: Await, Awaited: GrantedCredential},
		},
		"a credential is proven before it is used": {
			in:   agentState(here, agentRequested(0), agentGranted("", 0)),
			want: Outcome{Stage: Await, Awaited: AnswerToCredential},
		},
		"its rights may be on their way": {
			in:   agentState(here, agentRequested(0), agentGranted(Rejected, ProofPatience-1)),
			want: Outcome{Stage: Await, Awaited: AnswerToCredential},
		},
		"one that does not come to work is asked for anew": {
			in:   agentState(here, agentRequested(0), agentGranted(Rejected, ProofPatience)),
			want: Outcome{Stage: Request},
		},
		"a hub that goes down before the proof costs no request": {
			in:   agentState(here, agentRequested(time.Minute), agentGranted(Unanswered, time.Minute)),
			want: Outcome{Stage: Await, Awaited: AnswerToCredential},
		},
		"a credential that works is stored, and its bootstrap secret dropped": {
			in:   agentState(here, agentRequested(0), agentGranted(Accepted, 0)),
			want: Outcome{Stage: Use, Store: true, DropBootstrap: true},
		},
		"it replaces an identity the hub rejects": {
			in:   agentState(agentStored(Rejected, long), here, agentRequested(0), agentGranted(Accepted, 0)),
			want: Outcome{Stage: Use, Store: true, DropBootstrap: true},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { expectStep(t, test.in, test.want, test.err) })
	}
}

// expectStep compares what is next, and what kind of error comes with it.
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

// The sentences an agent ends with, or reports while it waits: what is wrong, and what to do.
func TestNextSentences(t *testing.T) {
	const provide = "; create a ClusterRegistrationToken on the hub and run helm upgrade --install fleet-agent with its values, " +
		"or, for a cluster the hub imports, raise spec.redeployAgentGeneration of its Cluster"
	here := agentBootstrap(agentHub)
	tests := map[string]struct {
		in   Input
		want string
	}{
		"nothing there": {
			in: agentState(),
			want: "the agent has neither a credential nor a bootstrap secret: there is no Secret fleet-agent and no Secret fleet-agent-bootstrap" +
				provide,
		},
		"an unreadable credential": {
			in: agentState(agentStoredProblem),
			want: "the agent has neither a credential nor a bootstrap secret: Secret fleet-agent is unreadable: incomplete, " +
				"and there is no Secret fleet-agent-bootstrap" + provide,
		},
		"an unreadable bootstrap secret": {
			in:   agentState(agentBootstrapProblem),
			want: "the bootstrap secret cannot be used: bootstrap secret: incomplete" + provide,
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
				"it has expired or was deleted" + provide,
		},
		"an untrusted hub": {
			in: agentState(here, agentTokenSaid(Untrusted, time.Hour)),
			want: "the hub's certificate is not trusted: the certificate of https://hub.example:6443 is signed by unknown authority; " +
				"check apiServerURL, apiServerCA and agentTLSMode, then run helm upgrade fleet-agent with the right values, " +
				"or, for a cluster the hub imports, raise spec.redeployAgentGeneration of its Cluster",
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

// Whatever is found, Next decides, keeps its secrets, and never acts on the wrong thing.
func TestNextHoldsForEveryState(t *testing.T) {
	holds := map[string]func(in Input, step Outcome) bool{
		"an error goes with giving up and with waiting for a human, and with nothing else": func(_ Input, step Outcome) bool {
			return (step.Err != nil) == (step.Stage == GiveUp || step.Stage == AwaitBootstrap)
		},
		"no sentence shows the token": func(_ Input, step Outcome) bool {
			return step.Err == nil || !strings.Contains(step.Err.Error(), "t0ps3cret")
		},
		"only Await awaits": func(_ Input, step Outcome) bool {
			return (step.Awaited != "") == (step.Stage == Await)
		},
		"a bootstrap secret is dropped only beside an identity that works": func(_ Input, step Outcome) bool {
			return !step.DropBootstrap || step.Stage == Use
		},
		"only a proven credential is stored": func(in Input, step Outcome) bool {
			return !step.Store || in.Credential != nil && in.Proof.Answer == Accepted
		},
		"only what is stored is asked about": func(in Input, step Outcome) bool {
			return !step.AskAgain && !step.AskElsewhere || in.Stored != nil
		},
		"it is asked about elsewhere only where a bootstrap secret says so": func(in Input, step Outcome) bool {
			return !step.AskElsewhere && !step.Rewrite || in.Bootstrap != nil && in.ConfigProblem == nil
		},
		"only an address at which the identity works is written down": func(in Input, step Outcome) bool {
			return !step.Rewrite || in.Moved.Answer == Accepted && !step.Store
		},
		"a bootstrap secret with news of the hub is dropped when they were heard, or are wrong": func(in Input, step Outcome) bool {
			return !elsewhere(in) || !step.DropBootstrap || step.Store || in.Moved.Answer == Accepted || in.Moved.against(in.Now, RejectionPatience)
		},
		"who is not to be asked where the bootstrap secret says is as if it said nothing": func(in Input, step Outcome) bool {
			return elsewhere(in) || !step.AskElsewhere && !step.Rewrite
		},
		"a hub that is down ends no process": func(in Input, step Outcome) bool {
			return step.Stage != GiveUp || in.Stored == nil || in.Stored.Verdict.Answer != Unanswered
		},
		"an identity in use stays in use until the hub has turned it away for a while": func(in Input, step Outcome) bool {
			return !in.Serving || in.Stored == nil || !in.Stored.Verdict.against(in.Now, 0) ||
				in.Stored.Verdict.against(in.Now, RejectionPatience) || step.Stage == Use
		},
		"a running agent stays where a bootstrap secret may come": func(in Input, step Outcome) bool {
			return step.Stage != GiveUp || !in.Running || in.Bootstrap != nil
		},
		"a request is made with a bootstrap secret and a configuration": func(in Input, step Outcome) bool {
			return step.Stage != Request || in.Bootstrap != nil && in.ConfigProblem == nil
		},
		"an identity that works is used": func(in Input, step Outcome) bool {
			return in.Stored == nil || in.Stored.Verdict.Answer != Accepted || step.Stage == Use && !step.Store
		},
	}
	broken := map[string]bool{}
	for _, state := range everyAgentState() {
		step := Decide(state)
		for name, hold := range holds {
			if !broken[name] && !hold(state, step) {
				broken[name] = true
				t.Errorf("it does not hold that %s: %+v\nof %+v", name, step, state)
			}
		}
	}
}

// everyAgentState is each combination of the values that matter.
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
				continue // it does not matter for how long
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
	each(nothing, agentServing, agentRunning)
	each(tokenAs...)
	each(nothing, agentRequested(0), agentRequested(time.Hour))
	each(append(proofAs, nothing)...)
	return states
}

func TestPollPause(t *testing.T) {
	tests := map[string]struct{ age, want time.Duration }{
		"a quick hub is asked again soon":     {age: 0, want: 60 * time.Millisecond},
		"a busy one less often":               {age: 300 * time.Millisecond, want: 300 * time.Millisecond},
		"one that needs somebody, still less": {age: 4 * time.Second, want: 2 * time.Second},
		"but never less often than that":      {age: 29 * time.Minute, want: 2 * time.Second},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := PollPause(test.age); got != test.want {
				t.Errorf("pause %s, want %s", got, test.want)
			}
		})
	}
}
