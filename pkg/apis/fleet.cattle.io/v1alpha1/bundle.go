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

	Spec   BundleSpec   `json:"spec,omitempty"`
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

// BundleSpec defines what is deployed, where and how.
type BundleSpec struct {
	BundleDeploymentOptions `json:",inline"`

	// Paused computes new deployments but does not roll them out.
	Paused bool `json:"paused,omitempty"`

	// RolloutStrategy limits how many clusters are changed at a time.
	// +nullable
	RolloutStrategy *RolloutStrategy `json:"rolloutStrategy,omitempty"`

	// Resources are the files to deploy.
	// +nullable
	Resources []BundleResource `json:"resources,omitempty"`

	// ResourcesHash is the hash of the manifest made of Resources, in hexadecimal. Only caches set it, in place of
	// Resources. It is never stored.
	ResourcesHash string `json:"-"`

	// TargetCustomizationMode selects which targets customize a cluster's deployment: the first that matches, or all.
	// +kubebuilder:default=FirstMatch
	TargetCustomizationMode TargetCustomizationMode `json:"targetCustomizationMode,omitempty"`

	// Targets pick clusters, and customise the deployment there.
	Targets []BundleTarget `json:"targets,omitempty"`

	// TargetRestrictions, when there are any, must pick a cluster as well before a target takes effect.
	TargetRestrictions []BundleTargetRestriction `json:"targetRestrictions,omitempty"`

	// DependsOn names Bundles that must be deployed first.
	// +nullable
	DependsOn []BundleRef `json:"dependsOn,omitempty"`

	// ContentsID is set when the resources are in an OCI registry instead.
	// +nullable
	ContentsID string `json:"contentsId,omitempty"`

	// HelmOpOptions is set when the resources are a chart that the agent fetches.
	// +nullable
	HelmOpOptions *BundleHelmOptions `json:"helmOpOptions,omitempty"`

	// ValuesHash is the hash of the Secret that holds the Helm values.
	ValuesHash string `json:"valuesHash,omitempty"`
}

// BundleResource is one file.
type BundleResource struct {
	// Name is the file's path.
	// +nullable
	Name string `json:"name,omitempty"`

	// Content is the file's text, encoded as set in Encoding.
	// +nullable
	Content string `json:"content,omitempty"`

	// Encoding is empty, base64, or base64+gz.
	// +nullable
	Encoding string `json:"encoding,omitempty"`
}

// RolloutStrategy limits how many clusters are changed at a time. Numbers may be percentages.
type RolloutStrategy struct {
	// MaxUnavailable is how many clusters may be unready during a rollout; 100% if absent.
	// +nullable
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// MaxUnavailablePartitions is how many partitions may be unready; 0 if absent.
	// +nullable
	MaxUnavailablePartitions *intstr.IntOrString `json:"maxUnavailablePartitions,omitempty"`

	// AutoPartitionSize is how many clusters make a partition when none are given; 25% if absent.
	// +nullable
	AutoPartitionSize *intstr.IntOrString `json:"autoPartitionSize,omitempty"`

	// AutoPartitionThreshold is how many clusters there must be before they are partitioned; 200 if absent.
	// +nullable
	AutoPartitionThreshold *int `json:"autoPartitionThreshold,omitempty"`

	// MaxNew is how many clusters get their first deployment at a time.
	// +nullable
	MaxNew *int `json:"maxNew,omitempty"`

	// Partitions are rolled out one after the other.
	// +nullable
	Partitions []Partition `json:"partitions,omitempty"`
}

// Partition is a set of clusters that are rolled out together.
type Partition struct {
	// +nullable
	Name string `json:"name,omitempty"`

	// MaxUnavailable is how many of the partition's clusters may be unready.
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	ClusterName     string                `json:"clusterName,omitempty"`
	ClusterSelector *metav1.LabelSelector `json:"clusterSelector,omitempty"`
	ClusterGroup    string                `json:"clusterGroup,omitempty"`
	// +nullable
	ClusterGroupSelector *metav1.LabelSelector `json:"clusterGroupSelector,omitempty"`
}

// BundleRef picks Bundles of the same namespace by name or label.
type BundleRef struct {
	// +nullable
	Name string `json:"name,omitempty"`
	// +nullable
	Selector *metav1.LabelSelector `json:"selector,omitempty"`

	// AcceptedStates are the states that satisfy the dependency; empty means Ready only.
	// +nullable
	AcceptedStates []BundleState `json:"acceptedStates,omitempty"`
}

// BundleHelmOptions configures how the agent downloads a chart.
type BundleHelmOptions struct {
	// HelmOpSecretName names the Secret with the credentials.
	HelmOpSecretName string `json:"helmOpSecretName,omitempty"`

	// HelmOpInsecureSkipTLSVerify accepts any certificate.
	HelmOpInsecureSkipTLSVerify bool `json:"helmOpInsecureSkipTLSVerify,omitempty"`

	// HelmOpCABundle holds PEM certificates to trust.
	// +nullable
	HelmOpCABundle []byte `json:"helmOpCABundle,omitempty"`
}

// BundleStatus summarizes the BundleDeployments of a Bundle.
type BundleStatus struct {
	// Conditions: Ready.
	Conditions []genericcondition.GenericCondition `json:"conditions,omitempty"`

	// Summary counts the BundleDeployments by state.
	// +structType=atomic
	Summary BundleSummary `json:"summary,omitempty"`

	// NewlyCreated is always 0: it counts what a pass over the Bundle creates while
	// the pass goes on, and a status is written between passes.
	NewlyCreated int `json:"newlyCreated,omitempty"`

	// Unavailable is how many BundleDeployments are unready or not up to date.
	Unavailable int `json:"unavailable"`

	// Unreachable is the number of clusters whose agents do not report. Their BundleDeployments count neither as
	// unavailable nor as outdated, and are updated when the agents report again.
	Unreachable int `json:"unreachable,omitempty"`

	// UnavailablePartitions is how many partitions are above their limit.
	UnavailablePartitions int `json:"unavailablePartitions"`

	// MaxUnavailable is how many BundleDeployments may be unavailable.
	MaxUnavailable int `json:"maxUnavailable"`

	// MaxUnavailablePartitions is how many partitions may be unavailable.
	MaxUnavailablePartitions int `json:"maxUnavailablePartitions"`

	// Partitions is the rollout, one partition after the other.
	Partitions []PartitionStatus `json:"partitions,omitempty"`

	// Display holds texts for printer columns.
	// +structType=atomic
	Display BundleDisplay `json:"display,omitempty"`

	// ResourceKey is no longer filled.
	// +nullable
	ResourceKey []ResourceKey `json:"resourceKey,omitempty"`

	// OCIReference is where the resources are when they are in an OCI registry.
	OCIReference string `json:"ociReference,omitempty"`

	// ObservedGeneration is the generation ResourcesSHA256Sum belongs to.
	ObservedGeneration int64 `json:"observedGeneration"`

	// ResourcesSHA256Sum is the hash of the manifest made of spec.resources, in hexadecimal.
	ResourcesSHA256Sum string `json:"resourcesSha256Sum,omitempty"`
}

// PartitionStatus is the state of one partition's rollout.
type PartitionStatus struct {
	// +nullable
	Name string `json:"name,omitempty"`

	// Count is the number of clusters in the partition.
	Count int `json:"count,omitempty"`

	// MaxUnavailable is how many of them may be unavailable.
	MaxUnavailable int `json:"maxUnavailable,omitempty"`

	// Unavailable is how many of them are.
	Unavailable int `json:"unavailable,omitempty"`

	// Summary counts the partition's BundleDeployments by state.
	Summary BundleSummary `json:"summary,omitempty"`
}

// BundleDisplay holds texts for printer columns.
type BundleDisplay struct {
	// ReadyClusters is "<ready>/<all>".
	// +nullable
	ReadyClusters string `json:"readyClusters,omitempty"`

	// State is the worst state of the BundleDeployments; empty when all are ready.
	// +nullable
	State string `json:"state,omitempty"`
}

// ResourceKey names a resource.
type ResourceKey struct {
	// +nullable
	Kind string `json:"kind,omitempty"`
	// +nullable
	APIVersion string `json:"apiVersion,omitempty"`
	// +nullable
	Namespace string `json:"namespace,omitempty"`
	// +nullable
	Name string `json:"name,omitempty"`
}
