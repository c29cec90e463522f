package annotation

// Annotations of objects.
const (
	// LastSeenAtGrant, on a ClusterRegistration, is the Cluster's status.agent.lastSeen at the time the
	// credential was written and, after a space, its status.agent.credentialExpires, if set. Another heartbeat is the
	// first use of the credential.
	LastSeenAtGrant = "fleet.cattle.io/last-seen-at-grant"
	// TokenUIDAtGrant, on a ClusterRegistration, is the UID of the ClusterRegistrationToken whose account
	// may read the credential. A token that was deleted and created again with the same name has another UID.
	TokenUIDAtGrant = "fleet.cattle.io/token-uid-at-grant"
	// AgentKey, on a ClusterRegistration, is the public key of the agent, and on a Cluster the public key of
	// its registered agent.
	AgentKey = "fleet.cattle.io/agent-key"
	// AgentProof, on a ClusterRegistration, is the proof that the owner of the agent's key made the request.
	AgentProof = "fleet.cattle.io/agent-proof"
	// AgentTicket, on a ClusterRegistration, is the ticket with which an agent returns that has lost its
	// credential.
	AgentTicket = "fleet.cattle.io/agent-ticket"
	// CredentialAccount, on an encrypted credential Secret, is the UID of the account of the credential.
	CredentialAccount = "fleet.cattle.io/credential-account"
	// RecoveredBy, on a Cluster, names the last pods of its agent that have recovered a credential, with the
	// times.
	RecoveredBy = "fleet.cattle.io/recovered-by"
	// AgentKeyAtGrant, on a ClusterRegistration, is the public key whose proof the hub has verified.
	AgentKeyAtGrant = "fleet.cattle.io/agent-key-at-grant"
	// ReplacesKey, on a ClusterRegistration without a key, is the key of the agent that was registered when it was
	// granted. The hub removes this key from the Cluster when the agent of the registration reports.
	ReplacesKey = "fleet.cattle.io/replaces-key"
	// BootstrapClientID, on Secret fleet-agent-bootstrap, is the client ID in the ConfigMap that the chart delivers with
	// the Secret. An agent that already runs waits for that ConfigMap.
	BootstrapClientID = "fleet.cattle.io/bootstrap-client-id"
	// AgentRenews, with value "true" on a ClusterRegistration, announces that the agent renews its token.
	AgentRenews = "fleet.cattle.io/agent-renews"
	// LifetimeAtGrant, on a ClusterRegistration, is the lifetime of the credential that was granted. It is absent
	// if the credential does not expire.
	LifetimeAtGrant = "fleet.cattle.io/lifetime-at-grant"
	// RevokeCredential, on a Cluster, orders the hub to revoke the credential of its agent. Each new value is
	// another order.
	RevokeCredential = "fleet.cattle.io/revoke-credential"
	// CredentialRevoked, on a Cluster, is the last value of RevokeCredential that the hub has carried
	// out.
	CredentialRevoked = "fleet.cattle.io/credential-revoked"
	// RevokeKey, on a Cluster, orders the hub to revoke the credential of its agent and to block its key. Each
	// new value is another order.
	RevokeKey = "fleet.cattle.io/revoke-key"
	// KeyRevoked, on a Cluster, is the last value of RevokeKey that the hub has carried out.
	KeyRevoked = "fleet.cattle.io/key-revoked"
	// BlockedKey, on a Cluster, is the key that was blocked last. Until another key is pinned, only a
	// confirmation lets an agent return.
	BlockedKey = "fleet.cattle.io/blocked-key"
	// TicketsSince, on a Cluster, is the time (RFC 3339) when an agent without a key replaced one with a key.
	// Tickets that were signed before do not let that agent return.
	TicketsSince = "fleet.cattle.io/tickets-since"
	// ReplacedKey, on a Cluster, is the key of the agent that an agent without a key replaced last. It is pinned
	// again only when a request with it is granted.
	ReplacedKey = "fleet.cattle.io/replaced-key"
	// RevokeDerived, with value "true" on a ClusterRegistrationToken, revokes the key of every Cluster that
	// joined with it, and then deletes the token.
	RevokeDerived = "fleet.cattle.io/revoke-derived"
	// CreatedWithToken, on a Cluster that the hub created for a ClusterRegistration, is the UID of the
	// token that the request names, or "unknown". The Clusters of a token are counted by it.
	CreatedWithToken = "fleet.cattle.io/created-with-token"
	// TokenForCluster, on a ClusterRegistrationToken, is the name of the Cluster for which the command line or
	// the hub created the token.
	TokenForCluster = "fleet.cattle.io/token-for-cluster"
	// TokenForClientID, on a ClusterRegistrationToken, is the only client ID that may register with the token.
	// Without the annotation, any may.
	TokenForClientID = "fleet.cattle.io/token-for-client-id"
	// ConfirmTakeover, on a Cluster, is the name of the ClusterRegistration that may replace the Cluster's
	// current agent.
	ConfirmTakeover = "fleet.cattle.io/confirm-takeover"
	// PullSecrets, on a Cluster, records the versions of the hub's pull secrets that were copied to its
	// agent's namespace.
	PullSecrets = "fleet.cattle.io/pull-secrets"
	// Watched, with value "true" on an agent's Secret fleet-agent, means that the agent watches the Secret
	// and needs no restart after a change.
	Watched = "fleet.cattle.io/watched"
	// HubAddress, on a Cluster, is the hash of the hub's URL and CA that an operator has configured in its
	// agent.
	HubAddress = "fleet.cattle.io/hub-address"
	// HubAddressAtGrant, on a ClusterRegistration, is a hash of the
	// hub's URL and CA as configured when it was granted.
	HubAddressAtGrant = "fleet.cattle.io/hub-address-at-grant"
	// HubUID, on ConfigMap fleet-agent downstream, is the UID of the namespace kube-system of the agent's
	// hub. Other hubs do not change this agent.
	HubUID = "fleet.cattle.io/hub-uid"
	// SystemUID, on the namespace of a Cluster on the hub, is the UID of the namespace kube-system of that
	// cluster, as the hub read it with the kubeconfig. It tells whether two Clusters are the same cluster.
	SystemUID = "fleet.cattle.io/system-uid"
	// TakeOverAgent, with value "true" on a Cluster, lets the hub replace an agent of another Fleet
	// implementation in place.
	TakeOverAgent = "fleet.cattle.io/take-over-agent"
	// AllowedWorkspaces, on a kubeconfig Secret, lists further workspaces whose Clusters may reference it,
	// separated by commas. "*" means all. The Secret's own namespace is always allowed.
	AllowedWorkspaces = "fleet.cattle.io/allowed-workspaces"
	// CopiesTold, on a BundleDeployment, records which copies of its downstream resources its agent has
	// been notified of: "<kind>/<name>=<resource version of the original>/<resource version of the copy>", separated
	// by spaces.
	CopiesTold = "fleet.cattle.io/copies-told"
	// CopiedFrom, on the copy of a downstream resource in a cluster's namespace, is the workspace of its original.
	// Agents do not use the copy for Bundles of other workspaces.
	CopiedFrom = "fleet.cattle.io/copied-from"
	// AcceptBundlesFrom, on the Namespace of a workspace, lists the other workspaces whose Bundles may
	// target its Clusters through a BundleNamespaceMapping, separated by commas. "*" means all. "none" or an empty
	// value means none. Without the annotation, all may.
	AcceptBundlesFrom = "fleet.cattle.io/accept-bundles-from"
	// PlainValues, on a BundleDeployment, is the hash of Helm values that are in its Bundle as plain text
	// and in no Secret. The agent may show them when they drift. If the hash differs from that of the spec, the
	// annotation has no effect.
	PlainValues = "fleet.cattle.io/plain-values"
	// CAPICluster, on a Cluster, is "<namespace>/<name>/<UID>" of the Cluster of Cluster API with the same
	// namespace and name that the hub created it for. The hub deletes only Clusters with this annotation together with
	// those of Cluster API.
	CAPICluster = "fleet.cattle.io/capi-cluster"
	// CAPILabels, on a Cluster with CAPICluster, lists the keys of the labels that the hub copied
	// from the Cluster of Cluster API, separated by commas. The hub changes no other labels.
	CAPILabels = "fleet.cattle.io/capi-labels"
	// CAPIValues, on a Cluster with CAPICluster, is a hash of spec.templateValues.capi as the hub wrote
	// it. Values with another hash are a user's, and are not changed.
	CAPIValues = "fleet.cattle.io/capi-values"
	// CAPIKept, on a Cluster with CAPICluster, is the reason for which the hub keeps the Cluster when
	// the Cluster of Cluster API is deleted.
	CAPIKept = "fleet.cattle.io/capi-kept"
	// CAPIImported, on a Cluster that names the kubeconfig Secret of a Cluster of Cluster API but was not
	// created for it, is the UID of the latter. The hub changes nothing else of the Cluster.
	CAPIImported = "fleet.cattle.io/capi-imported"
	// CAPIJoin, with value "agent" on a Cluster of Cluster API, lets the hub create a Secret with a
	// manifest of the agent for the bootstrap provider, instead of importing the cluster with its kubeconfig. On a Cluster,
	// it records that the hub does so.
	CAPIJoin = "fleet.cattle.io/capi-join"
)

// Annotations on the chart stored with a Helm release. With them, the agent recognizes its releases.
const (
	// DeploymentID is the deployment ID of the release.
	DeploymentID = "fleet.cattle.io/deployment-id"
	// TargetNamespace is the namespace that must contain every object of the release, if set.
	TargetNamespace = "fleet.cattle.io/target-namespace"
)

// An annotation on the Secret of a Helm release.
const (
	// ReleaseSeal is a seal that only the agent that stored the release can create.
	ReleaseSeal = "fleet.cattle.io/release-seal"
)
