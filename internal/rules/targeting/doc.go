// Package targeting decides which clusters a Bundle goes to and what is deployed to each of them. It is pure: the same
// Bundle, Clusters and ClusterGroups, in any order, give the same BundleDeployments, byte for byte.
//
//	Bundle × Clusters × ClusterGroups
//	  ─► Selection (which clusters)  ─► Merge (which options)  ─► Templater (this cluster's values)
//	  ─► Target (deployment ID)  ─► rollout (now or later)  ─► delivery (BundleDeployment, values Secret)
package targeting
