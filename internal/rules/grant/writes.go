package grant

import "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"

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
		return []Write{RemoveCredentialAccess, WriteStatus}
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
// only after its rights could be written to the Cluster's namespace, which is deleted with the Cluster. A Cluster that is
// older than the request is read again, too. A granted request first records the heartbeat and the loss of its account.
// When the account was created again, neither can be detected any more.
func writesOfGrant(in Input, out Outcome) (steps []Write) {
	isNew := !in.Request.Status.Granted && len(out.Children) > 0
	if out.Own != nil && !isNew {
		steps = append(steps, SetOwner)
	}
	if out.Reason == conditions.ReasonAccountReplaced && in.Account == nil {
		steps = append(steps, WriteStatus)
	}
	if len(out.Children)+len(out.CredentialAccess) > 0 {
		steps = append(steps, WriteRights)
	}
	if out.Own != nil && isNew {
		steps = append(steps, SetOwner)
	}
	return steps
}

// writesOfUse returns how to delete an answer that is in use.
func writesOfUse(in Input, out Outcome) []Write {
	switch {
	case !out.InUse:
		return nil
	case isFetchable(in):
		return []Write{RetireCredential}
	case in.Credential == nil && in.AccessExists && mayBeFetched(in):
		return []Write{RemoveCredentialAccess}
	}
	return nil
}
