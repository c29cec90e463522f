// Package affected enqueues the Bundles whose deployment a change of another object concerns.
//
//	Cluster, ClusterGroup, BundleNamespaceMapping, Namespace, Content, liveness ─► Bundles that may go there ─► enqueue
//
// It enqueues every Bundle that a change concerns, and few others. Heartbeats and summaries enqueue nothing. Objects of
// the initial list enqueue nothing either, because all Bundles are enqueued at that time.
package affected
