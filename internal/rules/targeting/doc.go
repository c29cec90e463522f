// Package targeting decides which clusters a Bundle goes to and what each of them
// is told. It is pure: the same Bundle, Clusters and ClusterGroups, in whatever
// order, give the same BundleDeployments, byte for byte.
//
//	Bundle × Clusters × ClusterGroups
//	  ─► Selection (who)  ─► Merge (which options)  ─► Templater (this cluster's values)
//	  ─► Target (deployment ID)  ─► rollout (now or later)  ─► delivery (BundleDeployment, values Secret)
package targeting
