// Package identities knows which cluster is behind a Cluster of Fleet: it identifies clusters by the UID of their
// namespace kube-system.
//
//	kubeconfig ─► Read ─► UID ─► Note, Claim ─► Persist ─► annotation of the Cluster's namespace on the hub
//	                                                 UID ─► Holders ─► Clusters that are this cluster
//
// Invariants:
//   - Only what the hub itself has read counts. Agents and users of workspaces can write the Cluster, its status and its
//     client ID, but not its namespace.
//   - A namespace without the hub's marks does not count, nor that of a Cluster that does not exist.
//   - There is one process at a time that claims (the leader), so that a mutex decides between two imports.
package identities
