package registering

import (
	"errors"
	"fmt"
	"time"

	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
)

// The agent's patience.
const (
	// CredentialPatience is how long one request waits for its credential before another is made. Requests do not
	// pile up: the hub gives up those that wait in vain a few minutes later.
	CredentialPatience = 30 * time.Minute
	// RejectionPatience is how long a hub must keep rejecting an identity before it counts, where it is
	// in use or nothing is there to replace it: an API server that has just started answers 401 and 403
	// for a moment to identities that are good.
	RejectionPatience = 10 * time.Second
	// ProofPatience is the same for a credential just granted, whose rights may still be on their way
	// through the hub's caches. After it another request is made.
	ProofPatience = 15 * time.Second
)

// A credential that cannot be watched is asked for again when it has been waited for twice as long, but no sooner
// than SoonestPoll, which is also when it is asked for first, and no later than LatestPoll. It comes a little later than
// it could, at a hub that is quick as at one that is busy, which is asked the less the longer it takes.
const (
	SoonestPoll = 60 * time.Millisecond
	LatestPoll  = 2 * time.Second
)

// PollPause is the pause before the next question for a credential, when the request is as old as this.
func PollPause(age time.Duration) time.Duration { return min(max(age, SoonestPoll), LatestPoll) }

// What ends an agent: none of these heals by itself, so the process says so and leaves the rest to a
// human or to another replica. The wrapping sentence says what to do.
var (
	// ErrNoIdentity means that neither Secret fleet-agent nor Secret fleet-agent-bootstrap is there.
	ErrNoIdentity = errors.New("the agent has neither a credential nor a bootstrap secret")
	// ErrIdentityRejected means that the hub keeps rejecting the stored identity and no bootstrap
	// secret is there to get another.
	ErrIdentityRejected = errors.New("the hub rejects the agent's credential, and there is no bootstrap secret")
	// ErrBootstrapUnusable means that the bootstrap secret, or the configuration beside it, cannot be read.
	ErrBootstrapUnusable = errors.New("the bootstrap secret cannot be used")
	// ErrTokenRejected means that the hub does not know the import token of the bootstrap secret (any more).
	ErrTokenRejected = errors.New("the hub rejected the registration token")
	// ErrUntrustedCA means that the hub's certificate is not signed by what the bootstrap secret and the
	// TLS mode, or the stored identity, tell the agent to trust.
	ErrUntrustedCA = errors.New("the hub's certificate is not trusted")
)

// What to do about it, for the sentence an agent ends with.
const (
	remedyBootstrap = "create a ClusterRegistrationToken on the hub and run helm upgrade --install fleet-agent with its values, " +
		"or, for a cluster the hub imports, raise spec.redeployAgentGeneration of its Cluster"
	remedyCA = "check apiServerURL, apiServerCA and agentTLSMode, then run helm upgrade fleet-agent with the right values, " +
		"or, for a cluster the hub imports, raise spec.redeployAgentGeneration of its Cluster"
)

// Answer is what a hub said to an identity that asked to do an agent's work; empty if it was not asked yet.
type Answer string

const (
	// Accepted means that the hub let the identity do it.
	Accepted Answer = "Accepted"
	// Rejected means 401 or 403.
	Rejected Answer = "Rejected"
	// Untrusted means that the hub's certificate is not signed by the CA that belongs to the identity.
	Untrusted Answer = "Untrusted"
	// Unanswered is everything time can heal: no connection, a timeout, 5xx.
	Unanswered Answer = "Unanswered"
)

// Verdict is an Answer and the time since which the hub has been giving no other.
type Verdict struct {
	Answer Answer
	Since  time.Time
}

// against says whether the hub has kept turning the identity away for at least patience.
func (v Verdict) against(now time.Time, patience time.Duration) bool {
	return (v.Answer == Rejected || v.Answer == Untrusted) && now.Sub(v.Since) >= patience
}

// StoredIdentity is what Secret fleet-agent holds, as far as a decision needs it.
type StoredIdentity struct {
	// Server is the hub's address in the stored kubeconfig, CA what its certificate has to be signed by, PEM;
	// empty: the system's roots.
	Server string
	CA     []byte
	// Verdict is what that hub said to the identity.
	Verdict Verdict
}

// PendingRequest is a ClusterRegistration this process has made and not yet seen answered.
type PendingRequest struct {
	// Namespace and Name are the ClusterRegistration's.
	Namespace, Name string
	// ClientID and ClientRandom name its credential (names.CredentialSecret).
	ClientID, ClientRandom string
	// TokenName is the import token it was made with; empty if the bootstrap secret names none.
	TokenName string
	// MadeAt is when the hub accepted it.
	MadeAt time.Time
}

// Input is everything an agent's next step depends on.
type Input struct {
	Now time.Time
	// Serving means that the stored identity was proven and is in use at this moment.
	Serving bool
	// Running means that this process has used an identity, or has asked for one: it then waits for a
	// human where a starting one ends.
	Running bool

	// Stored is nil if Secret fleet-agent is missing or unreadable; StoredProblem says why it is unreadable.
	Stored        *StoredIdentity
	StoredProblem error

	// Bootstrap is nil if the bootstrap secret is missing or unreadable; BootstrapProblem says why it is
	// unreadable. ConfigProblem says why ConfigMap fleet-agent is.
	Bootstrap        *protocol.Bootstrap
	BootstrapProblem error
	ConfigProblem    error
	// SystemStore means that the TLS mode is system-store.
	SystemStore bool

	// Moved is what the stored identity was told where this Bootstrap says the hub is.
	Moved Verdict
	// Token is what the hub said to the import token of this Bootstrap.
	Token Verdict
	// Request is the pending request made with this Bootstrap, nil if there is none.
	Request *PendingRequest
	// Credential is what that request was answered with, nil if there is no answer yet; Proof is what the
	// hub said to it.
	Credential *protocol.Credential
	Proof      Verdict
}

// Stage names an agent's next step.
type Stage string

const (
	// Use means that the stored identity works, or worked until the hub went quiet: serve with it.
	Use Stage = "Use"
	// Request means that the hub is to be asked for an identity with the import token.
	Request Stage = "Request"
	// Await means that the next word is the hub's; Awaited says on what.
	Await Stage = "Await"
	// AwaitBootstrap means that a running agent has lost its identity and waits for a bootstrap secret.
	AwaitBootstrap Stage = "AwaitBootstrap"
	// GiveUp means that only a human or another replica can help: end the process with Err.
	GiveUp Stage = "GiveUp"
)

// Awaited is what an agent in stage Await waits for; empty in any other stage.
type Awaited string

const (
	// AnswerToStored is the hub's answer to the stored identity.
	AnswerToStored Awaited = "AnswerToStored"
	// GrantedCredential is the credential Secret of the pending request.
	GrantedCredential Awaited = "GrantedCredential"
	// AnswerToCredential is the hub's answer to the credential it granted.
	AnswerToCredential Awaited = "AnswerToCredential"
	// AnswerElsewhere is the answer to the stored identity where the bootstrap secret says the hub is.
	AnswerElsewhere Awaited = "AnswerElsewhere"
)

// Outcome is the decision: a stage, and what goes with it.
type Outcome struct {
	Stage Stage
	// Awaited is set in stage Await.
	Awaited Awaited
	// AskAgain means that the hub's answer to the stored identity is in doubt and to be asked for (again).
	AskAgain bool
	// AskElsewhere means that the stored identity is to be asked about where the bootstrap secret says the hub is.
	AskElsewhere bool
	// Rewrite means that it works there: the stored kubeconfig is to be written anew with the address and the CA of
	// the bootstrap secret first, its token as it is.
	Rewrite bool
	// Store means that the credential has been proven and is to be written to Secret fleet-agent first.
	Store bool
	// DropBootstrap means that the bootstrap secret is to be deleted: its work is done, or was not needed.
	DropBootstrap bool
	// Err is what a GiveUp ends the process with, and what an AwaitBootstrap reports: what is missing and
	// how to provide it.
	Err error
}

// Decide decides what an agent does now. Only 401, 403 and an untrusted CA count against a stored
// identity; a hub that does not answer costs neither the identity nor the process. A bootstrap secret
// beside an identity that works is dropped; beside one the hub rejects, or one that belongs to another
// hub that does not answer, it is used. One that names another address or CA is first taken as news of the
// hub the agent has (see hubMoved).
func Decide(in Input) Outcome {
	if step, ok := hubMoved(in); ok {
		return step
	}
	switch {
	case in.Stored == nil:
		return register(in)
	case in.Stored.Verdict.Answer == Accepted:
		return Outcome{Stage: Use, DropBootstrap: in.Bootstrap != nil || in.BootstrapProblem != nil}
	case storedLost(in), replaced(in):
		return register(in)
	case in.Serving:
		return Outcome{Stage: Use, AskAgain: true}
	}
	return Outcome{Stage: Await, Awaited: AnswerToStored, AskAgain: true}
}

// storedLost: the hub turns the stored identity away. With a way to get another, the first word counts, but not
// against one in use: it was good a moment ago, and another may be long in coming.
func storedLost(in Input) bool {
	patience := RejectionPatience
	if canRegister(in) && !in.Serving {
		patience = 0
	}
	return in.Stored.Verdict.against(in.Now, patience)
}

// replaced: the stored identity's hub is silent, and the bootstrap secret names another address. The
// stored identity stays where it is until the other one is proven; should the other hub turn the token
// away, it is the silent one that is waited for.
func replaced(in Input) bool {
	return canRegister(in) && in.Stored.Verdict.Answer == Unanswered &&
		!sameServer(in.Stored.Server, in.Bootstrap.APIServerURL) && !in.Token.against(in.Now, RejectionPatience)
}

func canRegister(in Input) bool { return in.Bootstrap != nil && in.ConfigProblem == nil }

// register is Next without a stored identity that could be used.
func register(in Input) Outcome {
	switch {
	case !canRegister(in):
		return stuck(in)
	case in.Token.against(in.Now, RejectionPatience):
		return turnedAway(in)
	case in.Request == nil, in.Now.Sub(in.Request.MadeAt) >= CredentialPatience:
		return Outcome{Stage: Request}
	case in.Credential == nil:
		return Outcome{Stage: Await, Awaited: GrantedCredential}
	case in.Proof.Answer == Accepted:
		return Outcome{Stage: Use, Store: true, DropBootstrap: true}
	case in.Proof.against(in.Now, ProofPatience):
		return Outcome{Stage: Request} // what was granted does not work: ask for another
	}
	return Outcome{Stage: Await, Awaited: AnswerToCredential}
}

// stuck is the step without any identity that could be used. A running agent stays, not ready: its
// workloads go on, and it takes a bootstrap secret the moment it comes.
func stuck(in Input) Outcome {
	step := Outcome{Stage: GiveUp, Err: missing(in)}
	if in.Running {
		step.Stage = AwaitBootstrap
		step.AskAgain = in.Stored != nil // rights may come back to it
	}
	return step
}

func missing(in Input) error {
	switch {
	case in.BootstrapProblem != nil:
		return fmt.Errorf("%w: %w; %s", ErrBootstrapUnusable, in.BootstrapProblem, remedyBootstrap)
	case in.Bootstrap != nil:
		return fmt.Errorf("%w: %w; correct ConfigMap %s", ErrBootstrapUnusable, in.ConfigProblem, names.Agent)
	case in.Stored != nil && in.Stored.Verdict.Answer == Untrusted && len(in.Stored.CA) == 0:
		return fmt.Errorf("%w: Secret %s has no CA for %s, the system's roots do not suffice or agentTLSMode forbids them, and there is no bootstrap secret; %s",
			ErrUntrustedCA, names.Agent, in.Stored.Server, remedyBootstrap)
	case in.Stored != nil && in.Stored.Verdict.Answer == Untrusted:
		return fmt.Errorf("%w: the certificate of %s is not signed by the CA in Secret %s, and there is no bootstrap secret; %s",
			ErrUntrustedCA, in.Stored.Server, names.Agent, remedyBootstrap)
	case in.Stored != nil:
		return fmt.Errorf("%w; %s", ErrIdentityRejected, remedyBootstrap)
	case in.StoredProblem != nil:
		return fmt.Errorf("%w: Secret %s is unreadable: %w, and there is no Secret %s; %s",
			ErrNoIdentity, names.Agent, in.StoredProblem, names.AgentBootstrap, remedyBootstrap)
	}
	return fmt.Errorf("%w: there is no Secret %s and no Secret %s; %s", ErrNoIdentity, names.Agent, names.AgentBootstrap, remedyBootstrap)
}

// turnedAway is the step when the hub does not take the import token, or is not the hub it claims to be.
func turnedAway(in Input) Outcome {
	if in.Token.Answer == Untrusted {
		return Outcome{Stage: GiveUp, Err: fmt.Errorf("%w: the certificate of %s is signed by unknown authority; %s",
			ErrUntrustedCA, in.Bootstrap.APIServerURL, remedyCA)}
	}
	return Outcome{Stage: GiveUp, Err: fmt.Errorf("%w (ClusterRegistrationToken %q in namespace %q): it has expired or was deleted; %s",
		ErrTokenRejected, in.Bootstrap.TokenName, in.Bootstrap.ClusterNamespace, remedyBootstrap)}
}
