package pack

import fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"

// Settings override those of a fleet.yaml. Booleans switch something on, never off.
type Settings struct {
	Paused, KeepResources, DeleteNamespace bool
	// CorrectDrift replaces that of a fleet.yaml, unless it is nil.
	CorrectDrift *fleet.CorrectDrift
	// ServiceAccount and TargetNamespace replace those of a fleet.yaml, unless they are empty.
	ServiceAccount, TargetNamespace string
	// SyncGeneration always replaces that of a fleet.yaml.
	SyncGeneration int64
}

// apply changes a Bundle.
func (s Settings) apply(spec *fleet.BundleSpec) {
	spec.Paused = spec.Paused || s.Paused
	spec.KeepResources = spec.KeepResources || s.KeepResources
	spec.DeleteNamespace = spec.DeleteNamespace || s.DeleteNamespace
	spec.ForceSyncGeneration = s.SyncGeneration
	if s.CorrectDrift != nil {
		drift := *s.CorrectDrift
		spec.CorrectDrift = &drift
	}
	if s.ServiceAccount != "" {
		spec.ServiceAccount = s.ServiceAccount
	}
	if s.TargetNamespace != "" {
		spec.TargetNamespace = s.TargetNamespace
	}
}
