package registering

import (
	"errors"
	"fmt"
	"time"

	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
)

// Time limits of the agent.
const (
	// CredentialPatience is how long the agent waits for the credential of one request before it makes another one.
	// Requests do not pile up: the hub deletes unanswered requests a few minutes later.
	CredentialPatience = 30 * time.Minute
	// RejectionPatience is how long the hub must reject an identity before the rejection counts, if the identity is in
	// use or cannot be replaced. An API server that has just started may answer valid identities with 401 or 403 for a
	// moment.
	RejectionPatience = 10 * time.Second
	// credentialPatience is the same limit for a new credential, whose RBAC rules may not have reached the hub's caches
	// yet. When it is exceeded, the agent makes another request.
	credentialPatience = 15 * time.Second
)

// An agent that may not watch its credential polls for it. The pause is the age of the request, but at least
// SoonestPoll and at most LatestPoll: the longer the hub takes, the less often it is polled. A hub that has not answered
// for twenty seconds may have a thousand such agents, whose polls would slow it down. Then the pause is a tenth of the age,
// at most waitingPoll.
const (
	SoonestPoll = 60 * time.Millisecond
	LatestPoll  = 2 * time.Second
	waitingPoll = 10 * time.Second
)

// PollPause returns the pause before the next poll for a credential, given the age of the request.
func PollPause(age time.Duration) time.Duration {
	return max(min(max(age, SoonestPoll), LatestPoll), min(age/10, waitingPoll))
}

// Errors that end an agent, because they do not resolve without a person or another replica. The wrapping error says
// what to do.
var (
	// ErrNoIdentity means that neither Secret fleet-agent nor Secret fleet-agent-bootstrap exists.
	ErrNoIdentity = errors.New("the agent has neither a credential nor a bootstrap secret")
	// ErrIdentityRejected means that the hub keeps rejecting the stored identity, and that no bootstrap secret exists
	// to get another one.
	ErrIdentityRejected = errors.New("the hub rejects the agent's credential, and there is no bootstrap secret")
	// ErrBootstrapUnusable means that the bootstrap secret or ConfigMap fleet-agent is invalid.
	ErrBootstrapUnusable = errors.New("the bootstrap secret cannot be used")
	// ErrTokenRejected means that the hub does not accept the import token of the bootstrap secret.
	ErrTokenRejected = errors.New("the hub rejected the registration token")
	// ErrUntrustedCA means that the hub's certificate is not signed by a CA that the agent trusts according to the
	// bootstrap secret and the TLS mode, or according to the stored identity.
	ErrUntrustedCA = errors.New("the hub's certificate is not trusted")
)

// Remedies that end the agent's error messages.
const (
	remedyBootstrap = "run on the hub: fleet repair CLUSTER -n WORKSPACE"
	remedyCA        = "check apiServerURL, apiServerCA and agentTLSMode of the hub, then " + remedyBootstrap
	remedyToken     = remedyBootstrap + ", or, if the cluster has no Cluster yet: fleet token create CLUSTER --cluster CLUSTER -n WORKSPACE"
)

// Answer is the hub's answer to an identity that tried to do an agent's work. It is empty before the first try.
type Answer string

const (
	// Accepted means that the hub allowed it.
	Accepted Answer = "Accepted"
	// Rejected means that the hub answered 401 or 403.
	Rejected Answer = "Rejected"
	// Untrusted means that the hub's certificate is not signed by the CA that belongs to the identity.
	Untrusted Answer = "Untrusted"
	// Unanswered means any other failure: no connection, a timeout, a 5xx answer, a wrong host name. It is treated as
	// temporary.
	Unanswered Answer = "Unanswered"
)

// LastAnswer is an Answer, and the time since which the hub has given only this answer.
type LastAnswer struct {
	Answer Answer
	Since  time.Time
}

// With returns the last answer after another one. If the answer has not changed, Since keeps its time.
func (v LastAnswer) With(answer Answer, now time.Time) LastAnswer {
	if v.Answer == answer {
		return v
	}
	return LastAnswer{Answer: answer, Since: now}
}

// against reports whether the hub has rejected the identity, or has been untrusted, for at least patience.
func (v LastAnswer) against(now time.Time, patience time.Duration) bool {
	return (v.Answer == Rejected || v.Answer == Untrusted) && now.Sub(v.Since) >= patience
}

// StoredIdentity describes the content of Secret fleet-agent, as far as a decision needs it.
type StoredIdentity struct {
	// Server is the hub's address in the stored kubeconfig. CA is the CA, in PEM, that must have signed the hub's
	// certificate; if it is empty, the system's roots are used.
	Server string
	CA     []byte
	// LastAnswer is the answer of that hub to the identity.
	LastAnswer LastAnswer
}

// PendingRequest is a ClusterRegistration that this process has made and whose answer it has not seen.
type PendingRequest struct {
	// Namespace and Name are the ClusterRegistration's.
	Namespace, Name string
	// ClientID and ClientRandom name its credential (names.CredentialSecret).
	ClientID, ClientRandom string
	// MadeAt is when the hub accepted the request.
	MadeAt time.Time
}

// Attempt is what this process did with one bootstrap secret, or with one recovery token.
type Attempt struct {
	// TokenAnswer is the answer to the import token or the recovery token.
	TokenAnswer LastAnswer
	// Request is the pending request made with that token, nil if it does not exist.
	Request *PendingRequest
	// Credential is the credential granted to Request, nil before the hub answers. CredentialAnswer is the hub's answer to
	// that credential.
	Credential       *protocol.Credential
	CredentialAnswer LastAnswer
}

// next returns the step that continues the attempt. Until a credential is granted, the hub may accept the stored identity again.
// The agent returns to it only if it can recover, because the hub may still grant the request, and then revokes the stored identity.
// With a bootstrap secret of another hub, the agent is meant to leave its hub.
func (a Attempt) next(in Input) Outcome {
	probe := in.Stored != nil && canRecover(in) && in.Recovery.CanRequest
	switch {
	case a.Request == nil, in.Now.Sub(a.Request.MadeAt) >= CredentialPatience:
		return Outcome{Stage: Request, ProbeStored: probe}
	case a.Credential == nil:
		return Outcome{Stage: Await, Awaited: GrantedCredential, ProbeStored: probe}
	case a.CredentialAnswer.Answer == Accepted:
		return Outcome{Stage: Use, Store: true}
	case a.CredentialAnswer.against(in.Now, credentialPatience):
		return Outcome{Stage: Request, ProbeStored: probe} // the granted credential does not work: request another one
	}
	return Outcome{Stage: Await, Awaited: AnswerToCredential}
}

// Input is everything that an agent's next step depends on.
type Input struct {
	Now time.Time
	// Serving means that the stored identity was proven and is in use now.
	Serving bool
	// Running means that this process has used an identity or has requested one. Where a starting process ends, a
	// running one waits for a person.
	Running bool

	// Stored is nil if Secret fleet-agent is missing or invalid. StoredProblem says why it is invalid.
	Stored        *StoredIdentity
	StoredProblem error

	// Bootstrap is nil if the bootstrap secret is missing or invalid. BootstrapProblem says why it is invalid.
	// ConfigProblem says why ConfigMap fleet-agent is invalid.
	Bootstrap        *protocol.Bootstrap
	BootstrapProblem error
	ConfigProblem    error
	// SystemStore means that the TLS mode is system-store.
	SystemStore bool

	// AnswerAtNewAddress is the answer to the stored identity at the address in Bootstrap.
	AnswerAtNewAddress LastAnswer
	// Attempt describes the request with Bootstrap.
	Attempt

	// Recovery is nil if the agent has nothing with which it could return without a bootstrap secret.
	Recovery *Recovery
}

// Stage names an agent's next step.
type Stage string

const (
	// Use means that the agent serves with the stored identity. It works, or it worked until the hub became silent.
	Use Stage = "Use"
	// Request means that the agent requests an identity with the import token, or if Recovery is set, with the recovery
	// token.
	Request Stage = "Request"
	// Await means that the agent waits for an answer of the hub. Awaited says for which one.
	Await Stage = "Await"
	// AwaitBootstrap means that a running agent has lost its identity and waits for a bootstrap secret.
	AwaitBootstrap Stage = "AwaitBootstrap"
	// GiveUp means that only a person or another replica can help. The process ends with Err.
	GiveUp Stage = "GiveUp"
)

// Awaited is what an agent in stage Await waits for. It is empty in any other stage.
type Awaited string

const (
	// AnswerToStored is the hub's answer to the stored identity.
	AnswerToStored Awaited = "AnswerToStored"
	// GrantedCredential is the credential Secret of the pending request.
	GrantedCredential Awaited = "GrantedCredential"
	// AnswerToCredential is the hub's answer to the credential it granted.
	AnswerToCredential Awaited = "AnswerToCredential"
	// AnswerElsewhere is the answer to the stored identity at the address in the bootstrap secret.
	AnswerElsewhere Awaited = "AnswerElsewhere"
	// RecoveryTurn is the point in time at which this agent may make its recovery request.
	RecoveryTurn Awaited = "RecoveryTurn"
	// HubDocument is a hub document with another address, CA or recovery token.
	HubDocument Awaited = "HubDocument"
)

// Outcome is the decision: a stage, and the actions that belong to it.
type Outcome struct {
	Stage Stage
	// Awaited is set in stage Await.
	Awaited Awaited
	// ProbeStored means that the hub's answer to the stored identity is uncertain. The agent has to test the identity again.
	ProbeStored bool
	// ProbeNewAddress means that the agent tries the stored identity at the address in the bootstrap secret.
	ProbeNewAddress bool
	// Rewrite means that the stored identity works at that address. Before anything else, the agent writes the address
	// and the CA of the bootstrap secret into the stored kubeconfig, and keeps the token.
	Rewrite bool
	// Store means that the credential was proven. The agent first writes it to Secret fleet-agent.
	Store bool
	// Recovery means that the step continues Input.Recovery: it uses the recovery token and not a bootstrap secret.
	Recovery bool
	// ProbePause is the minimum pause before the stored identity is tested again while the agent waits for RecoveryTurn.
	ProbePause time.Duration
	// Pause is how long the agent waits for RecoveryTurn.
	Pause time.Duration
	// DropBootstrap means that the agent deletes the bootstrap secret, because it was used or is not needed.
	DropBootstrap bool
	// Err is the error with which GiveUp ends the process and which AwaitBootstrap reports. It says what is missing
	// and how to provide it.
	Err error
}

// Decide returns what an agent does now. Only 401, 403 and an untrusted CA count against a stored identity. A hub that
// does not answer costs the agent neither its identity nor its process. If the identity works, the bootstrap secret is
// deleted. If the hub rejects the identity, or if it belongs to another hub that does not answer, the bootstrap secret
// is used. A bootstrap secret with another address or CA is first tried as the new address of the same hub: see
// hubMoved. An agent without a usable bootstrap secret makes a recovery request: see recoverIdentity.
func Decide(in Input) Outcome {
	if step, ok := hubMoved(in); ok {
		return step
	}
	switch {
	case in.Stored == nil:
		return register(in)
	case in.Stored.LastAnswer.Answer == Accepted:
		return Outcome{Stage: Use, DropBootstrap: in.Bootstrap != nil || in.BootstrapProblem != nil}
	case storedLost(in), replaced(in):
		return register(in)
	case in.Serving:
		return Outcome{Stage: Use, ProbeStored: true}
	}
	return Outcome{Stage: Await, Awaited: AnswerToStored, ProbeStored: true}
}

// storedLost reports whether the hub rejects the stored identity. If the agent can register and the identity is not in
// use, the first rejection counts. An identity in use worked a moment ago, and a new one may take long, so its
// rejection must last.
func storedLost(in Input) bool {
	patience := RejectionPatience
	if canRegister(in) && !in.Serving {
		patience = 0
	}
	return in.Stored.LastAnswer.against(in.Now, patience)
}

// replaced reports whether the stored identity's hub does not answer and the bootstrap secret names another address.
// The stored identity is kept until the new one is proven. If the other hub rejects the token, the agent waits for the
// silent hub.
func replaced(in Input) bool {
	return canRegister(in) && in.Stored.LastAnswer.Answer == Unanswered &&
		!sameServer(in.Stored.Server, in.Bootstrap.APIServerURL) && !in.TokenAnswer.against(in.Now, RejectionPatience)
}

func canRegister(in Input) bool { return in.Bootstrap != nil && in.ConfigProblem == nil }

// register returns the step of an agent without a usable stored identity.
func register(in Input) Outcome {
	switch {
	case canRegister(in) && !in.TokenAnswer.against(in.Now, RejectionPatience):
		step := in.next(in)
		step.DropBootstrap = step.Store
		return step
	case canRecover(in):
		return recoverIdentity(in)
	case canRegister(in):
		return turnedAway(in)
	}
	return stuck(in)
}

// stuck returns the step of an agent without any usable identity. A running agent stays, not ready: its workloads
// continue, and it uses a bootstrap secret as soon as one is created.
func stuck(in Input) Outcome {
	step := Outcome{Stage: GiveUp, Err: missing(in)}
	if in.Running {
		step.Stage = AwaitBootstrap
		step.ProbeStored = in.Stored != nil // the hub may accept it again
	}
	return step
}

func missing(in Input) error {
	switch {
	case in.BootstrapProblem != nil:
		return fmt.Errorf("%w: %w; %s", ErrBootstrapUnusable, in.BootstrapProblem, remedyToken)
	case in.Bootstrap != nil:
		return fmt.Errorf("%w: %w; correct ConfigMap %s", ErrBootstrapUnusable, in.ConfigProblem, names.Agent)
	case in.Stored != nil && in.Stored.LastAnswer.Answer == Untrusted && len(in.Stored.CA) == 0:
		return fmt.Errorf("%w: Secret %s has no CA for %s, the system's roots do not suffice or agentTLSMode forbids them, and there is no bootstrap secret; %s",
			ErrUntrustedCA, names.Agent, in.Stored.Server, remedyBootstrap)
	case in.Stored != nil && in.Stored.LastAnswer.Answer == Untrusted:
		return fmt.Errorf("%w: the certificate of %s is not signed by the CA in Secret %s, and there is no bootstrap secret; %s",
			ErrUntrustedCA, in.Stored.Server, names.Agent, remedyBootstrap)
	case in.Stored != nil:
		return fmt.Errorf("%w; %s", ErrIdentityRejected, remedyBootstrap)
	case in.StoredProblem != nil:
		return fmt.Errorf("%w: Secret %s is unreadable: %w, and there is no Secret %s; %s",
			ErrNoIdentity, names.Agent, in.StoredProblem, names.AgentBootstrap, remedyToken)
	}
	return fmt.Errorf("%w: there is no Secret %s and no Secret %s; %s", ErrNoIdentity, names.Agent, names.AgentBootstrap, remedyToken)
}

// turnedAway returns the step if the hub rejects the import token, or if its certificate is not trusted.
func turnedAway(in Input) Outcome {
	if in.TokenAnswer.Answer == Untrusted {
		return Outcome{Stage: GiveUp, Err: fmt.Errorf("%w: the certificate of %s is signed by unknown authority; %s",
			ErrUntrustedCA, in.Bootstrap.APIServerURL, remedyCA)}
	}
	return Outcome{Stage: GiveUp, Err: fmt.Errorf("%w (ClusterRegistrationToken %q in namespace %q): it has expired or was deleted; %s",
		ErrTokenRejected, in.Bootstrap.TokenName, in.Bootstrap.ClusterNamespace, remedyToken)}
}
