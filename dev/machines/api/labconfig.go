package api

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// LabConfig generates the bootstrap data of a Machine: of a control plane if the Machine has the label
// cluster.x-k8s.io/control-plane, otherwise of a worker.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=labconfigs,scope=Namespaced,categories=cluster-api
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:printcolumn:name="Secret",type=string,JSONPath=`.status.dataSecretName`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
type LabConfig struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec LabConfigSpec `json:"spec,omitempty,omitzero"`
	// +optional
	Status LabConfigStatus `json:"status,omitempty,omitzero"`
}

// LabConfigList is a list of LabConfigs.
//
// +kubebuilder:object:root=true
type LabConfigList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []LabConfig `json:"items"`
}

// LabConfigSpec describes what is added to the generated bootstrap data.
type LabConfigSpec struct {
	// Files are written to the machine before its first command runs.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Files []File `json:"files,omitempty"`
}

// File is a file of a machine. Exactly one of content and contentFrom is set.
//
// +kubebuilder:validation:XValidation:rule="has(self.content) != has(self.contentFrom)",message="set exactly one of content and contentFrom"
type File struct {
	// Path is absolute; it lies below the folder of the machine.
	// +required
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^/`
	Path string `json:"path,omitempty"`

	// Permissions are octal, such as "0600".
	// +optional
	// +kubebuilder:validation:Pattern=`^0?[0-7]{3}$`
	Permissions string `json:"permissions,omitempty"`

	// Content is the content of the file.
	// +optional
	// +kubebuilder:validation:MaxLength=10240
	Content *string `json:"content,omitempty"`

	// ContentFrom refers to the content of the file.
	// +optional
	ContentFrom FileSource `json:"contentFrom,omitempty,omitzero"`
}

// FileSource refers to the content of a file.
type FileSource struct {
	// Secret refers to a key of a Secret in the namespace of the LabConfig.
	// +required
	Secret SecretKey `json:"secret,omitempty,omitzero"`
}

// SecretKey refers to a key of a Secret.
type SecretKey struct {
	// Name of the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// Key in the Secret's data.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key,omitempty"`
}

// LabConfigStatus names the Secret with the bootstrap data.
type LabConfigStatus struct {
	// Initialization is part of the contract with Cluster API.
	// +optional
	Initialization DataCreation `json:"initialization,omitempty,omitzero"`

	// DataSecretName names the Secret with the bootstrap data.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	DataSecretName string `json:"dataSecretName,omitempty"`

	// Conditions: Ready. Cluster API copies Ready to the Machine's BootstrapConfigReady.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// DataCreation reports the creation of the bootstrap data.
//
// +kubebuilder:validation:MinProperties=1
type DataCreation struct {
	// DataSecretCreated is true once the Secret exists.
	// +optional
	DataSecretCreated *bool `json:"dataSecretCreated,omitempty"`
}

// LabConfigTemplate is a LabConfig from which Cluster API creates the LabConfigs of a set.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=labconfigtemplates,scope=Namespaced,categories=cluster-api
// +kubebuilder:storageversion
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
type LabConfigTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec LabConfigTemplateSpec `json:"spec,omitempty,omitzero"`
}

// LabConfigTemplateList is a list of LabConfigTemplates.
//
// +kubebuilder:object:root=true
type LabConfigTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []LabConfigTemplate `json:"items"`
}

// LabConfigTemplateSpec contains the template.
type LabConfigTemplateSpec struct {
	// +required
	Template LabConfigTemplateResource `json:"template"`
}

// LabConfigTemplateResource contains the metadata and the spec of LabConfigs that are created from the template.
type LabConfigTemplateResource struct {
	// +optional
	ObjectMeta clusterv1.ObjectMeta `json:"metadata,omitempty,omitzero"`
	// +optional
	Spec LabConfigSpec `json:"spec,omitempty,omitzero"`
}
