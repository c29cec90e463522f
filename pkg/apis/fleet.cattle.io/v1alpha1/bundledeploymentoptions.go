package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BundleDeploymentOptions configures how resources are deployed to a cluster. A deployment ID contains the hash
// of its JSON, so the order of the fields, here and in the types below, must not change.
type BundleDeploymentOptions struct {
	// YAML customises plain YAML resources.
	// +nullable
	YAML *YAMLOptions `json:"yaml,omitempty"`

	// Kustomize builds the resources with kustomize.
	// +nullable
	Kustomize *KustomizeOptions `json:"kustomize,omitempty"`

	// DefaultNamespace is the namespace of resources without a namespace, and of the release unless namespace is set.
	// +nullable
	DefaultNamespace string `json:"defaultNamespace,omitempty"`

	// TargetNamespace puts every resource into this namespace; a cluster-scoped
	// resource then makes the deployment fail.
	// +nullable
	TargetNamespace string `json:"namespace,omitempty"`

	// Helm says how the release is made.
	Helm *HelmOptions `json:"helm,omitempty"`

	// ServiceAccount is the account, in the downstream cluster, under which the agent deploys.
	// +nullable
	ServiceAccount string `json:"serviceAccount,omitempty"`

	// CreateNamespace lets the agent create the release's namespace; absent means true.
	// +nullable
	CreateNamespace *bool `json:"createNamespace,omitempty"`

	// ForceSyncGeneration forces another deployment whenever it changes.
	ForceSyncGeneration int64 `json:"forceSyncGeneration,omitempty"`

	// Diff selects the differences between desired and actual state that do not count as changes.
	// +nullable
	Diff *DiffOptions `json:"diff,omitempty"`

	// KeepResources keeps the resources in the cluster when the deployment is deleted. If the name or the namespace of
	// the release changes, the resources of the former release also stay, and nothing tracks them: delete them by hand.
	KeepResources bool `json:"keepResources,omitempty"`

	// DeleteNamespace has no effect, and is accepted for compatibility.
	DeleteNamespace bool `json:"deleteNamespace,omitempty"`

	// Ignore selects the status conditions of resources that do not count.
	// +nullable
	Ignore *IgnoreOptions `json:"ignore,omitempty"`

	// CorrectDrift undoes changes made to the deployed resources.
	CorrectDrift *CorrectDrift `json:"correctDrift,omitempty"`

	// NamespaceLabels are set on the release's namespace, and removed from it when they are removed here. Labels that
	// others gave it stay. Those of pod security are never changed.
	// +nullable
	NamespaceLabels map[string]string `json:"namespaceLabels,omitempty"`

	// NamespaceAnnotations are set on the release's namespace, and removed from it when they are removed here.
	// Annotations that others gave it stay.
	// +nullable
	NamespaceAnnotations map[string]string `json:"namespaceAnnotations,omitempty"`

	// DeleteCRDResources lets CRDs be deleted with the deployment; they are kept otherwise.
	DeleteCRDResources bool `json:"deleteCRDResources,omitempty"`

	// DownstreamResources are Secrets and ConfigMaps of the Bundle's namespace that
	// are copied to the clusters it is deployed to.
	DownstreamResources []DownstreamResource `json:"downstreamResources,omitempty"`

	// Overwrites lists resources that another Bundle deploys as well. Filled by the command line, not by users.
	Overwrites []OverwrittenResource `json:"overwrites,omitempty"`

	// AllowedTargetNamespaceSelector restricts the namespaces the agent may deploy
	// to, by label. Rancher Fleet also fills it from GitRepoRestrictions.
	// +nullable
	AllowedTargetNamespaceSelector *metav1.LabelSelector `json:"allowedTargetNamespaceSelector,omitempty"`
}

// YAMLOptions customises plain YAML resources.
type YAMLOptions struct {
	// Overlays names folders under overlays/ whose files replace or patch the files of the same name.
	// +nullable
	Overlays []string `json:"overlays,omitempty"`
}

// KustomizeOptions builds the resources with kustomize.
type KustomizeOptions struct {
	// Dir is the folder with the kustomization; empty means the root.
	// +nullable
	Dir string `json:"dir,omitempty"`
}

// DiffOptions selects the differences that do not count as changes.
type DiffOptions struct {
	// +nullable
	ComparePatches []ComparePatch `json:"comparePatches,omitempty"`
}

// ComparePatch selects resources and the parts of them to ignore.
type ComparePatch struct {
	// +nullable
	APIVersion string `json:"apiVersion,omitempty"`
	// +nullable
	Kind string `json:"kind,omitempty"`

	// Name of the resource. Empty, with JSONPointers or the operation "ignore": of every name. Those also take it
	// for a regular expression.
	// +nullable
	Name string `json:"name,omitempty"`

	// Namespace of the resource. Empty for cluster-scoped ones, and with JSONPointers for every namespace.
	// +nullable
	Namespace string `json:"namespace,omitempty"`

	// JSONPointers are places to disregard, as in RFC 6901.
	// +nullable
	JSONPointers []string `json:"jsonPointers,omitempty"`

	// Operations are applied to both sides before they are compared.
	// +nullable
	Operations []Operation `json:"operations,omitempty"`
}

// Operation is a JSON patch operation.
type Operation struct {
	// Op is add, remove, replace or ignore.
	// +nullable
	Op string `json:"op,omitempty"`

	// Path is a JSON pointer.
	// +nullable
	Path string `json:"path,omitempty"`

	// +nullable
	Value string `json:"value,omitempty"`
}

// IgnoreOptions selects the status conditions that do not count.
type IgnoreOptions struct {
	// Conditions each hold fields a condition must have to be disregarded, such as type and status.
	// +nullable
	Conditions []map[string]string `json:"conditions,omitempty"`
}

// CorrectDrift says whether and how changes to deployed resources are undone.
type CorrectDrift struct {
	Enabled bool `json:"enabled,omitempty"`

	// Force replaces resources that cannot be updated.
	Force bool `json:"force,omitempty"`

	// KeepFailHistory keeps the revisions of corrections that failed.
	KeepFailHistory bool `json:"keepFailHistory,omitempty"`
}

// DownstreamResource is a Secret or ConfigMap of the Bundle's namespace.
type DownstreamResource struct {
	// Kind is Secret or ConfigMap.
	Kind string `json:"kind,omitempty"`

	Name string `json:"name,omitempty"`
}

// OverwrittenResource is a resource that another Bundle deploys as well.
type OverwrittenResource struct {
	Name      string `json:"name,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Kind      string `json:"kind,omitempty"`
}

// HelmOptions configures the Helm release.
type HelmOptions struct {
	// ValuesFiles are files in the folder of a fleet.yaml. The command `fleet apply` merges their values in this
	// order. They have no effect in a Bundle that is written with kubectl.
	// +nullable
	ValuesFiles []string `json:"valuesFiles,omitempty"`

	// Chart is a folder of the Bundle, a chart name in Repo, or a URL.
	// +nullable
	Chart string `json:"chart,omitempty"`

	// Repo is the URL of the chart repository.
	// +nullable
	Repo string `json:"repo,omitempty"`

	// ReleaseName is the name of the release; empty means one made of the Bundle's name.
	// +nullable
	// +kubebuilder:validation:MaxLength=53
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	ReleaseName string `json:"releaseName,omitempty"`

	// Version is the chart's version or a constraint on it.
	// +nullable
	Version string `json:"version,omitempty"`

	// TimeoutSeconds is how long to wait for the resources to be ready; 0 does not wait.
	TimeoutSeconds int `json:"timeoutSeconds,omitempty"`

	// Values are the chart's values. Strings may be templates.
	// +nullable
	Values *GenericMap `json:"values,omitempty"`

	// TemplateValues are values whose text is a template giving YAML.
	// +nullable
	TemplateValues map[string]string `json:"templateValues,omitempty"`

	// ValuesFrom takes values from Secrets and ConfigMaps of the downstream cluster.
	// +nullable
	ValuesFrom []ValuesFrom `json:"valuesFrom,omitempty"`

	// Force replaces resources that cannot be updated.
	Force bool `json:"force,omitempty"`

	// TakeOwnership adopts resources that exist already.
	TakeOwnership bool `json:"takeOwnership,omitempty"`

	// MaxHistory is how many revisions are kept; 0 means 2.
	MaxHistory int `json:"maxHistory,omitempty"`

	// WaitForJobs waits for Jobs as well, within TimeoutSeconds.
	WaitForJobs bool `json:"waitForJobs,omitempty"`

	// Atomic rolls back a failed deployment.
	Atomic bool `json:"atomic,omitempty"`

	// DisablePreProcess leaves templates in Values as they are.
	DisablePreProcess bool `json:"disablePreProcess,omitempty"`

	// DisableDNS forbids name lookups in the chart's templates.
	DisableDNS bool `json:"disableDNS,omitempty"`

	// SkipSchemaValidation accepts values that the chart's schema rejects.
	SkipSchemaValidation bool `json:"skipSchemaValidation,omitempty"`

	// DisableDependencyUpdate leaves the chart's dependencies as they are.
	DisableDependencyUpdate bool `json:"disableDependencyUpdate,omitempty"`
}

// ValuesFrom takes values from a key of a Secret or ConfigMap.
type ValuesFrom struct {
	// +nullable
	ConfigMapKeyRef *ValuesKeyRef `json:"configMapKeyRef,omitempty"`
	// +nullable
	SecretKeyRef *ValuesKeyRef `json:"secretKeyRef,omitempty"`
}

// ValuesKeyRef is a key of a Secret or ConfigMap in the downstream cluster.
type ValuesKeyRef struct {
	// +nullable
	Name string `json:"name"`

	// Namespace is empty for the release's namespace.
	// +nullable
	Namespace string `json:"namespace,omitempty"`

	// Key is empty for values.yaml.
	// +nullable
	Key string `json:"key,omitempty"`
}
