// Package bootstrap registers the hub's own cluster, so that Bundles can be deployed to it like to any other. It also
// creates the objects that every hub has: two roles for agents, and the hub's namespaces.
//
//	configuration ─► Namespace ─► Secret local-cluster ─► Cluster local ─► ClusterGroup default
package bootstrap
