package api

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// MachineFinalizer keeps a LabMachine until its machine at the machine host is deleted.
const MachineFinalizer = "lab.fleet-hub.io/machine"

// MachineExtraPorts is the number of ports that each machine has beside its port, for the components that its bootstrap
// data starts.
const MachineExtraPorts = 4

// NodeService is the name of the service that registers a machine's Node. A machine without a service of this name has no
// Node. The Node has the name of the Machine.
const NodeService = "kubelet"

// ConditionBootstrapSucceeded reports whether the machine has executed its bootstrap data.
const ConditionBootstrapSucceeded = "BootstrapSucceeded"

// LabMachine is the infrastructure of a Machine: one machine at the machine host.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=labmachines,scope=Namespaced,categories=cluster-api
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:printcolumn:name="ProviderID",type=string,JSONPath=`.spec.providerID`
// +kubebuilder:printcolumn:name="Provisioned",type=boolean,JSONPath=`.status.initialization.provisioned`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
type LabMachine struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec LabMachineSpec `json:"spec,omitempty,omitzero"`
	// +optional
	Status LabMachineStatus `json:"status,omitempty,omitzero"`
}

// LabMachineList is a list of LabMachines.
//
// +kubebuilder:object:root=true
type LabMachineList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []LabMachine `json:"items"`
}

// LabMachineSpec contains the identity of the machine.
type LabMachineSpec struct {
	// ProviderID is set by the provider after it has set the same value on the Node.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	ProviderID string `json:"providerID,omitempty"`
}

// LabMachineStatus reports the state of the machine.
type LabMachineStatus struct {
	// Initialization is part of the contract with Cluster API.
	// +optional
	Initialization Provisioning `json:"initialization,omitempty,omitzero"`

	// Addresses are the addresses of the machine.
	// +optional
	// +kubebuilder:validation:MaxItems=8
	Addresses []clusterv1.MachineAddress `json:"addresses,omitempty"`

	// Attempts is the number of times that bootstrapping has failed.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Attempts int32 `json:"attempts,omitempty"`

	// Conditions: Ready and BootstrapSucceeded. Cluster API copies Ready to the Machine's InfrastructureReady.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// LabMachineTemplate is a LabMachine from which Cluster API creates the LabMachines of a set.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=labmachinetemplates,scope=Namespaced,categories=cluster-api
// +kubebuilder:storageversion
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
type LabMachineTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec LabMachineTemplateSpec `json:"spec,omitempty,omitzero"`
}

// LabMachineTemplateList is a list of LabMachineTemplates.
//
// +kubebuilder:object:root=true
type LabMachineTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []LabMachineTemplate `json:"items"`
}

// LabMachineTemplateSpec contains the template.
type LabMachineTemplateSpec struct {
	// +required
	Template LabMachineTemplateResource `json:"template"`
}

// LabMachineTemplateResource contains the metadata and the spec of LabMachines that are created from the template.
type LabMachineTemplateResource struct {
	// +optional
	ObjectMeta clusterv1.ObjectMeta `json:"metadata,omitempty,omitzero"`
	// +optional
	Spec LabMachineSpec `json:"spec,omitempty,omitzero"`
}
