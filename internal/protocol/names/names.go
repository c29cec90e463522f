// Package names holds every name and hash of the wire contract. It is pure and imports
// nothing of ours: whoever wants to know what an object is called reads only this.
//
// The namespaces, by role:
//
//	system        cattle-fleet-system               the controllers; also the agent's namespace downstream
//	registration  cattle-fleet-clusters-system      credential Secrets, nothing else
//	workspace     fleet-default, fleet-local, …     Clusters, tokens, requests, Bundles
//	cluster       cluster-<workspace>-<name>-<hash> one per Cluster: BundleDeployments, the request account
package names

import (
	"crypto/sha1" //nolint:gosec // not a secret: the set hash of the wire contract is SHA-1
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
)

// Fixed names. Each is on the wire: changing one separates us from every installed cluster.
const (
	// SystemNamespace is the default namespace of the controllers and, downstream, of the agent.
	SystemNamespace = "cattle-fleet-system"
	// LegacySystemNamespace is where very old installations ran; still recognised.
	LegacySystemNamespace = "fleet-system"
	// ControllerConfig is the ConfigMap of the controllers in the system namespace.
	ControllerConfig = "fleet-controller"
	// ControllerLease is the lease of the controllers in the system namespace: that of the other
	// implementation's registration service, so that only one of the two acts.
	ControllerLease = "fleet-agentmanagement-lock"
	// CleanupLease and DeliveryLease are those of the other implementation's other two processes: its cleaner, and
	// its controllers of Bundles. While any of the three runs, ours do not.
	CleanupLease  = "fleet-cleanup-lock"
	DeliveryLease = "fleet-controller-leader-election-shard"
	// ConfigKey is the one key of that ConfigMap, and of the agent's.
	ConfigKey = "config"
	// Agent names the agent's Deployment, ServiceAccount, ConfigMap, Lease and the Secret with its identity.
	Agent = "fleet-agent"
	// AgentBootstrap names the Secret that hands an agent its import identity, and the set of
	// objects an import leaves downstream.
	AgentBootstrap = "fleet-agent-bootstrap"
	// AgentBundleSet is the set of the agents' Bundles of a workspace. Whoever targets Bundles tells by it
	// that such a Bundle is for the one Cluster it is named after.
	AgentBundleSet = "fleet-manage-agent"
	// BundleDeploymentRole is the ClusterRole a request account has in its cluster namespace.
	BundleDeploymentRole = "fleet-bundle-deployment"
	// ContentRole is the ClusterRole by which agents read Contents.
	ContentRole = "fleet-content"
	// BootstrapAccount is the ServiceAccount whose token the local cluster's kubeconfig carries.
	BootstrapAccount = "fleet-controller-bootstrap"
	// LocalWorkspace is the workspace in which a hub registers itself by default.
	LocalWorkspace = "fleet-local"
	// LocalCluster names the hub's own Cluster, LocalKubeconfig its kubeconfig Secret.
	LocalCluster = "local"
	// LocalKubeconfig names the Secret in the bootstrap namespace with the hub's own kubeconfig.
	LocalKubeconfig = "local-cluster"
	// DefaultGroup is the ClusterGroup that selects the local Cluster.
	DefaultGroup = "default"
)

// nameLimit is the length of a DNS label plus one: joined names shorter than this stay as they are.
const nameLimit = 64

// KeyHash is the first 12 hex digits of the SHA-256 of the first 100 bytes of s.
func KeyHash(s string) string {
	if len(s) > 100 {
		s = s[:100]
	}
	return sha256Hex(s)[:12]
}

// SafeConcat joins the parts with "-" into at most 63 characters. A longer name is cut and ends in
// the beginning of its own SHA-256, so that two long names with a common beginning stay apart. The
// cut moves one byte to the left where it would leave a "-" or another character that a digest must
// not follow.
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

// ClusterNamespace is the namespace of one Cluster's BundleDeployments.
func ClusterNamespace(workspace, cluster string) string {
	return SafeConcat("cluster", workspace, cluster, KeyHash(workspace+"::"+cluster))
}

// Cluster is the name of a Cluster that a registration creates.
func Cluster(clientID string) string {
	return SafeConcat("cluster", KeyHash(clientID))
}

// CredentialSecret is the name of the Secret that answers one request. Both sides compute it; it is
// how an agent finds its credential without being told where it is.
func CredentialSecret(clientID, clientRandom string) string {
	return ("c-" + sha256Hex(clientID+clientRandom))[:63]
}

// RegistrationNamespace is the namespace of credential Secrets that belongs to a system namespace.
func RegistrationNamespace(system string) string {
	const suffix = "-clusters-system"
	if named := strings.ReplaceAll(system, "-system", suffix); named != system {
		return named
	}
	return system + suffix
}

// ImportAccount is the ServiceAccount behind a ClusterRegistrationToken.
func ImportAccount(token, uid string) string { return SafeConcat(token, uid) }

// RequestAccount is the ServiceAccount a granted ClusterRegistration gets in the cluster namespace.
func RequestAccount(request, uid string) string { return SafeConcat(request, uid) }

// Namesake stands for a ClusterRegistration where those of other workspaces are, and one of them has its name.
func Namesake(workspace, request string) string {
	return SafeConcat(request, KeyHash(workspace+"::"+request))
}

// ImportToken is the ClusterRegistrationToken that an import makes for a Cluster.
func ImportToken(cluster string) string { return SafeConcat("import-token-" + cluster) }

// AgentBundle is the Bundle that manages a Cluster's agent.
func AgentBundle(cluster string) string { return SafeConcat(Agent, cluster) }

// AgentSetID is the set an import's downstream objects belong to. The scope is the Cluster's
// spec.agentNamespace, empty for the default.
func AgentSetID(scope string) string {
	if scope == "" {
		return AgentBootstrap
	}
	return SafeConcat(AgentBootstrap, scope)
}

// Owner identifies the owner of a set of objects. The zero value is a set nobody owns.
type Owner struct {
	// GVK is "<group>/<version>, Kind=<Kind>", with an empty group for core kinds.
	GVK string
	// Name and Namespace locate the owner; Namespace is empty for cluster-scoped owners.
	Name, Namespace string
}

// SetHash is the value of the label that every object of a set carries: hex SHA-1 of the set's ID and
// its owner, without separators.
func SetHash(setID string, owner Owner) string {
	sum := sha1.Sum([]byte(setID + owner.GVK + owner.Name + owner.Namespace)) //nolint:gosec // see the import
	return hex.EncodeToString(sum[:])
}

// StatusHash is the change detector of the Cluster's status fields: hex SHA-224 of v as Go encodes it
// to JSON. An error means that v cannot be encoded, which none of the API's types can cause.
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
