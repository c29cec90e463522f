// Package selection decides to which clusters a Bundle is deployed, and which of its BundleDeployments stay unchanged or
// are deleted.
//
//	Bundle, Clusters, ClusterGroups, reach ─► Decide ─► Selection: targets and rollout layout ─► Steps ─► rollout.Decide
//	BundleDeployments ──────────────────────┘                    └► blocked deployments, Orphans
//
// If it is unknown whether a cluster is a target, nothing is created, changed or deleted there. If the Bundle is invalid,
// nothing is changed anywhere. A Cluster that is being deleted, or that has no namespace, loses nothing.
package selection
