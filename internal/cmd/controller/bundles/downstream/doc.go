// Package downstream copies the Secrets and ConfigMaps of a Bundle's downstreamResources into the namespaces of its
// clusters, where the agents can read them.
//
//	BundleDeployment: spec.options.downstreamResources ─┐
//	Secret, ConfigMap of the Bundle's namespace ────────┴─► copy beside the BundleDeployment ─► its generation + 1, and which
//	                                                                                         copies the agent knows
//	                                                     ├► problems ─► outcomes ─► the Bundle's status
//	a Secret's copy that it no longer names ─────────────┴► deleted
//
// A BundleDeployment counts only for what its Bundle asks for, and only on clusters that the Bundle may go to: see
// asked. Kubeconfigs, ServiceAccount tokens and Fleet's own Secrets are never copied. An object that is not a copy is
// never overwritten.
//
// Originals are watched by name and version only, and read when they have to be copied. If that fails for a cluster,
// the error concerns this cluster alone, and the copy is retried when the original changes.
package downstream
