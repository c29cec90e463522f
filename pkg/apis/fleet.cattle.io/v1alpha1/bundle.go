package v1alpha1

import (
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

// BundleSpec defines what is deployed, where and how.
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

	// ResourcesHash is the hash of the manifest made of Resources, in hexadecimal. Only caches set it, in place of
	// Resources. It is never stored.
	ResourcesHash string `json:"-"`

	// TargetCustomizationMode selects which targets customize a cluster's deployment: the first that matches, or
	// all.
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

// BundleResource is one file.
type BundleResource struct {
	// Name is the file's path.
	// +optional
	// +nullable
	Name string `json:"name,omitempty"`

	// Content is the file's text, encoded as set in Encoding.
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

// BundleHelmOptions configures how the agent downloads a chart.
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
