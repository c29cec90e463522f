// Package delivery computes from the audit log how soon, and with which requests, Bundles reach their clusters.
//
//	begun ─► BundleDeployments written ─► agents have reported ─► statuses of Bundles and Clusters: told
//
// Of computes the figures of a Bundle for all clusters, Joining those of one more cluster with all Bundles.
package delivery
