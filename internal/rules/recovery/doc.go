// Package recovery decides what the hub keeps for agents so that they can return after a loss.
//
//	workspace with a Cluster ─► account, Role and RoleBinding: create ClusterRegistrations there
//	Cluster, key that its agent reports ─► pin the key
//	Cluster with a pinned key, data that its agent reports to have ─► Secret fleet-recovery in its namespace, if they are outdated
package recovery
