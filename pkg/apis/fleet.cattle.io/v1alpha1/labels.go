package v1alpha1

// Labels. Other implementations read and write the same keys: none may change.
const (
	// LabelManaged, with value "true", marks namespaces, accounts, roles, bindings,
	// Secrets and BundleDeployments made by Fleet; orphans among them are removed.
	LabelManaged = "fleet.cattle.io/managed"
	// LabelCluster is the name of the Cluster a BundleDeployment, a credential
	// Secret or a Cluster made by a registration belongs to.
	LabelCluster = "fleet.cattle.io/cluster"
	// LabelClusterNamespace is the namespace of the Cluster a BundleDeployment belongs to.
	LabelClusterNamespace = "fleet.cattle.io/cluster-namespace"
	// LabelRegistrationToken is the name of the ClusterRegistrationToken a
	// ClusterRegistration was made with. The agent sets it; it may be empty.
	LabelRegistrationToken = "fleet.cattle.io/registration-token"
	// LabelClusterManagement, when not empty, means that another manager owns the Cluster or ClusterRegistration. Its
	// agent is not changed.
	LabelClusterManagement = "fleet.cattle.io/cluster-management"
	// LabelNonManagedAgent, when present on a Cluster, prevents a Bundle for its agent.
	LabelNonManagedAgent = "fleet.cattle.io/non-managed-agent"
	// LabelCreatedByAgentPod is the name of the pod a registration came from. It is
	// the only label with Fleet's prefix that an agent may ask for.
	LabelCreatedByAgentPod = "fleet.cattle.io/created-by-agent-pod"
	// LabelAgentNode, with value "true", marks nodes an agent prefers to run on.
	LabelAgentNode = "fleet.cattle.io/agent"
	// LabelBundleName is the name of the Bundle a BundleDeployment was made from.
	LabelBundleName = "fleet.cattle.io/bundle-name"
	// LabelBundleNamespace is the namespace of that Bundle.
	LabelBundleNamespace = "fleet.cattle.io/bundle-namespace"
	// LabelContentName is the name of the Content that a BundleDeployment uses. References are counted by this label.
	LabelContentName = "fleet.cattle.io/content-name"
	// LabelBundleDeployment is the name of the BundleDeployment that a Secret or ConfigMap was copied downstream for.
	LabelBundleDeployment = "fleet.cattle.io/bundledeployment"
	// LabelBundleInternalSecret, with value "true", marks Secrets that Fleet copied for its own use.
	LabelBundleInternalSecret = "fleet.cattle.io/bundle-internal-secret"
	// LabelRepoName is the name of the GitRepo a Bundle comes from.
	LabelRepoName = "fleet.cattle.io/repo-name"
	// LabelCommit is the commit a Bundle comes from.
	LabelCommit = "fleet.cattle.io/commit"
	// LabelHelmOpName is the name of the HelmOp a Bundle comes from.
	LabelHelmOpName = "fleet.cattle.io/fleet-helm-name"
	// LabelUnregistering, on the namespace of an agent, is a hash of the Cluster for which the command line removes the
	// agent. With it, a second run continues. Not in Rancher Fleet.
	LabelUnregistering = "fleet.cattle.io/unregistering"
	// LabelCreatedByUserID is the ID of the user who made the resource.
	LabelCreatedByUserID = "fleet.cattle.io/created-by-user-id"
	// LabelCreatedByDisplayName is no longer used, and is removed from Bundles.
	LabelCreatedByDisplayName = "fleet.cattle.io/created-by-display-name"
	// LabelShardRef is the shard of the controllers that reconciles a resource.
	LabelShardRef = "fleet.cattle.io/shard-ref"
	// LabelShardID is the shard of a controller's pod.
	LabelShardID = "fleet.cattle.io/shard-id"
	// LabelShardDefault marks the pod that reconciles resources without a shard.
	LabelShardDefault = "fleet.cattle.io/shard-default"
	// LabelBenchmark, with value "true", marks resources made to measure Fleet.
	LabelBenchmark = "fleet.cattle.io/benchmark"
	// LabelCAPIClass, on a Cluster that the hub created for Cluster API and on the ClusterGroup that selects it, identifies
	// the ClusterClass. Not in Rancher Fleet.
	LabelCAPIClass = "fleet.cattle.io/capi-class"
	// LabelTokenUID, on a Cluster, is the UID of the ClusterRegistrationToken that its agent joined with. Not in Rancher
	// Fleet.
	LabelTokenUID = "fleet.cattle.io/token-uid"
	// LabelAnswers, on the answer to a ClusterRegistration and on the Role and RoleBinding that make it readable, is the UID
	// of the ClusterRegistration. Not in Rancher Fleet.
	LabelAnswers = "fleet.cattle.io/answers"
	// LabelClusterDisplayName is the Cluster's display name.
	LabelClusterDisplayName = "management.cattle.io/cluster-display-name"
	// LabelManagementClusterName is the Cluster's name in the manager it belongs to.
	LabelManagementClusterName = "management.cattle.io/cluster-name"
)

// Annotations.
const (
	// AnnotationCluster, on a cluster's namespace or on an agent's account, is the name of the Cluster.
	AnnotationCluster = "fleet.cattle.io/cluster"
	// AnnotationClusterNamespace, on a cluster's namespace, is the namespace of the Cluster.
	AnnotationClusterNamespace = "fleet.cattle.io/cluster-namespace"
	// AnnotationClusterRegistration, on an agent's account, is the name of the ClusterRegistration it was made for.
	AnnotationClusterRegistration = "fleet.cattle.io/cluster-registration"
	// AnnotationClusterRegistrationNamespace, on an agent's account, is the namespace of that ClusterRegistration.
	AnnotationClusterRegistrationNamespace = "fleet.cattle.io/cluster-registration-namespace"
	// AnnotationVersion, on ConfigMap fleet-controller, is the version of the configuration. A controller of another
	// version keeps its current configuration.
	AnnotationVersion = "fleet.cattle.io/version"
	// AnnotationLastSeenAtGrant, on a ClusterRegistration, is the Cluster's status.agent.lastSeen at the time the
	// credential was written and, after a space, its status.agent.credentialExpires, if set. Another heartbeat is the
	// first use of the credential. Not in Rancher Fleet.
	AnnotationLastSeenAtGrant = "fleet.cattle.io/last-seen-at-grant"
	// AnnotationTokenUIDAtGrant, on a ClusterRegistration, is the UID of the ClusterRegistrationToken whose account
	// may read the credential. A token that was deleted and created again with the same name has another UID. Not in
	// Rancher Fleet.
	AnnotationTokenUIDAtGrant = "fleet.cattle.io/token-uid-at-grant"
	// AnnotationAgentKey, on a ClusterRegistration, is the public key of the agent, and on a Cluster the public key of
	// its registered agent. Not in Rancher Fleet.
	AnnotationAgentKey = "fleet.cattle.io/agent-key"
	// AnnotationAgentProof, on a ClusterRegistration, is the proof that the owner of the agent's key made the request.
	// Not in Rancher Fleet.
	AnnotationAgentProof = "fleet.cattle.io/agent-proof"
	// AnnotationAgentTicket, on a ClusterRegistration, is the ticket with which an agent returns that has lost its
	// credential. Not in Rancher Fleet.
	AnnotationAgentTicket = "fleet.cattle.io/agent-ticket"
	// AnnotationCredentialAccount, on an encrypted credential Secret, is the UID of the account of the credential. Not in
	// Rancher Fleet.
	AnnotationCredentialAccount = "fleet.cattle.io/credential-account"
	// AnnotationRecoveredBy, on a Cluster, names the last pods of its agent that have recovered a credential, with the
	// times. Not in Rancher Fleet.
	AnnotationRecoveredBy = "fleet.cattle.io/recovered-by"
	// AnnotationAgentKeyAtGrant, on a ClusterRegistration, is the public key whose proof the hub has verified. Not in
	// Rancher Fleet.
	AnnotationAgentKeyAtGrant = "fleet.cattle.io/agent-key-at-grant"
	// AnnotationAgentRenews, with value "true" on a ClusterRegistration, announces that the agent renews its token. Not in
	// Rancher Fleet.
	AnnotationAgentRenews = "fleet.cattle.io/agent-renews"
	// AnnotationLifetimeAtGrant, on a ClusterRegistration, is the lifetime of the credential that was granted. It is absent
	// if the credential does not expire. Not in Rancher Fleet.
	AnnotationLifetimeAtGrant = "fleet.cattle.io/lifetime-at-grant"
	// AnnotationRevokeCredential, on a Cluster, orders the hub to revoke the credential of its agent. Each new value is
	// another order. Not in Rancher Fleet.
	AnnotationRevokeCredential = "fleet.cattle.io/revoke-credential"
	// AnnotationCredentialRevoked, on a Cluster, is the last value of AnnotationRevokeCredential that the hub has carried
	// out. Not in Rancher Fleet.
	AnnotationCredentialRevoked = "fleet.cattle.io/credential-revoked"
	// AnnotationRevokeKey, on a Cluster, orders the hub to revoke the credential of its agent and to block its key. Each
	// new value is another order. Not in Rancher Fleet.
	AnnotationRevokeKey = "fleet.cattle.io/revoke-key"
	// AnnotationKeyRevoked, on a Cluster, is the last value of AnnotationRevokeKey that the hub has carried out. Not in
	// Rancher Fleet.
	AnnotationKeyRevoked = "fleet.cattle.io/key-revoked"
	// AnnotationBlockedKey, on a Cluster, is the key that was blocked last. Until another key is pinned, only a
	// confirmation lets an agent return. Not in Rancher Fleet.
	AnnotationBlockedKey = "fleet.cattle.io/blocked-key"
	// AnnotationTicketsSince, on a Cluster, is the time (RFC 3339) when an agent without a key replaced one with a key.
	// Tickets that were signed before do not let that agent return. Not in Rancher Fleet.
	AnnotationTicketsSince = "fleet.cattle.io/tickets-since"
	// AnnotationReplacedKey, on a Cluster, is the key of the agent that an agent without a key replaced last. It is pinned
	// again only when a request with it is granted. Not in Rancher Fleet.
	AnnotationReplacedKey = "fleet.cattle.io/replaced-key"
	// AnnotationRevokeDerived, with value "true" on a ClusterRegistrationToken, revokes the key of every Cluster that
	// joined with it, and then deletes the token. Not in Rancher Fleet.
	AnnotationRevokeDerived = "fleet.cattle.io/revoke-derived"
	// AnnotationCreatedWithToken, on a Cluster that the hub created for a ClusterRegistration, is the UID of the
	// token that the request names, or "unknown". The Clusters of a token are counted by it. Not in Rancher Fleet.
	AnnotationCreatedWithToken = "fleet.cattle.io/created-with-token"
	// AnnotationTokenForCluster, on a ClusterRegistrationToken, is the name of the Cluster for which the command line or
	// the hub created the token. Not in Rancher Fleet.
	AnnotationTokenForCluster = "fleet.cattle.io/token-for-cluster"
	// AnnotationTokenForClientID, on a ClusterRegistrationToken, is the only client ID that may register with the token.
	// Without the annotation, any may. Not in Rancher Fleet.
	AnnotationTokenForClientID = "fleet.cattle.io/token-for-client-id"
	// AnnotationConfirmTakeover, on a Cluster, is the name of the ClusterRegistration that may replace the Cluster's
	// current agent. Not in Rancher Fleet.
	AnnotationConfirmTakeover = "fleet.cattle.io/confirm-takeover"
	// AnnotationPullSecrets, on a Cluster, records the versions of the hub's pull secrets that were copied to its
	// agent's namespace.
	AnnotationPullSecrets = "fleet.cattle.io/pull-secrets"
	// AnnotationWatched, with value "true" on an agent's Secret fleet-agent, means that the agent watches the Secret
	// and needs no restart after a change.
	AnnotationWatched = "fleet.cattle.io/watched"
	// AnnotationHubAddress, on a Cluster, is the hash of the hub's URL and CA that an operator has configured in its
	// agent.
	AnnotationHubAddress = "fleet.cattle.io/hub-address"
	// AnnotationHubAddressAtGrant, on a ClusterRegistration, is a hash of the
	// hub's URL and CA as configured when it was granted.
	AnnotationHubAddressAtGrant = "fleet.cattle.io/hub-address-at-grant"
	// AnnotationHubUID, on ConfigMap fleet-agent downstream, is the UID of the namespace kube-system of the agent's
	// hub. Other hubs do not change this agent. Not in Rancher Fleet.
	AnnotationHubUID = "fleet.cattle.io/hub-uid"
	// AnnotationSystemUID, on the namespace of a Cluster on the hub, is the UID of the namespace kube-system of that
	// cluster, as the hub read it with the kubeconfig. It tells whether two Clusters are the same cluster. Not in
	// Rancher Fleet.
	AnnotationSystemUID = "fleet.cattle.io/system-uid"
	// AnnotationTakeOverAgent, with value "true" on a Cluster, lets the hub replace an agent of another Fleet
	// implementation in place. Not in Rancher Fleet.
	AnnotationTakeOverAgent = "fleet.cattle.io/take-over-agent"
	// AnnotationAllowedWorkspaces, on a kubeconfig Secret, lists further workspaces whose Clusters may reference it,
	// separated by commas. "*" means all. The Secret's own namespace is always allowed. Not in Rancher Fleet.
	AnnotationAllowedWorkspaces = "fleet.cattle.io/allowed-workspaces"
	// AnnotationRolloutRemaining, with value "true" on a Bundle, adds a last partition to its rollout strategy, with
	// the Clusters that are in no other partition.
	AnnotationRolloutRemaining = "fleet.cattle.io/rollout-remaining-clusters"
	// AnnotationCopiesTold, on a BundleDeployment, records which copies of its downstream resources its agent has
	// been notified of: "<kind>/<name>=<resource version of the original>/<resource version of the copy>", separated
	// by spaces. Not in Rancher Fleet.
	AnnotationCopiesTold = "fleet.cattle.io/copies-told"
	// AnnotationCopiedFrom, on the copy of a downstream resource in a cluster's namespace, is the workspace of its original.
	// Agents do not use the copy for Bundles of other workspaces. Not in Rancher Fleet.
	AnnotationCopiedFrom = "fleet.cattle.io/copied-from"
	// AnnotationAcceptBundlesFrom, on the Namespace of a workspace, lists the other workspaces whose Bundles may
	// target its Clusters through a BundleNamespaceMapping, separated by commas. "*" means all. "none" or an empty
	// value means none. Without the annotation, all may. Not in Rancher Fleet.
	AnnotationAcceptBundlesFrom = "fleet.cattle.io/accept-bundles-from"
	// AnnotationPlainValues, on a BundleDeployment, is the hash of Helm values that are in its Bundle as plain text
	// and in no Secret. The agent may show them when they drift. If the hash differs from that of the spec, the
	// annotation has no effect. Not in Rancher Fleet.
	AnnotationPlainValues = "fleet.cattle.io/plain-values"
	// AnnotationCAPICluster, on a Cluster, is "<namespace>/<name>/<UID>" of the Cluster of Cluster API with the same
	// namespace and name that the hub created it for. The hub deletes only Clusters with this annotation together with
	// those of Cluster API. Not in Rancher Fleet.
	AnnotationCAPICluster = "fleet.cattle.io/capi-cluster"
	// AnnotationCAPILabels, on a Cluster with AnnotationCAPICluster, lists the keys of the labels that the hub copied
	// from the Cluster of Cluster API, separated by commas. The hub changes no other labels. Not in Rancher Fleet.
	AnnotationCAPILabels = "fleet.cattle.io/capi-labels"
	// AnnotationCAPIValues, on a Cluster with AnnotationCAPICluster, is a hash of spec.templateValues.capi as the hub wrote
	// it. Values with another hash are a user's, and are not changed. Not in Rancher Fleet.
	AnnotationCAPIValues = "fleet.cattle.io/capi-values"
	// AnnotationCAPIKept, on a Cluster with AnnotationCAPICluster, is the reason for which the hub keeps the Cluster when
	// the Cluster of Cluster API is deleted. Not in Rancher Fleet.
	AnnotationCAPIKept = "fleet.cattle.io/capi-kept"
	// AnnotationCAPIImported, on a Cluster that names the kubeconfig Secret of a Cluster of Cluster API but was not
	// created for it, is the UID of the latter. The hub changes nothing else of the Cluster. Not in Rancher Fleet.
	AnnotationCAPIImported = "fleet.cattle.io/capi-imported"
	// AnnotationCAPIJoin, with value "agent" on a Cluster of Cluster API, lets the hub create a Secret with a
	// manifest of the agent for the bootstrap provider, instead of importing the cluster with its kubeconfig. On a Cluster,
	// it records that the hub does so. Not in Rancher Fleet.
	AnnotationCAPIJoin = "fleet.cattle.io/capi-join"
)

// Annotations on the chart stored with a Helm release. With them, the agent recognizes its releases.
const (
	// AnnotationBundleID is the name of the BundleDeployment.
	AnnotationBundleID = "fleet.cattle.io/bundle-id"
	// AnnotationAgentNamespace is the namespace of the agent.
	AnnotationAgentNamespace = "fleet.cattle.io/agent-namespace"
	// AnnotationServiceAccount is the account with which the release was deployed.
	AnnotationServiceAccount = "fleet.cattle.io/service-account"
	// AnnotationKeepResources is "true" if uninstalling keeps the resources.
	AnnotationKeepResources = "fleet.cattle.io/keep-resources"
	// AnnotationCommit is the commit the resources come from.
	AnnotationCommit = "fleet.cattle.io/commit"
	// AnnotationDeploymentID is the deployment ID of the release. Not in Rancher Fleet.
	AnnotationDeploymentID = "fleet.cattle.io/deployment-id"
	// AnnotationTargetNamespace is the namespace that must contain every object of the release, if set. Not in
	// Rancher Fleet.
	AnnotationTargetNamespace = "fleet.cattle.io/target-namespace"
)

// Annotations, on the Secret of a Helm release.
const (
	// AnnotationReleaseSeal is a seal that only the agent that stored the release can create. Not in Rancher Fleet.
	AnnotationReleaseSeal = "fleet.cattle.io/release-seal"
)

// Metadata of objects that are written as a set: the label finds the members, the
// annotations say whose they are. See SetHash in internal/protocol/names.
const (
	// LabelSetHash is the hash of the set's ID and owner.
	LabelSetHash = "objectset.rio.cattle.io/hash"
	// LabelSetPrune, with value "false", keeps an object that left its set.
	LabelSetPrune = "objectset.rio.cattle.io/prune"
	// AnnotationSetID is the set's ID.
	AnnotationSetID = "objectset.rio.cattle.io/id"
	// AnnotationSetOwnerGVK is the owner's kind, as "<group>/<version>, Kind=<kind>".
	AnnotationSetOwnerGVK = "objectset.rio.cattle.io/owner-gvk"
	// AnnotationSetOwnerName is the owner's name.
	AnnotationSetOwnerName = "objectset.rio.cattle.io/owner-name"
	// AnnotationSetOwnerNamespace is the owner's namespace.
	AnnotationSetOwnerNamespace = "objectset.rio.cattle.io/owner-namespace"
	// AnnotationSetApplied is the object as last applied by Rancher Fleet. This project never writes it, because it
	// would contain the first bytes of Secrets.
	AnnotationSetApplied = "objectset.rio.cattle.io/applied"
)

// Finalizers.
const (
	// FinalizerCluster delays the deletion of a Cluster until its rights are revoked and its BundleDeployments are
	// gone.
	FinalizerCluster = "fleet.cattle.io/cluster-finalizer"
	// FinalizerBundle delays the deletion of a Bundle until its BundleDeployments are gone.
	FinalizerBundle = "fleet.cattle.io/bundle-finalizer"
	// FinalizerBundleDeployment delays the deletion of a BundleDeployment until the agent has uninstalled it.
	FinalizerBundleDeployment = "fleet.cattle.io/bundle-deployment-finalizer"
	// FinalizerGitRepo delays the deletion of a GitRepo until its Bundles are gone.
	FinalizerGitRepo = "fleet.cattle.io/gitrepo-finalizer"
	// FinalizerHelmOp delays the deletion of a HelmOp until its Bundle is gone.
	FinalizerHelmOp = "fleet.cattle.io/helmop-finalizer"
	// FinalizerSchedule lets the Clusters be released before their Schedule goes.
	FinalizerSchedule = "fleet.cattle.io/schedule-finalizer"
)

// Types of Secrets in the delivery of Bundles. Those of the registration are in internal/rules.
const (
	// SecretTypeBundleValues holds the Helm values of a Bundle, one key for each target.
	SecretTypeBundleValues = "fleet.cattle.io/bundle-values/v1alpha1"
	// SecretTypeBundleDeployment holds the Helm values of a BundleDeployment.
	SecretTypeBundleDeployment = "fleet.cattle.io/bundle-deployment/v1alpha1"
	// SecretTypeOCIStorage holds the credentials of an OCI registry with resources.
	SecretTypeOCIStorage = "fleet.cattle.io/bundle-oci-storage/v1alpha1"
	// SecretTypeHelmOpsAccess holds the credentials of a chart repository.
	SecretTypeHelmOpsAccess = "fleet.cattle.io/bundle-helmops-access/v1alpha1"
)
