package v1alpha1

// HelmOptions configures the Helm release.
type HelmOptions struct {
	// ValuesFiles are files of the Bundle whose values are merged in this order.
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
