// Package labcontrolplane reconciles LabControlPlanes: it creates what a Cluster needs so that its API server answers, and
// reports the state of the control plane.
//
//	LabControlPlane, Cluster, Secrets, Machine, answer of the API server ─► Decide ─► one Outcome ─► act
//
//	Adopting ─► Securing ─► Waiting for the endpoint ─► Running ─────────────────► Deleting
//	finalizer   CA, keys                                kubeconfig, LabMachine,     Machine, then
//	                                                    LabConfig, Machine, status  the finalizer
//
// Invariants:
//   - The names of the Machine and its two objects are computed from the UID of the LabControlPlane. So they are created
//     once, however often this is requested, and a recreated LabControlPlane gets others.
//   - A Machine is never replaced: its etcd has no peers, so another Machine would lose the cluster's data. Labels,
//     annotations and deletion timeouts of the template are changed in place.
//   - controlPlaneInitialized becomes true when the API server answers and machines may join, and stays true.
//   - A Secret of another owner is not used.
package labcontrolplane
