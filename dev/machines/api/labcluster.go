package api

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// EndpointFinalizer keeps a LabCluster until its endpoint at the machine host is free.
const EndpointFinalizer = "lab.fleet-hub.io/endpoint"

// LabCluster is the infrastructure of a Cluster: the endpoint that its control plane will serve, reserved at the machine host.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=labclusters,scope=Namespaced,categories=cluster-api
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:printcolumn:name="Endpoint",type=string,JSONPath=`.spec.controlPlaneEndpoint.port`
// +kubebuilder:printcolumn:name="Provisioned",type=boolean,JSONPath=`.status.initialization.provisioned`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
type LabCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec LabClusterSpec `json:"spec,omitempty,omitzero"`
	// +optional
	Status LabClusterStatus `json:"status,omitempty,omitzero"`
}

// LabClusterList is a list of LabClusters.
//
// +kubebuilder:object:root=true
type LabClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []LabCluster `json:"items"`
}

// LabClusterSpec contains the endpoint of the control plane.
type LabClusterSpec struct {
	// ControlPlaneEndpoint is set by the provider once the port is reserved.
	// +optional
	ControlPlaneEndpoint clusterv1.APIEndpoint `json:"controlPlaneEndpoint,omitempty,omitzero"`
}

// LabClusterStatus reports whether the endpoint is reserved.
type LabClusterStatus struct {
	// Initialization is part of the contract with Cluster API.
	// +optional
	Initialization Provisioning `json:"initialization,omitempty,omitzero"`

	// Conditions: Ready. Cluster API copies Ready to the Cluster's InfrastructureReady.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Provisioning reports the initial provisioning of infrastructure.
//
// +kubebuilder:validation:MinProperties=1
type Provisioning struct {
	// Provisioned is true once the infrastructure is fully provisioned. It never becomes false again.
	// +optional
	Provisioned *bool `json:"provisioned,omitempty"`
}

// LabClusterTemplate is a LabCluster that ClusterClasses refer to.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=labclustertemplates,scope=Namespaced,categories=cluster-api
// +kubebuilder:storageversion
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
type LabClusterTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec LabClusterTemplateSpec `json:"spec,omitempty,omitzero"`
}

// LabClusterTemplateList is a list of LabClusterTemplates.
//
// +kubebuilder:object:root=true
type LabClusterTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []LabClusterTemplate `json:"items"`
}

// LabClusterTemplateSpec contains the template.
type LabClusterTemplateSpec struct {
	// +required
	Template LabClusterTemplateResource `json:"template"`
}

// LabClusterTemplateResource contains the metadata and the spec of LabClusters that are created from the template.
type LabClusterTemplateResource struct {
	// +optional
	ObjectMeta clusterv1.ObjectMeta `json:"metadata,omitempty,omitzero"`
	// +optional
	Spec LabClusterSpec `json:"spec,omitempty,omitzero"`
}
