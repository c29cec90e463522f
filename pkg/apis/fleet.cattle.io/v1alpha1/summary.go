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
	NotReady    int `json:"notReady,omitempty"`
	WaitApplied int `json:"waitApplied,omitempty"`
	ErrApplied  int `json:"errApplied,omitempty"`
	OutOfSync   int `json:"outOfSync,omitempty"`
	Modified    int `json:"modified,omitempty"`
	Ready       int `json:"ready"`
	Pending     int `json:"pending,omitempty"`

	// DesiredReady is the number of all deployments.
	DesiredReady int `json:"desiredReady"`

	// NonReadyResources describes the first ten that are not ready.
	// +nullable
	NonReadyResources []NonReadyResource `json:"nonReadyResources,omitempty"`
}

// NonReadyResource is a deployment that is not ready, and why.
type NonReadyResource struct {
	// Name is the Bundle's name in the status of a Cluster, and
	// "<namespace>/<name>" of the Cluster in the status of a Bundle.
	// +nullable
	Name string `json:"name,omitempty"`

	// BundleState is the deployment's state.
	// +nullable
	BundleState BundleState `json:"bundleState,omitempty"`

	// Message says why.
	// +nullable
	Message string `json:"message,omitempty"`

	// ModifiedStatus lists resources that are not as deployed.
	// +nullable
	ModifiedStatus []ModifiedStatus `json:"modifiedStatus,omitempty"`

	// NonReadyStatus lists resources that are not ready.
	// +nullable
	NonReadyStatus []NonReadyStatus `json:"nonReadyStatus,omitempty"`
}

// ModifiedStatus is a resource that is not as deployed.
type ModifiedStatus struct {
	// +nullable
	Kind string `json:"kind,omitempty"`
	// +nullable
	APIVersion string `json:"apiVersion,omitempty"`
	// +nullable
	Namespace string `json:"namespace,omitempty"`
	// +nullable
	Name string `json:"name,omitempty"`

	// Missing is true when the resource would have to be created.
	Missing bool `json:"missing,omitempty"`

	// Exist is true, together with Missing, when the resource exists but belongs to another owner.
	Exist bool `json:"exist,omitempty"`

	// Delete is true when the resource should not be there.
	Delete bool `json:"delete,omitempty"`

	// Patch is what would make the resource as deployed.
	// +nullable
	Patch string `json:"patch,omitempty"`
}

// NonReadyStatus is a resource that is not ready.
type NonReadyStatus struct {
	// +nullable
	UID types.UID `json:"uid,omitempty"`
	// +nullable
	Kind string `json:"kind,omitempty"`
	// +nullable
	APIVersion string `json:"apiVersion,omitempty"`
	// +nullable
	Namespace string `json:"namespace,omitempty"`
	// +nullable
	Name string `json:"name,omitempty"`

	// Summary says in what way it is not ready.
	Summary ResourceSummary `json:"summary,omitempty"`
}

// ResourceSummary is the state of one resource.
type ResourceSummary struct {
	// State is a word for the resource's state, such as in-progress.
	State string `json:"state,omitempty"`

	// Error is true when it will not become ready by itself.
	Error bool `json:"error,omitempty"`

	// Transitioning is true when it is about to change.
	Transitioning bool `json:"transitioning,omitempty"`

	// Message says why.
	Message []string `json:"message,omitempty"`
}

// ResourceCounts counts deployed resources by state.
type ResourceCounts struct {
	Ready int `json:"ready"`
	// DesiredReady is the number of all resources.
	DesiredReady int `json:"desiredReady"`
	WaitApplied  int `json:"waitApplied"`
	Modified     int `json:"modified"`
	// Orphaned counts resources that should not be there.
	Orphaned int `json:"orphaned"`
	Missing  int `json:"missing"`
	Unknown  int `json:"unknown"`
	NotReady int `json:"notReady"`
}
