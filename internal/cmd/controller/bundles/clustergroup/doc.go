// Package clustergroup writes the status of ClusterGroups from the status of their member Clusters.
//
//	Cluster: labels, summary ─┐
//	ClusterGroup: selector ───┴─► members ─► ClusterGroup: counts, summary, display, conditions
//
// It computes everything from the caches and writes only differences. Several changes to the members of a group within
// a short time cause one write.
package clustergroup
