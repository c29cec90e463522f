package names

import (
	"crypto/sha1" //nolint:gosec // not a secret: the set hash of the wire contract is SHA-1
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
)

// Fixed names. Each is part of the wire contract: after a change, existing clusters no longer work with this
// project.
const (
	// SystemNamespace is the default namespace of the controllers and, downstream, of the agent.
	SystemNamespace = "cattle-fleet-system"
	// LegacySystemNamespace is the namespace of very old installations. It is still recognized.
	LegacySystemNamespace = "fleet-system"
	// ControllerConfig is the ConfigMap of the controllers in the system namespace.
	ControllerConfig = "fleet-controller"
	// ControllerLease is the Lease of the controllers in the system namespace. Rancher Fleet's registration service
	// uses the same Lease, so that only one of the two is active.
	ControllerLease = "fleet-agentmanagement-lock"
	// CleanupLease and DeliveryLease are the Leases of Rancher Fleet's other two processes: the cleanup, and the
	// controllers of Bundles. While any of Rancher Fleet's three processes runs, ours are inactive.
	CleanupLease  = "fleet-cleanup-lock"
	DeliveryLease = "fleet-controller-leader-election-shard"
	// ConfigKey is the only key of that ConfigMap, and of the agent's.
	ConfigKey = "config"
	// ImportFieldManager and AgentFieldManager are the field managers of objects that an import or an agent applies.
	ImportFieldManager, AgentFieldManager = "fleet-import", "fleetagent"
	// Agent is the name of the agent's Deployment, ServiceAccount, ConfigMap and Lease, and of the Secret with its
	// identity.
	Agent = "fleet-agent"
	// AgentBootstrap is the name of the Secret with the agent's import identity, and of the set of objects that an
	// import creates downstream.
	AgentBootstrap = "fleet-agent-bootstrap"
	// ReleaseKey is the name of the Secret in the agent's namespace with the key of its releases.
	ReleaseKey = "fleet-agent-release-key"
	// AgentBundleSet is the set of the agents' Bundles of a workspace. It marks a Bundle as meant for the one
	// Cluster it is named after.
	AgentBundleSet = "fleet-manage-agent"
	// Recovery is the name of the ServiceAccount, the Role and the RoleBinding with which the agents of a workspace
	// request recoveries, and of the Secret in a cluster's namespace with which the hub answers a key that an agent has
	// reported.
	Recovery = "fleet-recovery"
	// RecoveryToken is the name of the Secret with the token of that account.
	RecoveryToken = "fleet-recovery-token"
	// HubKey is the name of the Secret with the hub's own key in the system namespace.
	HubKey = "fleet-hub-key"
	// HubDocument is the name of the ConfigMap in namespace kube-public with the hub document.
	HubDocument = "fleet-hub"
	// HubDocumentKey is the only key of that ConfigMap.
	HubDocumentKey = "document"
	// DeletedClusters starts the name of the ConfigMap with the blocked tickets of a workspace in the system namespace.
	DeletedClusters = "fleet-deleted-clusters"
	// ErrorMappingVariable is the environment variable of an agent that says which conditions of objects are errors. If the
	// controllers have it, their agents get it, too.
	ErrorMappingVariable = "CATTLE_WRANGLER_CHECK_GVK_ERROR_MAPPING"
	// BundleDeploymentRole is the ClusterRole of a request account in its cluster namespace.
	BundleDeploymentRole = "fleet-bundle-deployment"
	// ContentRole is the ClusterRole with which agents read Contents.
	ContentRole = "fleet-content"
	// BootstrapAccount is the ServiceAccount whose token is in the local cluster's kubeconfig.
	BootstrapAccount = "fleet-controller-bootstrap"
	// LocalWorkspace is the workspace in which a hub registers itself by default.
	LocalWorkspace = "fleet-local"
	// LocalCluster is the name of the hub's own Cluster.
	LocalCluster = "local"
	// LocalKubeconfig is the name of the Secret in the bootstrap namespace with the hub's own kubeconfig.
	LocalKubeconfig = "local-cluster"
	// DefaultGroup is the ClusterGroup that selects the local Cluster.
	DefaultGroup = "default"
)

// nameLimit is the maximum length of a DNS label plus one. Joined names shorter than this are not changed.
const nameLimit = 64

// KeyHash returns the first 12 hex digits of the SHA-256 of the first 100 bytes of s.
func KeyHash(s string) string {
	if len(s) > 100 {
		s = s[:100]
	}
	return sha256Hex(s)[:12]
}

// SafeConcat joins the parts with "-" into at most 63 characters. A longer name is cut and ends in the first
// digits of its own SHA-256, so that two long names with a common prefix stay distinct. The cut moves one byte
// to the left if it would leave a "-" or another character that must not precede a digest.
func SafeConcat(parts ...string) string {
	joined := strings.Join(parts, "-")
	if len(joined) < nameLimit {
		return joined
	}
	digest := sha256Hex(joined)
	if c := joined[56]; isLowerAlnum(c) {
		return joined[:57] + "-" + digest[:5]
	}
	return joined[:56] + "-" + digest[:6]
}

// ClusterNamespace returns the namespace of one Cluster's BundleDeployments.
func ClusterNamespace(workspace, cluster string) string {
	return SafeConcat("cluster", workspace, cluster, KeyHash(workspace+"::"+cluster))
}

// Cluster returns the name of a Cluster that a registration creates.
func Cluster(clientID string) string {
	return SafeConcat("cluster", KeyHash(clientID))
}

// CredentialSecret returns the name of the Secret with the credential for one request. Both sides compute it, so
// the agent finds its credential without being told the name.
func CredentialSecret(clientID, clientRandom string) string {
	return ("c-" + sha256Hex(clientID+clientRandom))[:63]
}

// RegistrationNamespace returns the namespace of credential Secrets that belongs to a system namespace.
func RegistrationNamespace(system string) string {
	const suffix = "-clusters-system"
	if named := strings.ReplaceAll(system, "-system", suffix); named != system {
		return named
	}
	return system + suffix
}

// ImportAccount returns the name of the ServiceAccount of a ClusterRegistrationToken.
func ImportAccount(token, uid string) string { return SafeConcat(token, uid) }

// RequestAccount returns the name of the ServiceAccount of a granted ClusterRegistration in the cluster
// namespace.
func RequestAccount(request, uid string) string { return SafeConcat(request, uid) }

// Namesake returns a name for a ClusterRegistration that is unique among workspaces, for use when another
// workspace has a ClusterRegistration with the same name.
func Namesake(workspace, request string) string {
	return SafeConcat(request, KeyHash(workspace+"::"+request))
}

// RecoverySecret returns the name of the Secret with the key of the agent in a namespace. The Secret is in namespace
// kube-system or, if the agent may not write there, in the agent's own.
func RecoverySecret(namespace string) string { return SafeConcat("fleet-agent-recovery", namespace) }

// ImportToken returns the name of the ClusterRegistrationToken that an import creates for a Cluster.
func ImportToken(cluster string) string { return SafeConcat("import-token-" + cluster) }

// AgentBundle returns the name of the Bundle that manages a Cluster's agent.
func AgentBundle(cluster string) string { return SafeConcat(Agent, cluster) }

// AgentSetID returns the ID of the set of an import's downstream objects. The scope is the Cluster's
// spec.agentNamespace, empty for the default.
func AgentSetID(scope string) string {
	if scope == "" {
		return AgentBootstrap
	}
	return SafeConcat(AgentBootstrap, scope)
}

// Owner identifies the owner of a set of objects. The zero value means that the set has no owner.
type Owner struct {
	// GVK is "<group>/<version>, Kind=<Kind>", with an empty group for core kinds.
	GVK string
	// Name and Namespace identify the owner. Namespace is empty for cluster-scoped owners.
	Name, Namespace string
}

// SetHash returns the value of the label that every object of a set has: the hex SHA-1 of the set's ID and its
// owner, without separators.
func SetHash(setID string, owner Owner) string {
	sum := sha1.Sum([]byte(setID + owner.GVK + owner.Name + owner.Namespace)) //nolint:gosec // see the import
	return hex.EncodeToString(sum[:])
}

// StatusHash returns the hash that detects changes of the Cluster's status fields: the hex SHA-224 of v encoded
// as JSON. It fails only if v cannot be encoded, which is impossible for the API's types.
func StatusHash(v any) (string, error) {
	encoded, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("encoding %T for its hash: %w", v, err)
	}
	return fmt.Sprintf("%x", sha256.Sum224(encoded)), nil
}

func sha256Hex(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

func isLowerAlnum(c byte) bool { return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' }

// ShardLease returns the name of the Lease of a shard's controllers in the system namespace. Rancher Fleet's
// controllers of the same shard use the same Lease, so that only one of the two is active.
func ShardLease(shard string) string { return DeliveryLease + "-" + shard }
