// Package recovery decides what the hub keeps for agents so that they can return after a loss.
//
//	workspace with a Cluster ─► account, Role and RoleBinding: create ClusterRegistrations there
//	Cluster, key that its agent reports ─► pin the key
//	Cluster with a pinned key ─► Secret fleet-recovery in its namespace, written again when its ticket is old
package recovery
