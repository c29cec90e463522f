package grant

import fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"

// Write is something that the hub writes for a request.
type Write string

const (
	// RemoveFinalizers removes the finalizers of a request that is being deleted.
	RemoveFinalizers Write = "RemoveFinalizers"
	// DeleteRequest deletes the request.
	DeleteRequest Write = "DeleteRequest"
	// Revoke deletes the request's rights, its credential, and the right to read the credential.
	Revoke Write = "Revoke"
	// RemoveReader deletes the right to read the credential.
	RemoveReader Write = "RemoveReader"
	// DeleteUnproven deletes the request, and counts and reports it.
	DeleteUnproven Write = "DeleteUnproven"
	// CreateCluster creates Outcome.CreateCluster and, at the same time, Outcome.Reader.
	CreateCluster Write = "CreateCluster"
	// SetOwner writes Outcome.Own.
	SetOwner Write = "SetOwner"
	// WriteRights writes Outcome.Children and, at the same time, Outcome.Reader.
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
	return w == Revoke || w == RemoveReader || w == DeleteSuperseded
}

// writes returns what to write for an outcome, in order.
func writes(in Input, out Outcome) []Write {
	switch out.Stage {
	case OtherManager:
		return nil
	case Leaving:
		return []Write{Revoke}
	case Abandoned:
		return []Write{DeleteRequest} // garbage collection and Revoke delete its objects
	case Unproven:
		return []Write{DeleteUnproven}
	case Queued:
		return []Write{WriteStatus}
	case Rejected: // the right to read is granted early, before it is known which request is answered
		return []Write{RemoveReader, WriteStatus}
	case ManagedElsewhere:
		if out.Granted {
			return []Write{WriteStatus}
		}
		return []Write{Revoke, WriteStatus}
	case TakeoverPending: // in general there is nothing to revoke, which costs nothing
		return []Write{Revoke, WriteStatus}
	case AwaitingCluster:
		return []Write{CreateCluster, WriteStatus}
	}
	return append(writesOfGrant(in, out), writesOfAnswer(in, out)...)
}

// writesOfAnswer returns how to write the answer to a request, and what its first use changes.
func writesOfAnswer(in Input, out Outcome) (steps []Write) {
	if out.Unpin {
		steps = append(steps, UnpinKey)
	}
	if out.Mint != nil {
		steps = append(steps, HandOut)
	}
	if out.EndConfirmation {
		steps = append(steps, EndConfirmation)
	}
	if out.Join != nil { // before older requests are deleted, so that the agent can return whatever happens next
		steps = append(steps, RecordJoin)
	}
	if out.RecoveredBy != "" { // before the request of the other pod is deleted, whose account the agent then loses
		steps = append(steps, RecordRecovery)
	}
	if len(out.Superseded) > 0 {
		steps = append(steps, DeleteSuperseded)
	}
	return append(append(steps, writesOfUse(in, out)...), WriteStatus)
}

// writesOfGrant returns how to write the rights of a request and its owner. A request whose owner is gone is
// garbage-collected; its agent does not notice, and creates another request only after half an hour. The Cluster may
// exist only in the cache, for example after the hub was restored from an older state. So a new request gets its owner
// only after its rights could be written to the Cluster's namespace, which is deleted with the Cluster. A granted
// request first records the heartbeat and the loss of its account. When the account was created again, neither can be
// detected any more.
func writesOfGrant(in Input, out Outcome) (steps []Write) {
	isNew := !in.Request.Status.Granted && len(out.Children) > 0
	if out.Own != nil && !isNew {
		steps = append(steps, SetOwner)
	}
	if out.Reason == fleet.ReasonAccountReplaced && in.Account == nil {
		steps = append(steps, WriteStatus)
	}
	if len(out.Children)+len(out.Reader) > 0 {
		steps = append(steps, WriteRights)
	}
	if out.Own != nil && isNew {
		steps = append(steps, SetOwner)
	}
	return steps
}
