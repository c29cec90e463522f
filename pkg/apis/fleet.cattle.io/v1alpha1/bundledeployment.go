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

	Spec   BundleDeploymentSpec   `json:"spec,omitempty"`
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
	Paused bool `json:"paused,omitempty"`

	// StagedOptions is the newest state computed from the Bundle.
	// +structType=atomic
	StagedOptions BundleDeploymentOptions `json:"stagedOptions,omitempty"`

	// StagedDeploymentID is the ID of StagedOptions.
	// +nullable
	StagedDeploymentID string `json:"stagedDeploymentID,omitempty"`

	// Options is the state that the agent must reach. The rollout copies StagedOptions here.
	// +structType=atomic
	Options BundleDeploymentOptions `json:"options,omitempty"`

	// DeploymentID is "<name of the Content>:<hash of the options>".
	// +nullable
	DeploymentID string `json:"deploymentID,omitempty"`

	// DependsOn names Bundles that must be deployed first.
	// +nullable
	DependsOn []BundleRef `json:"dependsOn,omitempty"`

	// CorrectDrift is in force at once, without waiting for the rollout.
	CorrectDrift *CorrectDrift `json:"correctDrift,omitempty"`

	// OCIContents is true when the resources are in an OCI registry.
	OCIContents bool `json:"ociContents,omitempty"`

	// HelmChartOptions is set when the agent fetches a chart.
	HelmChartOptions *BundleHelmOptions `json:"helmChartOptions,omitempty"`

	// ValuesHash is the hash of the Secret with the Helm values. Empty means no such Secret.
	// +nullable
	ValuesHash string `json:"valuesHash,omitempty"`

	// DownstreamResourcesGeneration grows whenever a Secret or ConfigMap copied for this deployment changes.
	DownstreamResourcesGeneration int64 `json:"downstreamResourcesGeneration,omitempty"`

	// OffSchedule is true while a Schedule forbids updates.
	OffSchedule bool `json:"offSchedule,omitempty"`

	// WaitingForValues is true while the Secret with the Helm values does not exist. The agent does not deploy.
	WaitingForValues bool `json:"waitingForValues,omitempty"`
}

// BundleDeploymentStatus is what the agent reports.
type BundleDeploymentStatus struct {
	// Conditions: Deployed, Installed, Monitored and Ready.
	// +nullable
	Conditions []genericcondition.GenericCondition `json:"conditions,omitempty"`

	// AppliedDeploymentID is the deployment ID last tried.
	// +nullable
	AppliedDeploymentID string `json:"appliedDeploymentID,omitempty"`

	// Release is "<namespace>/<name>:<revision>" of the Helm release.
	// +nullable
	Release string `json:"release,omitempty"`

	// Ready is true when all resources are ready.
	Ready bool `json:"ready,omitempty"`

	// NonModified is true when all resources are as deployed.
	NonModified bool `json:"nonModified,omitempty"`

	// NonReadyStatus lists the first ten resources that are not ready.
	// +nullable
	NonReadyStatus []NonReadyStatus `json:"nonReadyStatus,omitempty"`

	// ModifiedStatus lists the first ten resources that are not as deployed.
	// +nullable
	ModifiedStatus []ModifiedStatus `json:"modifiedStatus,omitempty"`

	// IncompleteState is true when one of the two lists was cut.
	IncompleteState bool `json:"incompleteState,omitempty"`

	// Display holds texts for printer columns.
	// +nullable
	// +structType=atomic
	Display BundleDeploymentDisplay `json:"display,omitempty"`

	// SyncGeneration is the options' forceSyncGeneration last deployed.
	// +nullable
	SyncGeneration *int64 `json:"syncGeneration,omitempty"`

	// Resources lists the resources of the release.
	// +nullable
	Resources []DeployedResource `json:"resources,omitempty"`

	// ResourceCounts counts them by state.
	// +structType=atomic
	ResourceCounts ResourceCounts `json:"resourceCounts,omitempty"`

	// DownstreamResourcesGeneration is the spec's, once the copies are in place.
	DownstreamResourcesGeneration int64 `json:"downstreamResourcesGeneration,omitempty"`
}

// BundleDeploymentDisplay holds texts for printer columns.
type BundleDeploymentDisplay struct {
	// Deployed is the status of condition Deployed, or its message when that is an error.
	// +nullable
	Deployed string `json:"deployed,omitempty"`

	// Monitored is the status of condition Monitored, or its message when that is an error.
	// +nullable
	Monitored string `json:"monitored,omitempty"`

	// State is the deployment's state.
	// +nullable
	State string `json:"state,omitempty"`
}

// DeployedResource is a resource of the release, as found in the cluster.
type DeployedResource struct {
	// +nullable
	Kind string `json:"kind,omitempty"`
	// +nullable
	APIVersion string `json:"apiVersion,omitempty"`
	// +nullable
	Namespace string `json:"namespace,omitempty"`
	// +nullable
	Name string `json:"name,omitempty"`

	// CreatedAt is the resource's creationTimestamp.
	// +nullable
	CreatedAt metav1.Time `json:"createdAt,omitempty"`
}
