// Package values writes the Secrets with the Helm values of BundleDeployments, and checks whether a Secret still holds
// the values that were written.
//
//	values of a BundleDeployment ─► Create, Write ─► Secret ─► BundleDeployment with its hash ─► SetOwner, Finish
//	edited or deleted by others, reported by the agent ─► MarkUnverified ─► compared with the next write
//
// A Secret is written before the BundleDeployment that carries the hash of its values. So a Secret is known to match
// without reading it, unless a write failed or Guard has seen a change. An object that is not a values Secret is never
// changed, except for a copy of another Secret that the hub made under this name.
package values
