// Package capi decides what the hub does about a Cluster of Cluster API: whether it creates, keeps or deletes a Cluster
// of Fleet for it, and which labels the Cluster gets.
//
//	Parse(object) ─► Cluster ─┐
//	ReadSecret(secret) ───────┼─► Decide ─► Outcome (create, follow, delete, report)
//	Clusters of Fleet ────────┘
//
// Everything in a Cluster of Cluster API and in its Secret is written by tenants. Parse and ReadSecret bound it.
//
// Invariants:
//   - A Cluster of Fleet has the namespace and the name of the one of Cluster API. So there are never two.
//   - Only Clusters with annotation.CAPICluster are changed and deleted.
package capi
