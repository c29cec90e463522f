package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

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
