package api

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// LabControlPlane is the control plane of a Cluster: certificates, one Machine and the kubeconfig.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=labcontrolplanes,scope=Namespaced,categories=cluster-api
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:printcolumn:name="Initialized",type=boolean,JSONPath=`.status.initialization.controlPlaneInitialized`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.spec.version`
// +kubebuilder:printcolumn:name="Available",type=string,JSONPath=`.status.conditions[?(@.type=="Available")].reason`
type LabControlPlane struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec LabControlPlaneSpec `json:"spec,omitempty,omitzero"`
	// +optional
	Status LabControlPlaneStatus `json:"status,omitempty,omitzero"`
}

// LabControlPlaneList is a list of LabControlPlanes.
//
// +kubebuilder:object:root=true
type LabControlPlaneList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []LabControlPlane `json:"items"`
}

// LabControlPlaneSpec describes the control plane.
type LabControlPlaneSpec struct {
	// Replicas is the number of Machines: one, because the machines' etcd has no peers.
	// +optional
	// +default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1
	Replicas *int32 `json:"replicas,omitempty"`

	// Version is the desired Kubernetes version, such as v1.36.3.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Version string `json:"version,omitempty"`

	// MachineTemplate describes the Machine.
	// +required
	MachineTemplate ControlPlaneMachineTemplate `json:"machineTemplate,omitempty,omitzero"`

	// Config is the spec of the Machine's LabConfig.
	// +optional
	Config LabConfigSpec `json:"config,omitempty,omitzero"`
}

// ControlPlaneMachineTemplate describes the Machine of a control plane.
type ControlPlaneMachineTemplate struct {
	// ObjectMeta contains labels and annotations of the Machine.
	// +optional
	ObjectMeta clusterv1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// +required
	Spec ControlPlaneMachineTemplateSpec `json:"spec,omitempty,omitzero"`
}

// ControlPlaneMachineTemplateSpec describes the spec of the Machine.
type ControlPlaneMachineTemplateSpec struct {
	// InfrastructureRef refers to a LabMachineTemplate in the namespace of the LabControlPlane.
	// +required
	InfrastructureRef clusterv1.ContractVersionedObjectReference `json:"infrastructureRef,omitempty,omitzero"`

	// Deletion describes how the Machine is deleted.
	// +optional
	Deletion ControlPlaneMachineDeletion `json:"deletion,omitempty,omitzero"`
}

// ControlPlaneMachineDeletion limits the steps of a Machine's deletion. Zero means no limit.
//
// +kubebuilder:validation:MinProperties=1
type ControlPlaneMachineDeletion struct {
	// NodeDrainTimeoutSeconds limits draining of the Node.
	// +optional
	// +kubebuilder:validation:Minimum=0
	NodeDrainTimeoutSeconds *int32 `json:"nodeDrainTimeoutSeconds,omitempty"`

	// NodeVolumeDetachTimeoutSeconds limits the wait for volumes to be detached.
	// +optional
	// +kubebuilder:validation:Minimum=0
	NodeVolumeDetachTimeoutSeconds *int32 `json:"nodeVolumeDetachTimeoutSeconds,omitempty"`

	// NodeDeletionTimeoutSeconds limits the attempts to delete the Node.
	// +optional
	// +kubebuilder:validation:Minimum=0
	NodeDeletionTimeoutSeconds *int32 `json:"nodeDeletionTimeoutSeconds,omitempty"`
}

// LabControlPlaneStatus reports the state of the control plane.
type LabControlPlaneStatus struct {
	// Initialization is part of the contract with Cluster API.
	// +optional
	Initialization ControlPlaneInitialization `json:"initialization,omitempty,omitzero"`

	// Selector selects the Machines of this control plane.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Selector string `json:"selector,omitempty"`

	// Replicas is the number of Machines.
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// ReadyReplicas is the number of Machines whose condition Ready is True.
	// +optional
	ReadyReplicas *int32 `json:"readyReplicas,omitempty"`

	// AvailableReplicas is the number of Machines whose condition Available is True.
	// +optional
	AvailableReplicas *int32 `json:"availableReplicas,omitempty"`

	// UpToDateReplicas is the number of Machines whose condition UpToDate is True.
	// +optional
	UpToDateReplicas *int32 `json:"upToDateReplicas,omitempty"`

	// Versions are the Kubernetes versions of the Machines, the oldest first.
	// +optional
	// +listType=map
	// +listMapKey=version
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	Versions []clusterv1.StatusVersion `json:"versions,omitempty"`

	// Version is the oldest Kubernetes version of the Machines.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Version string `json:"version,omitempty"`

	// Conditions: Available. Cluster API copies Available to the Cluster's ControlPlaneAvailable.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ControlPlaneInitialization reports the initialization of the control plane.
//
// +kubebuilder:validation:MinProperties=1
type ControlPlaneInitialization struct {
	// ControlPlaneInitialized is true once the API server has accepted requests.
	// +optional
	ControlPlaneInitialized *bool `json:"controlPlaneInitialized,omitempty"`
}

// LabControlPlaneTemplate is a LabControlPlane that ClusterClasses refer to.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=labcontrolplanetemplates,scope=Namespaced,categories=cluster-api
// +kubebuilder:storageversion
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
type LabControlPlaneTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec LabControlPlaneTemplateSpec `json:"spec,omitempty,omitzero"`
}

// LabControlPlaneTemplateList is a list of LabControlPlaneTemplates.
//
// +kubebuilder:object:root=true
type LabControlPlaneTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []LabControlPlaneTemplate `json:"items"`
}

// LabControlPlaneTemplateSpec contains the template.
type LabControlPlaneTemplateSpec struct {
	// +required
	Template LabControlPlaneTemplateResource `json:"template"`
}

// LabControlPlaneTemplateResource contains the metadata and the spec of LabControlPlanes that are created from the template.
type LabControlPlaneTemplateResource struct {
	// +optional
	ObjectMeta clusterv1.ObjectMeta `json:"metadata,omitempty,omitzero"`
	// +optional
	Spec LabControlPlaneTemplateResourceSpec `json:"spec,omitempty,omitzero"`
}

// LabControlPlaneTemplateResourceSpec is a LabControlPlaneSpec without what Cluster API takes from the Cluster's topology and
// from the ClusterClass: replicas, version and the machine's template.
type LabControlPlaneTemplateResourceSpec struct {
	// Config is the spec of the Machine's LabConfig.
	// +optional
	Config LabConfigSpec `json:"config,omitempty,omitzero"`
}
