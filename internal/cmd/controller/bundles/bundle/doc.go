// Package bundle deploys Bundles: it creates, updates and deletes their BundleDeployments.
//
//	gather   Bundle, Clusters, ClusterGroups, mappings, BundleDeployments ─► input
//	decide   input ─► selection (which clusters) ─► round (what the rollout allows now) ─► writes
//	act      writes ─► Content ─► per cluster: values Secret ─► BundleDeployment; orphans deleted; outcomes ─► status
//	         a round that used up its limit ─► the next round, with the answers of the API server
//
// A deleted Bundle deletes its BundleDeployments, and then loses its finalizer.
//
// It writes only what differs, and reads from the API server only what is not cached, such as the values Secrets. A
// rollout counts its own writes (mutations), so that no limit is exceeded while the cache lags. A failure for one
// cluster does not stop the others. Everything in memory can be recomputed or listed again.
package bundle
