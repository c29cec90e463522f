package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BundleDeploymentOptions configures how resources are deployed to a cluster. A deployment ID contains the hash
// of its JSON, so the order of the fields, here and in the types below, must not change.
type BundleDeploymentOptions struct {
	// YAML customises plain YAML resources.
	// +optional
	// +nullable
	YAML *YAMLOptions `json:"yaml,omitempty"`

	// Kustomize builds the resources with kustomize.
	// +optional
	// +nullable
	Kustomize *KustomizeOptions `json:"kustomize,omitempty"`

	// DefaultNamespace is the namespace of resources without a namespace, and of the release unless namespace is
	// set.
	// +optional
	// +nullable
	DefaultNamespace string `json:"defaultNamespace,omitempty"`

	// TargetNamespace puts every resource into this namespace; a cluster-scoped
	// resource then makes the deployment fail.
	// +optional
	// +nullable
	TargetNamespace string `json:"namespace,omitempty"`

	// Helm says how the release is made.
	// +optional
	Helm *HelmOptions `json:"helm,omitempty"`

	// ServiceAccount is the account, in the downstream cluster, under which the
	// agent deploys.
	// +optional
	// +nullable
	ServiceAccount string `json:"serviceAccount,omitempty"`

	// CreateNamespace lets the agent create the release's namespace; absent means true.
	// +optional
	// +nullable
	CreateNamespace *bool `json:"createNamespace,omitempty"`

	// ForceSyncGeneration forces another deployment whenever it changes.
	// +optional
	ForceSyncGeneration int64 `json:"forceSyncGeneration,omitempty"`

	// Diff selects the differences between desired and actual state that do not count as changes.
	// +optional
	// +nullable
	Diff *DiffOptions `json:"diff,omitempty"`

	// KeepResources keeps the resources in the cluster when the deployment is deleted.
	// +optional
	KeepResources bool `json:"keepResources,omitempty"`

	// DeleteNamespace deletes the namespace when the GitRepo that made it goes.
	// +optional
	DeleteNamespace bool `json:"deleteNamespace,omitempty"`

	// Ignore selects the status conditions of resources that do not count.
	// +optional
	// +nullable
	Ignore *IgnoreOptions `json:"ignore,omitempty"`

	// CorrectDrift undoes changes made to the deployed resources.
	// +optional
	CorrectDrift *CorrectDrift `json:"correctDrift,omitempty"`

	// NamespaceLabels are given to the release's namespace, and taken away when they are no longer here. Labels that
	// others gave it stay. Those of pod security are left alone.
	// +optional
	// +nullable
	NamespaceLabels map[string]string `json:"namespaceLabels,omitempty"`

	// NamespaceAnnotations are given to the release's namespace, and taken away when they are no longer here.
	// Annotations that others gave it stay.
	// +optional
	// +nullable
	NamespaceAnnotations map[string]string `json:"namespaceAnnotations,omitempty"`

	// DeleteCRDResources lets CRDs be deleted with the deployment; they are kept otherwise.
	// +optional
	DeleteCRDResources bool `json:"deleteCRDResources,omitempty"`

	// DownstreamResources are Secrets and ConfigMaps of the Bundle's namespace that
	// are copied to the clusters it is deployed to.
	// +optional
	DownstreamResources []DownstreamResource `json:"downstreamResources,omitempty"`

	// Overwrites lists resources that another Bundle deploys as well. Filled by the
	// command line, not by users.
	// +optional
	Overwrites []OverwrittenResource `json:"overwrites,omitempty"`

	// AllowedTargetNamespaceSelector restricts the namespaces the agent may deploy
	// to, by label. Rancher Fleet also fills it from GitRepoRestrictions.
	// +optional
	// +nullable
	AllowedTargetNamespaceSelector *metav1.LabelSelector `json:"allowedTargetNamespaceSelector,omitempty"`
}

// YAMLOptions customises plain YAML resources.
type YAMLOptions struct {
	// Overlays names folders under overlays/ whose files replace or patch the
	// files of the same name.
	// +optional
	// +nullable
	Overlays []string `json:"overlays,omitempty"`
}

// KustomizeOptions builds the resources with kustomize.
type KustomizeOptions struct {
	// Dir is the folder with the kustomization; empty means the root.
	// +optional
	// +nullable
	Dir string `json:"dir,omitempty"`
}

// DiffOptions selects the differences that do not count as changes.
type DiffOptions struct {
	// +optional
	// +nullable
	ComparePatches []ComparePatch `json:"comparePatches,omitempty"`
}

// ComparePatch selects resources and the parts of them to ignore.
type ComparePatch struct {
	// +optional
	// +nullable
	APIVersion string `json:"apiVersion,omitempty"`

	// +optional
	// +nullable
	Kind string `json:"kind,omitempty"`

	// Name of the resource. Empty, with JSONPointers or the operation "ignore": of every name. Those also take it
	// for a regular expression.
	// +optional
	// +nullable
	Name string `json:"name,omitempty"`

	// Namespace of the resource. Empty for cluster-scoped ones, and with JSONPointers for every namespace.
	// +optional
	// +nullable
	Namespace string `json:"namespace,omitempty"`

	// JSONPointers are places to disregard, as in RFC 6901.
	// +optional
	// +nullable
	JSONPointers []string `json:"jsonPointers,omitempty"`

	// Operations are applied to both sides before they are compared.
	// +optional
	// +nullable
	Operations []Operation `json:"operations,omitempty"`
}

// Operation is a JSON patch operation.
type Operation struct {
	// Op is add, remove, replace or ignore.
	// +optional
	// +nullable
	Op string `json:"op,omitempty"`

	// Path is a JSON pointer.
	// +optional
	// +nullable
	Path string `json:"path,omitempty"`

	// +optional
	// +nullable
	Value string `json:"value,omitempty"`
}

// IgnoreOptions selects the status conditions that do not count.
type IgnoreOptions struct {
	// Conditions each hold fields a condition must have to be disregarded, such
	// as type and status.
	// +optional
	// +nullable
	Conditions []map[string]string `json:"conditions,omitempty"`
}

// CorrectDrift says whether and how changes to deployed resources are undone.
type CorrectDrift struct {
	// +optional
	Enabled bool `json:"enabled,omitempty"`

	// Force replaces resources that cannot be updated.
	// +optional
	Force bool `json:"force,omitempty"`

	// KeepFailHistory keeps the revisions of corrections that failed.
	// +optional
	KeepFailHistory bool `json:"keepFailHistory,omitempty"`
}

// DownstreamResource is a Secret or ConfigMap of the Bundle's namespace.
type DownstreamResource struct {
	// Kind is Secret or ConfigMap.
	// +optional
	Kind string `json:"kind,omitempty"`

	// +optional
	Name string `json:"name,omitempty"`
}

// OverwrittenResource is a resource that another Bundle deploys as well.
type OverwrittenResource struct {
	// +optional
	Name string `json:"name,omitempty"`

	// +optional
	Namespace string `json:"namespace,omitempty"`

	// +optional
	Kind string `json:"kind,omitempty"`
}
