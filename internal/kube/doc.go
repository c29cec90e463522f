// Package kube builds the clients of a process for its own API server: where it is, with which credentials, how long a
// request may take, and how caches list after an outage.
//
//	own flags ─► LoadOwn ─► Tune, Watching, RelistAfterOutage ─► clients and informers
//
// The packages below it: foreign talks to API servers of users, kubeconfig reads what users wrote, accounts mints tokens.
package kube
