// Package cluster creates a namespace for every Cluster, and deletes it when the Cluster is deleted.
//
//	Cluster ─► (probe) ─► gather ─► decide ─► finalizer ─► Namespace ─► status.namespace
//	Cluster deleted ─► accounts ─► BundleDeployments' finalizers ─► Namespace ─► finalizer
//
// Invariants:
//   - Nothing is created for a new Cluster before its probe has ended.
//   - A namespace that was made for another Cluster is neither used nor deleted.
//   - The accounts and rights of a Cluster's agents end before anything else of it. If only its namespace is deleted, the
//     finalizers of the BundleDeployments stay until the rights of agents there are gone.
package cluster
