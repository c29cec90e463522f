package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TargetCustomizationMode selects which matching targets customize a deployment.
// +kubebuilder:validation:Enum=FirstMatch;AllMatches
type TargetCustomizationMode string

const (
	// TargetCustomizationFirstMatch uses the first target that matches. The default.
	TargetCustomizationFirstMatch TargetCustomizationMode = "FirstMatch"
	// TargetCustomizationAllMatches merges all targets that match, in their order.
	TargetCustomizationAllMatches TargetCustomizationMode = "AllMatches"
)

// BundleTarget picks clusters, and customises the deployment there.
type BundleTarget struct {
	BundleDeploymentOptions `json:",inline"`

	// Name names the target; the key of its values in the values Secret.
	Name string `json:"name,omitempty"`

	// ClusterName picks the Cluster of this name.
	// +nullable
	ClusterName string `json:"clusterName,omitempty"`

	// ClusterSelector picks Clusters by label; an empty one picks all.
	// +nullable
	ClusterSelector *metav1.LabelSelector `json:"clusterSelector,omitempty"`

	// ClusterGroup picks the Clusters of the ClusterGroup of this name.
	// +nullable
	ClusterGroup string `json:"clusterGroup,omitempty"`

	// ClusterGroupSelector picks the Clusters of ClusterGroups by the groups' labels.
	// +nullable
	ClusterGroupSelector *metav1.LabelSelector `json:"clusterGroupSelector,omitempty"`

	// DoNotDeploy excludes the clusters this target picks.
	DoNotDeploy bool `json:"doNotDeploy,omitempty"`

	// NamespaceLabels are set on the release's namespace. In JSON this field
	// stands for the one of the same name in the options.
	// +nullable
	NamespaceLabels map[string]string `json:"namespaceLabels,omitempty"`

	// NamespaceAnnotations are set on the release's namespace. In JSON
	// this field stands for the one of the same name in the options.
	// +nullable
	NamespaceAnnotations map[string]string `json:"namespaceAnnotations,omitempty"`
}

// BundleTargetRestriction picks clusters, as a BundleTarget does.
type BundleTargetRestriction struct {
	// +nullable
	Name string `json:"name,omitempty"`
	// +nullable
	ClusterName string `json:"clusterName,omitempty"`
	// +nullable
	ClusterSelector *metav1.LabelSelector `json:"clusterSelector,omitempty"`
	// +nullable
	ClusterGroup string `json:"clusterGroup,omitempty"`
	// +nullable
	ClusterGroupSelector *metav1.LabelSelector `json:"clusterGroupSelector,omitempty"`
}

// BundleNamespaceMapping lets Bundles of its namespace target Clusters of other
// namespaces. Without both selectors it does nothing.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=bundlenamespacemappings
// +kubebuilder:subresource:status
// +kubebuilder:metadata:annotations="helm.sh/resource-policy=keep"
type BundleNamespaceMapping struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// BundleSelector picks Bundles of the mapping's namespace by label.
	// +nullable
	BundleSelector *metav1.LabelSelector `json:"bundleSelector,omitempty"`

	// NamespaceSelector picks the namespaces whose Clusters those Bundles may target as well, by label.
	// +nullable
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
}

// BundleNamespaceMappingList is a list of BundleNamespaceMappings.
//
// +kubebuilder:object:root=true
type BundleNamespaceMappingList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []BundleNamespaceMapping `json:"items"`
}
