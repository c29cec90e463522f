// Package labcluster reconciles LabClusters: it reserves the endpoint at which the control plane of a Cluster serves.
//
//	Cluster, LabCluster ─► Decide ─► finalizer ─► reserve the endpoint ─► spec.controlPlaneEndpoint ─► status.provisioned
//
// Each step is idempotent and leads to the next one, so a provider that is killed continues where it was. The ID of the
// endpoint is the UID of the LabCluster: another LabCluster of that name gets another endpoint. The finalizer stays until
// the endpoint is free, which is after the deletion of the machine that has it.
package labcluster
