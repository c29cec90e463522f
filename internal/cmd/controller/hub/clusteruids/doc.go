// Package clusteruids records, for each Cluster of Fleet, the UID of the namespace kube-system of the cluster that its
// kubeconfig reaches. The UID identifies the cluster.
//
//	kubeconfig ─► Read ─► UID ─► Note, Claim ─► Persist ─► annotation of the Cluster's namespace on the hub
//	                                                 UID ─► Holders ─► Clusters that are this cluster
//
// Invariants:
//   - Only what the hub itself has read counts. Agents and users of workspaces can write the Cluster, its status and its
//     client ID, but not its namespace.
//   - A namespace without the hub's marks does not count, nor that of a Cluster that does not exist.
//   - There is one process at a time that claims (the leader), so that a mutex decides between two imports.
package clusteruids
