package v1alpha1

import (
	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Bundle is a set of resources, the Clusters they go to, and how. Fleet turns it
// into one BundleDeployment for each Cluster.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=bundles
// +kubebuilder:subresource:status
// +kubebuilder:metadata:annotations="helm.sh/resource-policy=keep"
// +kubebuilder:printcolumn:name="BundleDeployments-Ready",type=string,JSONPath=`.status.display.readyClusters`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
type Bundle struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec BundleSpec `json:"spec,omitempty"`
	// +optional
	Status BundleStatus `json:"status,omitempty"`
}

// BundleList is a list of Bundles.
//
// +kubebuilder:object:root=true
type BundleList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Bundle `json:"items"`
}

// BundleSpec is what is deployed, where and how.
type BundleSpec struct {
	BundleDeploymentOptions `json:",inline"`

	// Paused computes new deployments but does not roll them out.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// RolloutStrategy limits how many clusters are changed at a time.
	// +optional
	// +nullable
	RolloutStrategy *RolloutStrategy `json:"rolloutStrategy,omitempty"`

	// Resources are the files to deploy.
	// +optional
	// +nullable
	Resources []BundleResource `json:"resources,omitempty"`

	// TargetCustomizationMode says which targets customise a cluster's deployment:
	// the first that matches, or all.
	// +optional
	// +kubebuilder:default=FirstMatch
	TargetCustomizationMode TargetCustomizationMode `json:"targetCustomizationMode,omitempty"`

	// Targets pick clusters, and customise the deployment there.
	// +optional
	Targets []BundleTarget `json:"targets,omitempty"`

	// TargetRestrictions, when there are any, must pick a cluster as well before a
	// target takes effect.
	// +optional
	TargetRestrictions []BundleTargetRestriction `json:"targetRestrictions,omitempty"`

	// DependsOn names Bundles that must be deployed first.
	// +optional
	// +nullable
	DependsOn []BundleRef `json:"dependsOn,omitempty"`

	// ContentsID is set when the resources are in an OCI registry instead.
	// +optional
	// +nullable
	ContentsID string `json:"contentsId,omitempty"`

	// HelmOpOptions is set when the resources are a chart that the agent fetches.
	// +optional
	// +nullable
	HelmOpOptions *BundleHelmOptions `json:"helmOpOptions,omitempty"`

	// ValuesHash is the hash of the Secret that holds the Helm values.
	// +optional
	ValuesHash string `json:"valuesHash,omitempty"`
}

// TargetCustomizationMode says which matching targets customise a deployment.
//
// +kubebuilder:validation:Enum=FirstMatch;AllMatches
type TargetCustomizationMode string

const (
	// TargetCustomizationFirstMatch uses the first target that matches. The default.
	TargetCustomizationFirstMatch TargetCustomizationMode = "FirstMatch"
	// TargetCustomizationAllMatches merges all targets that match, in their order.
	TargetCustomizationAllMatches TargetCustomizationMode = "AllMatches"
)

// BundleResource is one file.
type BundleResource struct {
	// Name is the file's path.
	// +optional
	// +nullable
	Name string `json:"name,omitempty"`

	// Content is the file's text, encoded as Encoding says.
	// +optional
	// +nullable
	Content string `json:"content,omitempty"`

	// Encoding is empty, base64, or base64+gz.
	// +optional
	// +nullable
	Encoding string `json:"encoding,omitempty"`
}

// RolloutStrategy limits how many clusters are changed at a time. Numbers may be
// percentages.
type RolloutStrategy struct {
	// MaxUnavailable is how many clusters may be unready during a rollout; 100% if absent.
	// +optional
	// +nullable
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// MaxUnavailablePartitions is how many partitions may be unready; 0 if absent.
	// +optional
	// +nullable
	MaxUnavailablePartitions *intstr.IntOrString `json:"maxUnavailablePartitions,omitempty"`

	// AutoPartitionSize is how many clusters make a partition when none are given;
	// 25% if absent.
	// +optional
	// +nullable
	AutoPartitionSize *intstr.IntOrString `json:"autoPartitionSize,omitempty"`

	// AutoPartitionThreshold is how many clusters there must be before they are
	// partitioned; 200 if absent.
	// +optional
	// +nullable
	AutoPartitionThreshold *int `json:"autoPartitionThreshold,omitempty"`

	// MaxNew is how many clusters get their first deployment at a time.
	// +optional
	// +nullable
	MaxNew *int `json:"maxNew,omitempty"`

	// Partitions are rolled out one after the other.
	// +optional
	// +nullable
	Partitions []Partition `json:"partitions,omitempty"`
}

// Partition is a set of clusters that are rolled out together.
type Partition struct {
	// +optional
	// +nullable
	Name string `json:"name,omitempty"`

	// MaxUnavailable is how many of the partition's clusters may be unready.
	// +optional
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// +optional
	ClusterName string `json:"clusterName,omitempty"`

	// +optional
	ClusterSelector *metav1.LabelSelector `json:"clusterSelector,omitempty"`

	// +optional
	ClusterGroup string `json:"clusterGroup,omitempty"`

	// +optional
	// +nullable
	ClusterGroupSelector *metav1.LabelSelector `json:"clusterGroupSelector,omitempty"`
}

// BundleTarget picks clusters, and customises the deployment there.
type BundleTarget struct {
	BundleDeploymentOptions `json:",inline"`

	// Name names the target; the key of its values in the values Secret.
	// +optional
	Name string `json:"name,omitempty"`

	// ClusterName picks the Cluster of this name.
	// +optional
	// +nullable
	ClusterName string `json:"clusterName,omitempty"`

	// ClusterSelector picks Clusters by label; an empty one picks all.
	// +optional
	// +nullable
	ClusterSelector *metav1.LabelSelector `json:"clusterSelector,omitempty"`

	// ClusterGroup picks the Clusters of the ClusterGroup of this name.
	// +optional
	// +nullable
	ClusterGroup string `json:"clusterGroup,omitempty"`

	// ClusterGroupSelector picks the Clusters of ClusterGroups by the groups' labels.
	// +optional
	// +nullable
	ClusterGroupSelector *metav1.LabelSelector `json:"clusterGroupSelector,omitempty"`

	// DoNotDeploy excludes the clusters this target picks.
	// +optional
	DoNotDeploy bool `json:"doNotDeploy,omitempty"`

	// NamespaceLabels are the labels of the release's namespace. In JSON this field
	// stands for the one of the same name in the options.
	// +optional
	// +nullable
	NamespaceLabels map[string]string `json:"namespaceLabels,omitempty"`

	// NamespaceAnnotations are the annotations of the release's namespace. In JSON
	// this field stands for the one of the same name in the options.
	// +optional
	// +nullable
	NamespaceAnnotations map[string]string `json:"namespaceAnnotations,omitempty"`
}

// BundleTargetRestriction picks clusters, as a BundleTarget does.
type BundleTargetRestriction struct {
	// +optional
	// +nullable
	Name string `json:"name,omitempty"`

	// +optional
	// +nullable
	ClusterName string `json:"clusterName,omitempty"`

	// +optional
	// +nullable
	ClusterSelector *metav1.LabelSelector `json:"clusterSelector,omitempty"`

	// +optional
	// +nullable
	ClusterGroup string `json:"clusterGroup,omitempty"`

	// +optional
	// +nullable
	ClusterGroupSelector *metav1.LabelSelector `json:"clusterGroupSelector,omitempty"`
}

// BundleRef picks Bundles of the same namespace by name or label.
type BundleRef struct {
	// +optional
	// +nullable
	Name string `json:"name,omitempty"`

	// +optional
	// +nullable
	Selector *metav1.LabelSelector `json:"selector,omitempty"`

	// AcceptedStates are the states that satisfy the dependency; empty means Ready only.
	// +optional
	// +nullable
	AcceptedStates []BundleState `json:"acceptedStates,omitempty"`
}

// BundleHelmOptions says how the agent fetches a chart.
type BundleHelmOptions struct {
	// HelmOpSecretName names the Secret with the credentials.
	// +optional
	HelmOpSecretName string `json:"helmOpSecretName,omitempty"`

	// HelmOpInsecureSkipTLSVerify accepts any certificate.
	// +optional
	HelmOpInsecureSkipTLSVerify bool `json:"helmOpInsecureSkipTLSVerify,omitempty"`

	// HelmOpCABundle holds PEM certificates to trust.
	// +optional
	// +nullable
	HelmOpCABundle []byte `json:"helmOpCABundle,omitempty"`
}

// BundleStatus sums up the BundleDeployments of a Bundle.
type BundleStatus struct {
	// Conditions: Ready.
	// +optional
	Conditions []genericcondition.GenericCondition `json:"conditions,omitempty"`

	// Summary counts the BundleDeployments by state.
	// +optional
	Summary BundleSummary `json:"summary,omitempty"`

	// NewlyCreated is how many BundleDeployments the last pass created.
	// +optional
	NewlyCreated int `json:"newlyCreated,omitempty"`

	// Unavailable is how many BundleDeployments are unready or not up to date.
	// +optional
	Unavailable int `json:"unavailable"`

	// UnavailablePartitions is how many partitions are above their limit.
	// +optional
	UnavailablePartitions int `json:"unavailablePartitions"`

	// MaxUnavailable is how many BundleDeployments may be unavailable.
	// +optional
	MaxUnavailable int `json:"maxUnavailable"`

	// MaxUnavailablePartitions is how many partitions may be unavailable.
	// +optional
	MaxUnavailablePartitions int `json:"maxUnavailablePartitions"`

	// Partitions is the rollout, one partition after the other.
	// +optional
	Partitions []PartitionStatus `json:"partitions,omitempty"`

	// Display holds texts for printer columns.
	// +optional
	Display BundleDisplay `json:"display,omitempty"`

	// ResourceKey is no longer filled.
	// +optional
	// +nullable
	ResourceKey []ResourceKey `json:"resourceKey,omitempty"`

	// OCIReference is where the resources are when they are in an OCI registry.
	// +optional
	OCIReference string `json:"ociReference,omitempty"`

	// ObservedGeneration is the generation ResourcesSHA256Sum belongs to.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration"`

	// ResourcesSHA256Sum is the hash of the manifest made of spec.resources, in hexadecimal.
	// +optional
	ResourcesSHA256Sum string `json:"resourcesSha256Sum,omitempty"`
}

// PartitionStatus is the state of one partition's rollout.
type PartitionStatus struct {
	// +optional
	// +nullable
	Name string `json:"name,omitempty"`

	// Count is the number of clusters in the partition.
	// +optional
	Count int `json:"count,omitempty"`

	// MaxUnavailable is how many of them may be unavailable.
	// +optional
	MaxUnavailable int `json:"maxUnavailable,omitempty"`

	// Unavailable is how many of them are.
	// +optional
	Unavailable int `json:"unavailable,omitempty"`

	// Summary counts the partition's BundleDeployments by state.
	// +optional
	Summary BundleSummary `json:"summary,omitempty"`
}

// BundleDisplay holds texts for printer columns.
type BundleDisplay struct {
	// ReadyClusters is "<ready>/<all>".
	// +optional
	// +nullable
	ReadyClusters string `json:"readyClusters,omitempty"`

	// State is the worst state of the BundleDeployments; empty when all are ready.
	// +optional
	// +nullable
	State string `json:"state,omitempty"`
}

// ResourceKey names a resource.
type ResourceKey struct {
	// +optional
	// +nullable
	Kind string `json:"kind,omitempty"`

	// +optional
	// +nullable
	APIVersion string `json:"apiVersion,omitempty"`

	// +optional
	// +nullable
	Namespace string `json:"namespace,omitempty"`

	// +optional
	// +nullable
	Name string `json:"name,omitempty"`
}
