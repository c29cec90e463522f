// Package clusterimport installs the agent on a Cluster that names a kubeconfig, keeps it in the state that the
// Cluster's settings describe, and removes it where the local agent is disabled. It inspects agents that do not report.
//
//	Cluster ─► gather ─► importing.Decide ─► client ID │ import token │ status
//	   ▲                                └──► job: probe ─► install │ remove │ inspect ─► status ─┐
//	   └─────────────────────────────────────────────────────────────────────────────────────────┘
//
// Invariants:
//   - The rule decides once in a reconcile. What it wants done on another cluster is a job, which ends by enqueueing the
//     Cluster: handlers never connect to another cluster.
//   - There is at most one job of a Cluster at a time. Package remote decides when it runs.
//   - A kubeconfig is never kept, and is used only as long as the Cluster may use its Secret.
//   - What the process remembers (clusterRecords) saves work. Losing it changes no result.
package clusterimport
