package v1alpha1

import (
	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ClusterRegistration is an agent's request to join. Fleet answers it once, with
// an account in the cluster's namespace and a Secret holding its credential.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=clusterregistrations
// +kubebuilder:subresource:status
// +kubebuilder:metadata:annotations="helm.sh/resource-policy=keep"
// +kubebuilder:printcolumn:name="Cluster-Name",type=string,JSONPath=`.status.clusterName`
// +kubebuilder:printcolumn:name="Labels",type=string,JSONPath=`.spec.clusterLabels`
type ClusterRegistration struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ClusterRegistrationSpec   `json:"spec,omitempty"`
	Status ClusterRegistrationStatus `json:"status,omitempty"`
}

// ClusterRegistrationList is a list of ClusterRegistrations.
//
// +kubebuilder:object:root=true
type ClusterRegistrationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ClusterRegistration `json:"items"`
}

// ClusterRegistrationSpec describes the agent that registers.
type ClusterRegistrationSpec struct {
	// ClientID is the identity of the cluster: configured, or the UID of its kube-system namespace. A Cluster with the
	// same clientID is joined; otherwise one is created.
	// +nullable
	ClientID string `json:"clientID,omitempty"`

	// ClientRandom is new for every attempt. Together with the client ID it makes
	// up the name of the credential Secret, which only this agent can then guess.
	// +nullable
	ClientRandom string `json:"clientRandom,omitempty"`

	// ClusterLabels become the labels of the Cluster, but only when this request creates it.
	// +nullable
	ClusterLabels map[string]string `json:"clusterLabels,omitempty"`
}

// ClusterRegistrationStatus reports the progress of the request.
type ClusterRegistrationStatus struct {
	// ClusterName names the Cluster the request belongs to, as soon as that is known.
	// +nullable
	ClusterName string `json:"clusterName,omitempty"`

	// Granted is true once the credential was written.
	Granted bool `json:"granted,omitempty"`

	// Conditions: Granted, with what the request is waiting for.
	// +nullable
	Conditions []genericcondition.GenericCondition `json:"conditions,omitempty"`
}
