// Package provider runs the machine provider: the controllers of LabClusters, LabMachines, LabConfigs and
// LabControlPlanes in one process.
//
//	kubeconfig ─► manager ─► Register of each kind ─► Start ─► the ready file
//	socket ─────► client of the machine host ─┘
//
// Run one process at a time. The process keeps no state: it can be killed at any time and started again.
package provider
