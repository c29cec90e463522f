package v1alpha1

import (
	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BundleDeployment is a Bundle deployed to one Cluster. It is in the Cluster's own namespace, where the agent
// reads it and writes its status.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=bundledeployments
// +kubebuilder:subresource:status
// +kubebuilder:metadata:annotations="helm.sh/resource-policy=keep"
// +kubebuilder:printcolumn:name="Deployed",type=string,JSONPath=`.status.display.deployed`
// +kubebuilder:printcolumn:name="Monitored",type=string,JSONPath=`.status.display.monitored`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
type BundleDeployment struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec BundleDeploymentSpec `json:"spec,omitempty"`
	// +optional
	Status BundleDeploymentStatus `json:"status,omitempty"`
}

// BundleDeploymentList is a list of BundleDeployments.
//
// +kubebuilder:object:root=true
type BundleDeploymentList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []BundleDeployment `json:"items"`
}

// BundleDeploymentSpec defines what the agent must deploy.
type BundleDeploymentSpec struct {
	// Paused is true while the Cluster or the Bundle is paused.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// StagedOptions is the newest state computed from the Bundle.
	// +optional
	// +structType=atomic
	StagedOptions BundleDeploymentOptions `json:"stagedOptions,omitempty"`

	// StagedDeploymentID is the ID of StagedOptions.
	// +optional
	// +nullable
	StagedDeploymentID string `json:"stagedDeploymentID,omitempty"`

	// Options is the state that the agent must reach. The rollout copies StagedOptions here.
	// +optional
	// +structType=atomic
	Options BundleDeploymentOptions `json:"options,omitempty"`

	// DeploymentID is "<name of the Content>:<hash of the options>".
	// +optional
	// +nullable
	DeploymentID string `json:"deploymentID,omitempty"`

	// DependsOn names Bundles that must be deployed first.
	// +optional
	// +nullable
	DependsOn []BundleRef `json:"dependsOn,omitempty"`

	// CorrectDrift is in force at once, without waiting for the rollout.
	// +optional
	CorrectDrift *CorrectDrift `json:"correctDrift,omitempty"`

	// OCIContents is true when the resources are in an OCI registry.
	// +optional
	OCIContents bool `json:"ociContents,omitempty"`

	// HelmChartOptions is set when the agent fetches a chart.
	// +optional
	HelmChartOptions *BundleHelmOptions `json:"helmChartOptions,omitempty"`

	// ValuesHash is the hash of the Secret with the Helm values. Empty means no such Secret.
	// +optional
	// +nullable
	ValuesHash string `json:"valuesHash,omitempty"`

	// DownstreamResourcesGeneration grows whenever a Secret or ConfigMap copied for
	// this deployment changes.
	// +optional
	DownstreamResourcesGeneration int64 `json:"downstreamResourcesGeneration,omitempty"`

	// OffSchedule is true while a Schedule forbids updates.
	// +optional
	OffSchedule bool `json:"offSchedule,omitempty"`

	// WaitingForValues is true while the Secret with the Helm values does not exist. The agent does not deploy.
	// +optional
	WaitingForValues bool `json:"waitingForValues,omitempty"`
}

// BundleDeploymentStatus is what the agent reports.
type BundleDeploymentStatus struct {
	// Conditions: Deployed, Installed, Monitored and Ready.
	// +optional
	// +nullable
	Conditions []genericcondition.GenericCondition `json:"conditions,omitempty"`

	// AppliedDeploymentID is the deployment ID last tried.
	// +optional
	// +nullable
	AppliedDeploymentID string `json:"appliedDeploymentID,omitempty"`

	// Release is "<namespace>/<name>:<revision>" of the Helm release.
	// +optional
	// +nullable
	Release string `json:"release,omitempty"`

	// Ready is true when all resources are ready.
	// +optional
	Ready bool `json:"ready,omitempty"`

	// NonModified is true when all resources are as deployed.
	// +optional
	NonModified bool `json:"nonModified,omitempty"`

	// NonReadyStatus lists the first ten resources that are not ready.
	// +optional
	// +nullable
	NonReadyStatus []NonReadyStatus `json:"nonReadyStatus,omitempty"`

	// ModifiedStatus lists the first ten resources that are not as deployed.
	// +optional
	// +nullable
	ModifiedStatus []ModifiedStatus `json:"modifiedStatus,omitempty"`

	// IncompleteState is true when one of the two lists was cut.
	// +optional
	IncompleteState bool `json:"incompleteState,omitempty"`

	// Display holds texts for printer columns.
	// +optional
	// +nullable
	// +structType=atomic
	Display BundleDeploymentDisplay `json:"display,omitempty"`

	// SyncGeneration is the options' forceSyncGeneration last deployed.
	// +optional
	// +nullable
	SyncGeneration *int64 `json:"syncGeneration,omitempty"`

	// Resources lists the resources of the release.
	// +optional
	// +nullable
	Resources []DeployedResource `json:"resources,omitempty"`

	// ResourceCounts counts them by state.
	// +optional
	// +structType=atomic
	ResourceCounts ResourceCounts `json:"resourceCounts,omitempty"`

	// DownstreamResourcesGeneration is the spec's, once the copies are in place.
	// +optional
	DownstreamResourcesGeneration int64 `json:"downstreamResourcesGeneration,omitempty"`
}

// BundleDeploymentDisplay holds texts for printer columns.
type BundleDeploymentDisplay struct {
	// Deployed is the status of condition Deployed, or its message when that is an error.
	// +optional
	// +nullable
	Deployed string `json:"deployed,omitempty"`

	// Monitored is the status of condition Monitored, or its message when that is an error.
	// +optional
	// +nullable
	Monitored string `json:"monitored,omitempty"`

	// State is the deployment's state.
	// +optional
	// +nullable
	State string `json:"state,omitempty"`
}

// DeployedResource is a resource of the release, as found in the cluster.
type DeployedResource struct {
	// +optional
	// +nullable
	Kind string `json:"kind,omitempty"`

	// +optional
	// +nullable
	APIVersion string `json:"apiVersion,omitempty"`

	// +optional
	// +nullable
	Namespace string `json:"namespace,omitempty"`

	// +optional
	// +nullable
	Name string `json:"name,omitempty"`

	// CreatedAt is the resource's creationTimestamp.
	// +optional
	// +nullable
	CreatedAt metav1.Time `json:"createdAt,omitempty"`
}
