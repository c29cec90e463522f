package recovery

import (
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/fleet-hub/fleet/internal/identity"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/clusters"
	"github.com/fleet-hub/fleet/internal/rules/objects"
	"github.com/fleet-hub/fleet/internal/rules/revocation"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

// ticketAge is the age at which the ticket of a Cluster is replaced, long before it expires.
const ticketAge = 30 * 24 * time.Hour

// Account returns the recovery account of a workspace and its only right: to create ClusterRegistrations there.
func Account(workspace string) []runtime.Object {
	account := &corev1.ServiceAccount{TypeMeta: objects.TypeMeta("ServiceAccount"), ObjectMeta: objects.Managed(workspace, names.Recovery)}
	account.APIVersion = "v1"
	return []runtime.Object{
		account,
		objects.RoleOf(objects.Managed(workspace, names.Recovery), rbacv1.PolicyRule{
			APIGroups: []string{fleet.SchemeGroupVersion.Group}, Resources: []string{"clusterregistrations"}, Verbs: []string{"create"},
		}),
		objects.BindingOf(objects.Managed(workspace, names.Recovery), "Role", names.Recovery, objects.Subject(workspace, names.Recovery)),
	}
}

// Applies reports whether this hub keeps anything for the agent of a Cluster.
func Applies(cluster *fleet.Cluster) bool {
	return cluster.DeletionTimestamp == nil && !clusters.ManagedElsewhere(cluster)
}

// KeyToPin returns the key that the agent of a Cluster has reported if no key is pinned, or "". A key is never
// overwritten. A blocked key is never pinned, nor that of an agent that was replaced by one without a key: its report may
// be older than that.
func KeyToPin(cluster *fleet.Cluster) string {
	key := cluster.Status.Agent.RecoveryKey
	if key == "" || key == cluster.Annotations[annotation.ReplacedKey] || cluster.Annotations[annotation.AgentKey] != "" || revocation.IsBlocked(cluster) || identity.CheckPublic(key) != nil {
		return ""
	}
	return key
}

// IsDue reports whether the Secret with the recovery data of a Cluster has to be written. held is what the Secret
// contains, and hub the hub's public key. wanted is the current ticket without its time.
func IsDue(held protocol.Recovery, hub, token string, wanted identity.Ticket, now time.Time) bool {
	if held.HubKey != hub || held.Token != token {
		return true
	}
	ticket, err := identity.VerifyTicket(hub, held.Ticket)
	if err != nil || isOld(ticket.Time, now) {
		return true
	}
	labelled := maps.Equal(ticket.Labels, wanted.Labels) || len(ticket.Labels) == 0 && !fits(wanted)
	return ticket.Workspace != wanted.Workspace || ticket.Cluster != wanted.Cluster || ticket.ClientID != wanted.ClientID ||
		ticket.Key != wanted.Key || ticket.Paused != wanted.Paused || !labelled
}

// Has reports whether the agent of a Cluster has current recovery data, by the receipt in its heartbeat. Such an agent needs
// no Secret. An agent that claims to have more than it has can harm only itself. wanted is what the hub would give, but for its
// ticket, and ticket what that would say, without its time.
func Has(receipt string, wanted protocol.Recovery, ticket identity.Ticket, now time.Time) bool {
	ticket.Time = identity.ReceiptTime(receipt)
	if ticket.Time.IsZero() || isOld(ticket.Time, now) {
		return false
	}
	if receipt == identity.Receipt(wanted.HubKey, wanted.Token, wanted.WorkspaceKey, ticket) {
		return true
	}
	if fits(ticket) {
		return false
	}
	ticket.Labels = nil
	return receipt == identity.Receipt(wanted.HubKey, wanted.Token, wanted.WorkspaceKey, ticket)
}

// LatestTicket returns the time of the last ticket of a Cluster, as its agent reports it, or the zero time. It is in the future
// if the hub's clock was set back since. A ticket from too far in the future was replaced, so such a report is not believed.
func LatestTicket(cluster *fleet.Cluster, now time.Time) time.Time {
	latest := identity.ReceiptTime(cluster.Status.Agent.RecoveryTicket)
	if latest.After(now.Add(ticketAge)) {
		return time.Time{}
	}
	return latest
}

// isOld reports whether a ticket of a time has to be replaced. So has one from more than 30 days in the future, after the
// hub's clock was set back.
func isOld(signed, now time.Time) bool {
	return !now.Before(signed.Add(ticketAge)) || signed.After(now.Add(ticketAge))
}

// maxLabels is the size in bytes from which labels may not fit into a ticket.
const maxLabels = 8 << 10

func fits(ticket identity.Ticket) bool {
	size := 0
	for key, value := range ticket.Labels {
		size += len(key) + len(value) + 6
	}
	return size < maxLabels
}

// Secret returns the Secret with which the agent of a Cluster gets its recovery data. An agent that joined earlier does
// not know the namespace in which the hub answers requests.
func Secret(cluster *fleet.Cluster, registrationNamespace string, data protocol.Recovery) *corev1.Secret {
	meta := objects.Managed(clusters.NamespaceOf(cluster), names.Recovery)
	meta.Annotations = map[string]string{fleet.AnnotationCluster: cluster.Name, fleet.AnnotationClusterNamespace: cluster.Namespace}
	secret := &corev1.Secret{ObjectMeta: meta, Type: protocol.SecretTypeRecovery, Data: protocol.RecoveryData{Recovery: data, SystemRegistrationNamespace: registrationNamespace}.Encode()}
	secret.APIVersion, secret.Kind = "v1", "Secret"
	return secret
}
