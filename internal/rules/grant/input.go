package grant

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/rules/clusters"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Input describes the observed state of a ClusterRegistration. A nil object does not exist.
type Input struct {
	Now     time.Time
	Request *fleet.ClusterRegistration
	// Clusters are those of the workspace with the request's client ID, in any order.
	Clusters []*fleet.Cluster
	// Derived is the Cluster with the name that is derived from the client ID, whatever its client ID is.
	Derived *fleet.Cluster
	// Named is the Cluster in the request's status.
	Named *fleet.Cluster
	// Account is the request account in the cache. RightsExist reports the same about its rights, AccessExists about
	// the right to read the answer.
	Account                   *corev1.ServiceAccount
	RightsExist, AccessExists bool
	// Credential is the Secret that answers the request.
	Credential *corev1.Secret
	// NamedToken is the ClusterRegistrationToken that the request names. Imported is the one that an import created for
	// the Cluster.
	NamedToken, Imported *fleet.ClusterRegistrationToken
	// Tokens are all tokens of the workspace. They are read only if the request names none.
	Tokens []*fleet.ClusterRegistrationToken
	// Importer is the Cluster with the name that ImporterOf returns.
	Importer *fleet.Cluster
	// Others are the workspace's requests with the same client ID or for the same Cluster.
	Others []*fleet.ClusterRegistration
	// SameAnswer are the requests of all workspaces, including this one, that the same credential Secret would answer.
	// Begun are the UIDs of those that this process has begun to answer.
	SameAnswer []*fleet.ClusterRegistration
	Begun      []types.UID
	// Namesakes are the requests of the same name in other workspaces.
	Namesakes []*fleet.ClusterRegistration
	// ReaderAccount is the UID of the account of the token that Signer returns, or "" if it does not exist.
	ReaderAccount string
	// NamespaceTaken means that the Cluster's computed namespace was created for another Cluster.
	NamespaceTaken bool
	// HeartbeatAccount is the UID of the account that sent the Cluster's last heartbeat, or "" if it is unknown. See
	// NeedsHeartbeatAccount.
	HeartbeatAccount string
	// ReportedKey is the key that the hub pins in any case, because the agent has reported it and no key is pinned, or "".
	// See rules/recovery.
	ReportedKey string
	// UsedBy is the UID of the account that is known to have used the request's credential, or "" if that is unknown.
	UsedBy string
	// HeartbeatAsked is the heartbeat whose account was read last, see clusters.Heartbeat, or "" if none was.
	HeartbeatAsked string
	// Recovery is set for recovery requests. Their ReaderAccount is the recovery account of the workspace.
	Recovery Recovery
	// WorkspaceDeleting means that the request's namespace is being deleted.
	WorkspaceDeleting bool
	// Queue is the queue in which the request has no place, if any.
	Queue Queue
	// Crowded means that the request's client has more than OpenPerClient requests.
	Crowded bool
	// TokenClusters is the number of Clusters that the request's token has created. MaxClusters limits it; 0 means
	// unlimited.
	TokenClusters, MaxClusters int
	// CredentialLifetime is the lifetime of the credentials of agents that renew them. 0 means that they do not expire.
	CredentialLifetime time.Duration
	// IgnoreLabels drops the labels that the agent proposes.
	IgnoreLabels bool
	// HubAddress is the hubaddress.Hash of the hub's configuration.
	HubAddress string
	Namespaces clusters.Namespaces
}

// Recovery is what a hub knows about a recovery request. An agent that has lost its credential creates such a request
// with the recovery account, which all agents of the workspace share. Only its signature proves which agent it is.
type Recovery struct {
	// Hub is the hub's public key. It is "" before the key is loaded.
	Hub string
	// Named is the Cluster that the ticket names.
	Named *fleet.Cluster
	// Deleted means that the Cluster of the ticket was deleted after the ticket was signed.
	Deleted bool
	// Readmit means that Clusters that the hub lacks, and their keys, are created again from valid tickets.
	Readmit bool
}

// Queue is a queue of requests.
type Queue string

const (
	// NoQueue means that a request has its places.
	NoQueue Queue = ""
	// QueueOfClient means that there are OpenPerClient older requests of the same client.
	QueueOfClient Queue = "client"
	// QueueOfToken means that there are OpenPerToken older requests of the same token.
	QueueOfToken Queue = "token"
)
