package v1alpha1

import "github.com/rancher/wrangler/v3/pkg/genericcondition"

// BundleStatus summarizes the BundleDeployments of a Bundle.
type BundleStatus struct {
	// Conditions: Ready.
	Conditions []genericcondition.GenericCondition `json:"conditions,omitempty"`

	// Summary counts the BundleDeployments by state.
	// +structType=atomic
	Summary BundleSummary `json:"summary,omitempty"`

	// NewlyCreated is always 0: it counts what a pass over the Bundle creates while
	// the pass goes on, and a status is written between passes.
	NewlyCreated int `json:"newlyCreated,omitempty"`

	// Unavailable is how many BundleDeployments are unready or not up to date.
	Unavailable int `json:"unavailable"`

	// Unreachable is the number of clusters whose agents do not report. Their BundleDeployments count neither as
	// unavailable nor as outdated, and are updated when the agents report again.
	Unreachable int `json:"unreachable,omitempty"`

	// UnavailablePartitions is how many partitions are above their limit.
	UnavailablePartitions int `json:"unavailablePartitions"`

	// MaxUnavailable is how many BundleDeployments may be unavailable.
	MaxUnavailable int `json:"maxUnavailable"`

	// MaxUnavailablePartitions is how many partitions may be unavailable.
	MaxUnavailablePartitions int `json:"maxUnavailablePartitions"`

	// Partitions is the rollout, one partition after the other.
	Partitions []PartitionStatus `json:"partitions,omitempty"`

	// Display holds texts for printer columns.
	// +structType=atomic
	Display BundleDisplay `json:"display,omitempty"`

	// ResourceKey is no longer filled.
	// +nullable
	ResourceKey []ResourceKey `json:"resourceKey,omitempty"`

	// OCIReference is where the resources are when they are in an OCI registry.
	OCIReference string `json:"ociReference,omitempty"`

	// ObservedGeneration is the generation ResourcesSHA256Sum belongs to.
	ObservedGeneration int64 `json:"observedGeneration"`

	// ResourcesSHA256Sum is the hash of the manifest made of spec.resources, in hexadecimal.
	ResourcesSHA256Sum string `json:"resourcesSha256Sum,omitempty"`
}

// PartitionStatus is the state of one partition's rollout.
type PartitionStatus struct {
	// +nullable
	Name string `json:"name,omitempty"`

	// Count is the number of clusters in the partition.
	Count int `json:"count,omitempty"`

	// MaxUnavailable is how many of them may be unavailable.
	MaxUnavailable int `json:"maxUnavailable,omitempty"`

	// Unavailable is how many of them are.
	Unavailable int `json:"unavailable,omitempty"`

	// Summary counts the partition's BundleDeployments by state.
	Summary BundleSummary `json:"summary,omitempty"`
}

// BundleDisplay holds texts for printer columns.
type BundleDisplay struct {
	// ReadyClusters is "<ready>/<all>".
	// +nullable
	ReadyClusters string `json:"readyClusters,omitempty"`

	// State is the worst state of the BundleDeployments; empty when all are ready.
	// +nullable
	State string `json:"state,omitempty"`
}

// ResourceKey names a resource.
type ResourceKey struct {
	// +nullable
	Kind string `json:"kind,omitempty"`
	// +nullable
	APIVersion string `json:"apiVersion,omitempty"`
	// +nullable
	Namespace string `json:"namespace,omitempty"`
	// +nullable
	Name string `json:"name,omitempty"`
}
