// Package kube is the edge towards API servers: which one a process belongs to, what a kubeconfig from a
// user may contain, which certificates are trusted, what is applied to a downstream cluster, and who leads.
//
//	kubeconfig bytes ─► SafeConfig ─► WithTLSMode ─► Downstream
//	own flags ─► LoadOwn ─► Lead ─► the work
package kube
