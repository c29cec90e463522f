package v1alpha1

import (
	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ClusterGroup names a set of Clusters of its namespace, so that Bundles can target them together.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=clustergroups,categories=fleet
// +kubebuilder:subresource:status
// +kubebuilder:metadata:annotations="helm.sh/resource-policy=keep"
// +kubebuilder:printcolumn:name="Clusters-Ready",type=string,JSONPath=`.status.display.readyClusters`
// +kubebuilder:printcolumn:name="Bundles-Ready",type=string,JSONPath=`.status.display.readyBundles`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
type ClusterGroup struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ClusterGroupSpec   `json:"spec,omitempty"`
	Status ClusterGroupStatus `json:"status,omitempty"`
}

// ClusterGroupList is a list of ClusterGroups.
//
// +kubebuilder:object:root=true
type ClusterGroupList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ClusterGroup `json:"items"`
}

// ClusterGroupSpec selects the Clusters of the group.
type ClusterGroupSpec struct {
	// Selector picks Clusters of the group's namespace by label; absent picks none.
	// +nullable
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
}

// ClusterGroupStatus summarizes the Clusters of the group.
type ClusterGroupStatus struct {
	// ClusterCount is the number of Clusters in the group.
	ClusterCount int `json:"clusterCount"`

	// NonReadyClusterCount is the number of Clusters with a bundle that is not ready.
	NonReadyClusterCount int `json:"nonReadyClusterCount"`

	// NonReadyClusters names the first ten Clusters that are not ready.
	// +nullable
	NonReadyClusters []string `json:"nonReadyClusters,omitempty"`

	// Conditions: Processed and Ready.
	Conditions []genericcondition.GenericCondition `json:"conditions,omitempty"`

	// Summary counts the bundles of the group's Clusters by state.
	// +structType=atomic
	Summary BundleSummary `json:"summary,omitempty"`

	// Display holds texts for printer columns.
	// +structType=atomic
	Display ClusterGroupDisplay `json:"display,omitempty"`

	// ResourceCounts counts the deployed resources of the group's Clusters by state.
	// +structType=atomic
	ResourceCounts ResourceCounts `json:"resourceCounts,omitempty"`
}

// ClusterGroupDisplay holds texts for printer columns.
type ClusterGroupDisplay struct {
	// ReadyClusters is "<ready>/<all>", followed by the names of those not ready in parentheses.
	// +nullable
	ReadyClusters string `json:"readyClusters,omitempty"`

	// ReadyBundles is "<ready>/<all>".
	// +nullable
	ReadyBundles string `json:"readyBundles,omitempty"`

	// State is the worst state of the group's bundles; empty when all are ready.
	// +nullable
	State string `json:"state,omitempty"`
}
