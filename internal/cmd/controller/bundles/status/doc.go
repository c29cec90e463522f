// Package status writes the status of Bundles and Clusters from the state of their BundleDeployments and agents.
//
//	BundleDeployment ─┬─► its own status.display; its finalizer when it is deleted
//	                  ├─► Bundle:  summary, partitions, display, condition Ready   (with the outcomes)
//	                  └─► Cluster: summary, counts, display, conditions Ready and AgentReporting
//	Liveness ─────────────┘
//
// It writes only these fields of each status. Several changes to one Bundle or Cluster within a short time cause one
// write.
package status
