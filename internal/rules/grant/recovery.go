package grant

import (
	"maps"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/identity"
	"github.com/fleet-hub/fleet/internal/rules/clonedcluster"
	"github.com/fleet-hub/fleet/internal/rules/requests"
	"github.com/fleet-hub/fleet/internal/rules/revocation"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

// TicketOf returns the ticket of a recovery request, and false if the hub has not signed it for this workspace and
// client ID.
func TicketOf(request *fleet.ClusterRegistration, hub string) (identity.Ticket, bool) {
	if hub == "" {
		return identity.Ticket{}, false
	}
	ticket, err := identity.VerifyTicket(hub, request.Annotations[annotation.AgentTicket])
	return ticket, err == nil && ticket.Workspace == request.Namespace && ticket.ClientID == request.Spec.ClientID
}

// ticketFor returns the ticket of a request that was signed with a key, and false if the ticket is for another key.
func ticketFor(in Input, key string) (identity.Ticket, bool) {
	ticket, ok := TicketOf(in.Request, in.Recovery.Hub)
	return ticket, ok && ticket.Key == identity.Thumbprint(key)
}

// readmits reports whether the ticket of a request lets the hub create its Cluster, or the key of its Cluster, again.
func readmits(in Input) bool {
	ticket, ok := ticketFor(in, keyOf(in))
	return ok && in.Recovery.Readmit && !in.Recovery.Deleted && in.Now.Before(ticket.Time.Add(identity.TicketLife))
}

// provesNothing reports whether a recovery request is to be deleted, because it is unproven and not answered.
func provesNothing(in Input, cluster *fleet.Cluster) bool {
	return requests.IsRecovery(in.Request) && in.Request.DeletionTimestamp == nil && !isAnswered(in) && isUnproven(in, cluster)
}

// isUnproven reports whether a recovery request proves nothing about its Cluster, so that it is deleted at once. It must
// not wait: requests of other agents of the workspace would take the places of the Cluster's own agent. Only the holder
// of a blocked key, or of a ticket that has expired, waits for a confirmation.
func isUnproven(in Input, cluster *fleet.Cluster) bool {
	key := keyOf(in)
	if key == "" || refused(in) {
		return true
	}
	if isConfirmed(in, cluster) {
		return false
	}
	ticket, ticketed := ticketFor(in, key)
	if cluster == nil {
		return !readmits(in) || in.Recovery.Named != nil // the name belongs to another client ID
	}
	switch pinned := agentKey(in, cluster); {
	case pinned != "":
		return key != pinned
	case revocation.IsBlocked(cluster):
		return key != cluster.Annotations[annotation.BlockedKey]
	}
	return !ticketed || ticket.Cluster != cluster.Name
}

// whyUnproven explains why a recovery request is deleted.
func whyUnproven(in Input) string {
	if refused(in) {
		return "a request to recover this Cluster's agent repeats an earlier one, and was deleted, which does not affect the agent; if this happens again, find the client that copies ClusterRegistrations of namespace " +
			in.Request.Namespace + " in the audit log of the hub's API server"
	}
	return "a request to recover this Cluster's agent does not prove that it comes from this agent, and was deleted; if an agent of this Cluster has lost its key, or its hub has another key since, run: fleet repair CLUSTER -n " + in.Request.Namespace
}

// isProven reports whether a recovery request may replace the Cluster's agent. A ticket counts only if no key is pinned,
// and not if the agent that it was signed for was replaced by one without a key.
func isProven(in Input, cluster *fleet.Cluster) bool {
	if pinned := agentKey(in, cluster); pinned != "" {
		return keyOf(in) == pinned && len(clonedcluster.Alternating(in.Request, cluster, in.Now)) == 0
	}
	ticket, _ := ticketFor(in, keyOf(in))
	return ticket.Cluster == cluster.Name && readmits(in) && !isReplaced(in, cluster)
}

// isReplaced reports whether the agent of a ticket was replaced after the ticket was signed. If the time is unreadable,
// every ticket is too old.
func isReplaced(in Input, cluster *fleet.Cluster) bool {
	text := cluster.Annotations[annotation.TicketsSince]
	if text == "" {
		return false
	}
	since, err := time.Parse(time.RFC3339, text)
	ticket, _ := ticketFor(in, keyOf(in))
	return err != nil || !ticket.Time.After(since)
}

// readmitted returns the Cluster of a ticket, with the key that has signed the request.
func readmitted(in Input) *fleet.Cluster {
	key := keyOf(in)
	ticket, _ := ticketFor(in, key) // otherwise the request is unproven
	labels := maps.Clone(ticket.Labels)
	if labels == nil {
		labels = map[string]string{fleet.LabelCluster: ticket.Cluster}
	}
	return &fleet.Cluster{
		TypeMeta: metav1.TypeMeta{APIVersion: fleet.SchemeGroupVersion.String(), Kind: "Cluster"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: ticket.Workspace, Name: ticket.Cluster, Labels: labels, Finalizers: []string{fleet.FinalizerCluster},
			Annotations: map[string]string{annotation.AgentKey: key},
		},
		Spec: fleet.ClusterSpec{ClientID: ticket.ClientID, Paused: ticket.Paused},
	}
}
