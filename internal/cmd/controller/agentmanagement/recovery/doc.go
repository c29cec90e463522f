// Package recovery creates what agents need to return after a loss: the hub's key, the recovery account of each
// workspace, and for each Cluster with a pinned key the Secret from which its agent reads them.
//
//	start ─► Secret fleet-hub-key in the system namespace
//	Cluster ─► recovery account of its workspace ─► pin the reported key ─► Secret fleet-recovery in the Cluster's namespace
//
// Nothing here blocks a registration: without a key of the hub, agents join as before and cannot recover.
package recovery
