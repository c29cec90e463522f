package v1alpha1

// HelmOptions configures the Helm release.
type HelmOptions struct {
	// ValuesFiles are files of the Bundle whose values are merged in this order.
	// +optional
	// +nullable
	ValuesFiles []string `json:"valuesFiles,omitempty"`

	// Chart is a folder of the Bundle, a chart name in Repo, or a URL.
	// +optional
	// +nullable
	Chart string `json:"chart,omitempty"`

	// Repo is the URL of the chart repository.
	// +optional
	// +nullable
	Repo string `json:"repo,omitempty"`

	// ReleaseName is the name of the release; empty means one made of the Bundle's name.
	// +optional
	// +nullable
	// +kubebuilder:validation:MaxLength=53
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	ReleaseName string `json:"releaseName,omitempty"`

	// Version is the chart's version or a constraint on it.
	// +optional
	// +nullable
	Version string `json:"version,omitempty"`

	// TimeoutSeconds is how long to wait for the resources to be ready; 0 does not wait.
	// +optional
	TimeoutSeconds int `json:"timeoutSeconds,omitempty"`

	// Values are the chart's values. Strings may be templates.
	// +optional
	// +nullable
	Values *GenericMap `json:"values,omitempty"`

	// TemplateValues are values whose text is a template giving YAML.
	// +optional
	// +nullable
	TemplateValues map[string]string `json:"templateValues,omitempty"`

	// ValuesFrom takes values from Secrets and ConfigMaps of the downstream cluster.
	// +optional
	// +nullable
	ValuesFrom []ValuesFrom `json:"valuesFrom,omitempty"`

	// Force replaces resources that cannot be updated.
	// +optional
	Force bool `json:"force,omitempty"`

	// TakeOwnership adopts resources that exist already.
	// +optional
	TakeOwnership bool `json:"takeOwnership,omitempty"`

	// MaxHistory is how many revisions are kept; 0 means 2.
	// +optional
	MaxHistory int `json:"maxHistory,omitempty"`

	// WaitForJobs waits for Jobs as well, within TimeoutSeconds.
	// +optional
	WaitForJobs bool `json:"waitForJobs,omitempty"`

	// Atomic rolls back a failed deployment.
	// +optional
	Atomic bool `json:"atomic,omitempty"`

	// DisablePreProcess leaves templates in Values as they are.
	// +optional
	DisablePreProcess bool `json:"disablePreProcess,omitempty"`

	// DisableDNS forbids name lookups in the chart's templates.
	// +optional
	DisableDNS bool `json:"disableDNS,omitempty"`

	// SkipSchemaValidation accepts values that the chart's schema rejects.
	// +optional
	SkipSchemaValidation bool `json:"skipSchemaValidation,omitempty"`

	// DisableDependencyUpdate leaves the chart's dependencies as they are.
	// +optional
	DisableDependencyUpdate bool `json:"disableDependencyUpdate,omitempty"`
}

// ValuesFrom takes values from a key of a Secret or ConfigMap.
type ValuesFrom struct {
	// +optional
	// +nullable
	ConfigMapKeyRef *ValuesKeyRef `json:"configMapKeyRef,omitempty"`

	// +optional
	// +nullable
	SecretKeyRef *ValuesKeyRef `json:"secretKeyRef,omitempty"`
}

// ValuesKeyRef is a key of a Secret or ConfigMap in the downstream cluster.
type ValuesKeyRef struct {
	// +optional
	// +nullable
	Name string `json:"name"`

	// Namespace is empty for the release's namespace.
	// +optional
	// +nullable
	Namespace string `json:"namespace,omitempty"`

	// Key is empty for values.yaml.
	// +optional
	// +nullable
	Key string `json:"key,omitempty"`
}
