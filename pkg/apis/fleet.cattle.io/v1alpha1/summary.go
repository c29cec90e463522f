package v1alpha1

import "k8s.io/apimachinery/pkg/types"

// BundleState is the state of a Bundle in a Cluster.
type BundleState string

const (
	// Ready means deployed, and every resource is ready.
	Ready BundleState = "Ready"
	// NotReady means deployed, but a resource is not ready.
	NotReady BundleState = "NotReady"
	// WaitApplied means the agent has not yet deployed what it should.
	WaitApplied BundleState = "WaitApplied"
	// ErrApplied means the deployment failed.
	ErrApplied BundleState = "ErrApplied"
	// OutOfSync means the rollout has not yet reached the cluster.
	OutOfSync BundleState = "OutOfSync"
	// Pending means the cluster waits for its turn for the first deployment.
	Pending BundleState = "Pending"
	// Modified means deployed and ready, but a resource was changed since.
	Modified BundleState = "Modified"
)

// BundleSummary counts deployments by state.
type BundleSummary struct {
	// +optional
	NotReady int `json:"notReady,omitempty"`
	// +optional
	WaitApplied int `json:"waitApplied,omitempty"`
	// +optional
	ErrApplied int `json:"errApplied,omitempty"`
	// +optional
	OutOfSync int `json:"outOfSync,omitempty"`
	// +optional
	Modified int `json:"modified,omitempty"`
	// +optional
	Ready int `json:"ready"`
	// +optional
	Pending int `json:"pending,omitempty"`

	// DesiredReady is the number of all deployments.
	// +optional
	DesiredReady int `json:"desiredReady"`

	// NonReadyResources describes the first ten that are not ready.
	// +optional
	// +nullable
	NonReadyResources []NonReadyResource `json:"nonReadyResources,omitempty"`
}

// NonReadyResource is a deployment that is not ready, and why.
type NonReadyResource struct {
	// Name is the Bundle's name in the status of a Cluster, and
	// "<namespace>/<name>" of the Cluster in the status of a Bundle.
	// +optional
	// +nullable
	Name string `json:"name,omitempty"`

	// BundleState is the deployment's state.
	// +optional
	// +nullable
	BundleState BundleState `json:"bundleState,omitempty"`

	// Message says why.
	// +optional
	// +nullable
	Message string `json:"message,omitempty"`

	// ModifiedStatus lists resources that are not as deployed.
	// +optional
	// +nullable
	ModifiedStatus []ModifiedStatus `json:"modifiedStatus,omitempty"`

	// NonReadyStatus lists resources that are not ready.
	// +optional
	// +nullable
	NonReadyStatus []NonReadyStatus `json:"nonReadyStatus,omitempty"`
}

// ModifiedStatus is a resource that is not as deployed.
type ModifiedStatus struct {
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

	// Missing is true when the resource would have to be created.
	// +optional
	Missing bool `json:"missing,omitempty"`

	// Exist is true, together with Missing, when the resource exists but belongs
	// to another owner.
	// +optional
	Exist bool `json:"exist,omitempty"`

	// Delete is true when the resource should not be there.
	// +optional
	Delete bool `json:"delete,omitempty"`

	// Patch is what would make the resource as deployed.
	// +optional
	// +nullable
	Patch string `json:"patch,omitempty"`
}

// NonReadyStatus is a resource that is not ready.
type NonReadyStatus struct {
	// +optional
	// +nullable
	UID types.UID `json:"uid,omitempty"`

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

	// Summary says in what way it is not ready.
	// +optional
	Summary ResourceSummary `json:"summary,omitempty"`
}

// ResourceSummary is the state of one resource.
type ResourceSummary struct {
	// State is a word for the resource's state, such as in-progress.
	// +optional
	State string `json:"state,omitempty"`

	// Error is true when it will not become ready by itself.
	// +optional
	Error bool `json:"error,omitempty"`

	// Transitioning is true when it is about to change.
	// +optional
	Transitioning bool `json:"transitioning,omitempty"`

	// Message says why.
	// +optional
	Message []string `json:"message,omitempty"`
}

// ResourceCounts counts deployed resources by state.
type ResourceCounts struct {
	// +optional
	Ready int `json:"ready"`
	// DesiredReady is the number of all resources.
	// +optional
	DesiredReady int `json:"desiredReady"`
	// +optional
	WaitApplied int `json:"waitApplied"`
	// +optional
	Modified int `json:"modified"`
	// Orphaned counts resources that should not be there.
	// +optional
	Orphaned int `json:"orphaned"`
	// +optional
	Missing int `json:"missing"`
	// +optional
	Unknown int `json:"unknown"`
	// +optional
	NotReady int `json:"notReady"`
}
