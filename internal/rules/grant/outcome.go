package grant

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/fleet-hub/fleet/internal/protocol"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Stage describes the progress of a ClusterRegistration.
type Stage string

const (
	// Leaving means that the request or its Cluster is being deleted, and with it the rights and the credential.
	Leaving Stage = "Leaving"
	// Abandoned means that the request is deleted because no agent waits for its answer, or no account could read it.
	Abandoned Stage = "Abandoned"
	// Rejected means that the request can never be granted as it is. Its condition explains why.
	Rejected Stage = "Rejected"
	// OtherManager means that the request has the label of another manager, which grants it.
	OtherManager Stage = "OtherManager"
	// Queued means that older requests of the same client or token come first. Nothing is created for the request.
	Queued Stage = "Queued"
	// TakeoverPending means that the Cluster has another agent, and nothing proves that this request comes from the
	// same one. Nothing is created for the request, and the other agent's objects are not touched.
	TakeoverPending Stage = "TakeoverPending"
	// ManagedElsewhere means that another manager owns the Cluster: nothing is granted. With Outcome.Granted set, the
	// existing grant stays as it is. Otherwise it is revoked.
	ManagedElsewhere Stage = "ManagedElsewhere"
	// AwaitingCluster means that no Cluster has the request's client ID yet; one is created.
	AwaitingCluster Stage = "AwaitingCluster"
	// AwaitingNamespace means that the Cluster has no namespace for the account yet.
	AwaitingNamespace Stage = "AwaitingNamespace"
	// AwaitingRights means that the account and its rights are written, but the cache does not show them yet.
	AwaitingRights Stage = "AwaitingRights"
	// Unproven means that a recovery request proves nothing, so it is deleted. Its message is for the Cluster's Event.
	Unproven Stage = "Unproven"
	// Minting means that only the account's bearer token is missing. It is requested now.
	Minting Stage = "Minting"
	// Done means that the credential was handed out and needs no replacement. The agent may not have read it yet.
	Done Stage = "Done"
)

// Outcome describes the desired state of a ClusterRegistration.
type Outcome struct {
	Stage Stage
	// Writes lists the writes to make now, in this order. After an error nothing more is written,
	// unless the failed write OnlyDeletes.
	Writes []Write
	// Reason is a condition reason that names the problem. Message explains it and the remedy.
	Reason, Message string
	// Ends is when a waiting request is processed again and deleted. It is zero if the request does not expire.
	Ends time.Time
	// CreateCluster is the Cluster to create for a client without one.
	CreateCluster *fleet.Cluster
	// Own makes the Cluster the request's only owner and records the heartbeat before the grant.
	Own *Ownership
	// Children is the complete set of the request's objects. If it is empty, this outcome writes no rights and deletes
	// none. Only the write Revoke deletes them.
	Children []runtime.Object
	// Mint, if set, requests the bearer token with which Credential becomes the answer. CredentialAccess lets the account of
	// the request's token read the answer. It is written before the answer, together with the Children, because the
	// API server takes a while to check who grants which rights.
	Mint             *protocol.Mint
	Credential       protocol.Credential
	CredentialAccess []runtime.Object
	// Key is the public key that has signed the request that is answered now, or "". Its agent also gets what it needs to
	// return after a loss.
	Key string
	// Sealed means that the answer is encrypted for this key.
	Sealed bool
	// EndConfirmation means that the confirmation on the Cluster is removed, because its request was answered. A client
	// could choose the same name for another request.
	EndConfirmation bool
	// RecoveredBy, if set, is recorded on the Cluster: the last pods that have recovered it and used the answer.
	RecoveredBy string
	// Alternating are two pods that recover the Cluster in turn.
	Alternating []string
	// Join, if set, is recorded on the Cluster, because the credential of a signed request is in use.
	Join *Join
	// Unpin means that the Cluster's pinned key is removed: another agent, which has no key, replaces the one with the key.
	// After a confirmation this comes before the credential is handed out, otherwise when the other agent reports.
	Unpin bool
	// Unreadable means that no account may read the answer and no agent has used it: the request names a token that
	// does not exist.
	Unreadable bool
	// LeftOut names the labels of a granted request that are never copied to a Cluster.
	LeftOut string
	// InUse means that the agent uses the credential. It has stored it and does not read it again.
	InUse bool
	// Superseded are older requests of the same client, and those that were granted at the same time to another agent. They
	// are deleted because the new credential is in use.
	Superseded []string
	// ClusterName and Granted are the request's status.
	ClusterName string
	Granted     bool
}

// Ownership describes what the grant writes into a request's metadata.
type Ownership struct {
	Owner metav1.OwnerReference
	// LastSeen is the Cluster's last heartbeat before the grant, see clusters.Heartbeat, or "" if there was none. A
	// different heartbeat is the first use of the credential.
	LastSeen string
	// TokenUID is the UID of the ClusterRegistrationToken that the request names. "" removes the recorded UID.
	TokenUID string
	// Key is the public key that has signed the request. "" removes the recorded key.
	Key string
	// ReplacesKey is the key of the agent that a request without a key replaces. "" removes the recorded one.
	ReplacesKey string
	// Lifetime is the lifetime of the credential, or "" if it does not expire.
	Lifetime string
	// HubAddress is the hubaddress.Hash of the hub's configuration. "" is not recorded.
	HubAddress string
}

// Join describes what the first use of a credential records on the Cluster.
type Join struct {
	// Key is the public key of the agent. From then on only requests that it has signed replace this agent without a
	// confirmation.
	Key string
	// TokenUID is the UID of the ClusterRegistrationToken that the agent joined with, or "" if it is unknown.
	TokenUID string
}

// Write is something that the hub writes for a request.
type Write string

const (
	// RemoveFinalizers removes the finalizers of a request that is being deleted.
	RemoveFinalizers Write = "RemoveFinalizers"
	// DeleteRequest deletes the request.
	DeleteRequest Write = "DeleteRequest"
	// Revoke deletes the request's rights, its credential, and the right to read the credential.
	Revoke Write = "Revoke"
	// RemoveCredentialAccess deletes the right to read the credential.
	RemoveCredentialAccess Write = "RemoveCredentialAccess"
	// DeleteUnproven deletes the request, and counts and reports it.
	DeleteUnproven Write = "DeleteUnproven"
	// CreateCluster creates Outcome.CreateCluster and, at the same time, Outcome.CredentialAccess.
	CreateCluster Write = "CreateCluster"
	// SetOwner writes Outcome.Own.
	SetOwner Write = "SetOwner"
	// WriteRights writes Outcome.Children and, at the same time, Outcome.CredentialAccess.
	WriteRights Write = "WriteRights"
	// UnpinKey removes the pinned key of the Cluster.
	UnpinKey Write = "UnpinKey"
	// EndConfirmation removes the confirmation of the request from the Cluster.
	EndConfirmation Write = "EndConfirmation"
	// RecordJoin writes Outcome.Join to the Cluster.
	RecordJoin Write = "RecordJoin"
	// RecordRecovery writes Outcome.RecoveredBy to the Cluster.
	RecordRecovery Write = "RecordRecovery"
	// HandOut requests a token as in Outcome.Mint and writes Outcome.Credential.
	HandOut Write = "HandOut"
	// RetireCredential deletes the credential and the right to read it, later and without delaying other requests.
	RetireCredential Write = "RetireCredential"
	// WriteStatus writes the request's status.
	WriteStatus Write = "WriteStatus"
	// DeleteSuperseded deletes Outcome.Superseded.
	DeleteSuperseded Write = "DeleteSuperseded"
)

// OnlyDeletes reports whether a write only deletes objects. If it fails, the writes after it are still made.
func (w Write) OnlyDeletes() bool {
	return w == Revoke || w == RemoveCredentialAccess || w == DeleteSuperseded
}
