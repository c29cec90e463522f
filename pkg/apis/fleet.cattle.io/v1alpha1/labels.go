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
	// LabelCreatedByDisplayName is no longer used, and is removed from Bundles.
	LabelCreatedByDisplayName = "fleet.cattle.io/created-by-display-name"
	// LabelShardRef is the shard of the controllers that reconciles a resource.
	LabelShardRef = "fleet.cattle.io/shard-ref"
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
	// AnnotationRolloutRemaining, with value "true" on a Bundle, adds a last partition to its rollout strategy, with
	// the Clusters that are in no other partition.
	AnnotationRolloutRemaining = "fleet.cattle.io/rollout-remaining-clusters"
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
)

// Types of Secrets in the delivery of Bundles. Those of the registration are in internal/rules.
const (
	// SecretTypeBundleValues holds the Helm values of a Bundle, one key for each target.
	SecretTypeBundleValues = "fleet.cattle.io/bundle-values/v1alpha1"
	// SecretTypeBundleDeployment holds the Helm values of a BundleDeployment.
	SecretTypeBundleDeployment = "fleet.cattle.io/bundle-deployment/v1alpha1"
	// SecretTypeOCIStorage holds the credentials of an OCI registry with resources.
	SecretTypeOCIStorage = "fleet.cattle.io/bundle-oci-storage/v1alpha1"
)
