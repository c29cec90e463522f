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
	// LabelClusterManagement, when not empty, says that another manager owns the
	// Cluster or ClusterRegistration: its agent is left alone.
	LabelClusterManagement = "fleet.cattle.io/cluster-management"
	// LabelNonManagedAgent, when present on a Cluster, keeps the agent's own Bundle away.
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
	// LabelContentName is the name of the Content a BundleDeployment uses; it is
	// what references are counted by.
	LabelContentName = "fleet.cattle.io/content-name"
	// LabelBundleDeployment is the name of the BundleDeployment that a Secret or
	// ConfigMap was copied downstream for.
	LabelBundleDeployment = "fleet.cattle.io/bundledeployment"
	// LabelBundleInternalSecret, with value "true", marks Secrets that Fleet copied
	// for its own use.
	LabelBundleInternalSecret = "fleet.cattle.io/bundle-internal-secret"
	// LabelRepoName is the name of the GitRepo a Bundle comes from.
	LabelRepoName = "fleet.cattle.io/repo-name"
	// LabelCommit is the commit a Bundle comes from.
	LabelCommit = "fleet.cattle.io/commit"
	// LabelHelmOpName is the name of the HelmOp a Bundle comes from.
	LabelHelmOpName = "fleet.cattle.io/fleet-helm-name"
	// LabelCreatedByUserID is the ID of the user who made the resource.
	LabelCreatedByUserID = "fleet.cattle.io/created-by-user-id"
	// LabelCreatedByDisplayName is no longer used, and is removed from Bundles.
	LabelCreatedByDisplayName = "fleet.cattle.io/created-by-display-name"
	// LabelShardRef says which shard of the controllers looks after a resource.
	LabelShardRef = "fleet.cattle.io/shard-ref"
	// LabelShardID says which shard a controller's pod is.
	LabelShardID = "fleet.cattle.io/shard-id"
	// LabelShardDefault marks the pod that looks after resources without a shard.
	LabelShardDefault = "fleet.cattle.io/shard-default"
	// LabelBenchmark, with value "true", marks resources made to measure Fleet.
	LabelBenchmark = "fleet.cattle.io/benchmark"
	// LabelClusterDisplayName is the Cluster's name for people.
	LabelClusterDisplayName = "management.cattle.io/cluster-display-name"
	// LabelManagementClusterName is the Cluster's name in the manager it belongs to.
	LabelManagementClusterName = "management.cattle.io/cluster-name"
)

// Annotations.
const (
	// AnnotationCluster, on a cluster's namespace or on an agent's account, is the
	// name of the Cluster.
	AnnotationCluster = "fleet.cattle.io/cluster"
	// AnnotationClusterNamespace, on a cluster's namespace, is the namespace of the Cluster.
	AnnotationClusterNamespace = "fleet.cattle.io/cluster-namespace"
	// AnnotationClusterRegistration, on an agent's account, is the name of the
	// ClusterRegistration it was made for.
	AnnotationClusterRegistration = "fleet.cattle.io/cluster-registration"
	// AnnotationClusterRegistrationNamespace, on an agent's account, is the
	// namespace of that ClusterRegistration.
	AnnotationClusterRegistrationNamespace = "fleet.cattle.io/cluster-registration-namespace"
	// AnnotationVersion, on ConfigMap fleet-controller, is the version the
	// configuration is for; a controller of another version keeps what it has.
	AnnotationVersion = "fleet.cattle.io/version"
	// AnnotationLastSeenAtGrant, on a ClusterRegistration, is the Cluster's
	// status.agent.lastSeen when its credential was handed out. A later heartbeat
	// is the credential's first use. This implementation's own.
	AnnotationLastSeenAtGrant = "fleet.cattle.io/last-seen-at-grant"
	// AnnotationTokenUIDAtGrant, on a ClusterRegistration, is the UID of the
	// ClusterRegistrationToken whose account may read the answer. A token that was
	// deleted and created again under the same name has another UID. This
	// implementation's own.
	AnnotationTokenUIDAtGrant = "fleet.cattle.io/token-uid-at-grant"
	// AnnotationCreatedWithToken, on a Cluster that the hub created for a
	// ClusterRegistration, is the UID of the token that the request names, or
	// "unknown". The Clusters of a token are counted by it. This implementation's
	// own.
	AnnotationCreatedWithToken = "fleet.cattle.io/created-with-token"
	// AnnotationConfirmTakeover, on a Cluster, is the name of the ClusterRegistration
	// that may take the place of the agent the Cluster has. This implementation's own.
	AnnotationConfirmTakeover = "fleet.cattle.io/confirm-takeover"
	// AnnotationPullSecrets, on a Cluster, tells which versions of the hub's
	// pull secrets its agent's namespace has.
	AnnotationPullSecrets = "fleet.cattle.io/pull-secrets"
	// AnnotationWatched, on an agent's Secret fleet-agent and with value "true",
	// says that the agent follows its changes without a restart.
	AnnotationWatched = "fleet.cattle.io/watched"
	// AnnotationHubAddress, on a Cluster, is the hash of the hub's URL and CA
	// that an operator has told its agent.
	AnnotationHubAddress = "fleet.cattle.io/hub-address"
	// AnnotationHubAddressAtGrant, on a ClusterRegistration, is a hash of the
	// hub's URL and CA as configured when it was granted.
	AnnotationHubAddressAtGrant = "fleet.cattle.io/hub-address-at-grant"
	// AnnotationHubUID, on ConfigMap fleet-agent downstream, is the UID of the
	// namespace kube-system of the hub the agent belongs to. Another hub leaves it
	// alone. This implementation's own.
	AnnotationHubUID = "fleet.cattle.io/hub-uid"
	// AnnotationTakeOverAgent, on a Cluster and with value "true", lets the hub
	// replace an agent that another implementation deployed by its own, in place.
	// This implementation's own.
	AnnotationTakeOverAgent = "fleet.cattle.io/take-over-agent"
	// AnnotationAllowedWorkspaces, on a kubeconfig Secret, lists the workspaces
	// whose Clusters may name it beside those of its own namespace, with commas in
	// between; "*" is all of them. This implementation's own.
	AnnotationAllowedWorkspaces = "fleet.cattle.io/allowed-workspaces"
	// AnnotationRolloutRemaining, on a Bundle and with value "true", adds a last
	// partition to those of its rollout strategy, with the Clusters that none of
	// them picks.
	AnnotationRolloutRemaining = "fleet.cattle.io/rollout-remaining-clusters"
	// AnnotationCopiesTold, on a BundleDeployment, is which copies of its downstream
	// resources its agent has been told of: "<kind>/<name>=<resource version of the
	// original>/<that of the copy>", with spaces in between. This implementation's own.
	AnnotationCopiesTold = "fleet.cattle.io/copies-told"
	// AnnotationAcceptBundlesFrom, on the Namespace of a workspace, lists the
	// other workspaces whose Bundles may go to its Clusters by a
	// BundleNamespaceMapping, with commas in between; "*" is all, "none" or nothing
	// is none. Without the annotation all may. This implementation's own.
	AnnotationAcceptBundlesFrom = "fleet.cattle.io/accept-bundles-from"
	// AnnotationPlainValues, on a BundleDeployment, is the hash of Helm values that
	// its Bundle has in plain sight, and in no Secret: the agent may show them when
	// they drift. With another hash than that of the spec it says nothing. This
	// implementation's own.
	AnnotationPlainValues = "fleet.cattle.io/plain-values"
)

// Annotations on the chart stored with a Helm release, by which the agent
// recognises its releases.
const (
	// AnnotationBundleID is the name of the BundleDeployment.
	AnnotationBundleID = "fleet.cattle.io/bundle-id"
	// AnnotationAgentNamespace is the namespace of the agent.
	AnnotationAgentNamespace = "fleet.cattle.io/agent-namespace"
	// AnnotationServiceAccount is the account the release was made under.
	AnnotationServiceAccount = "fleet.cattle.io/service-account"
	// AnnotationKeepResources is "true" when an uninstallation leaves the resources.
	AnnotationKeepResources = "fleet.cattle.io/keep-resources"
	// AnnotationCommit is the commit the resources come from.
	AnnotationCommit = "fleet.cattle.io/commit"
	// AnnotationDeploymentID is the deployment ID the release was made for. This
	// implementation's own.
	AnnotationDeploymentID = "fleet.cattle.io/deployment-id"
	// AnnotationTargetNamespace is the namespace that no object of the release may be
	// outside of, if there is one. This implementation's own.
	AnnotationTargetNamespace = "fleet.cattle.io/target-namespace"
)

// Annotations on the Secret of a Helm release.
const (
	// AnnotationReleaseSeal can be made only by the agent that stored the release.
	// This implementation's own.
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
	// AnnotationSetApplied is what other implementations last applied. This one
	// never writes it: it would show the first bytes of Secrets.
	AnnotationSetApplied = "objectset.rio.cattle.io/applied"
)

// Finalizers.
const (
	// FinalizerCluster lets rights be revoked and BundleDeployments be drained
	// before a Cluster goes.
	FinalizerCluster = "fleet.cattle.io/cluster-finalizer"
	// FinalizerBundle lets the BundleDeployments go before their Bundle.
	FinalizerBundle = "fleet.cattle.io/bundle-finalizer"
	// FinalizerBundleDeployment lets the agent uninstall before a BundleDeployment goes.
	FinalizerBundleDeployment = "fleet.cattle.io/bundle-deployment-finalizer"
	// FinalizerGitRepo lets the Bundles go before their GitRepo.
	FinalizerGitRepo = "fleet.cattle.io/gitrepo-finalizer"
	// FinalizerHelmOp lets the Bundle go before its HelmOp.
	FinalizerHelmOp = "fleet.cattle.io/helmop-finalizer"
	// FinalizerSchedule lets the Clusters be released before their Schedule goes.
	FinalizerSchedule = "fleet.cattle.io/schedule-finalizer"
)

// Types of Secrets in the delivery of Bundles. Those of the registration are in
// internal/rules.
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
