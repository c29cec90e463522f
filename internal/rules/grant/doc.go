// Package grant decides about a ClusterRegistration: whether it is granted, with which account, rights and credential,
// or why it waits or is rejected.
//
//	Input (request, Clusters, token, account, namespaces, time) ─► Decide ─► Outcome (writes in order, objects, status)
//
// No two files depend on each other. input.go and outcome.go depend on no other file, and answer.go only on input.go. The
// files with one question each follow, and grant.go asks them all.
//
// Invariants:
//   - Nothing is granted for a Cluster of another manager.
//   - A registered agent loses its place only to a request with its key or, if the Cluster has no pinned key, with the
//     same token, or after the operator confirms it. It makes no difference whether the agent reports.
//   - The credential is handed out last: when the rights are in force, and the Cluster owns the request.
package grant
