// Package kube creates the clients of a process for its own API server. It defines the address, the credentials,
// the timeouts, and how caches list again after an outage.
//
//	own flags ─► LoadOwn ─► Tune, Watching, RelistAfterOutage ─► clients and informers
//
// The packages below it: foreign connects to API servers of users, kubeconfig parses kubeconfigs of users,
// accounts creates tokens.
package kube
