// Package access chooses the account with whose rights the agent reads and writes in the downstream cluster.
//
//	options.serviceAccount ─► Accounts ─► Identity ─► clients that impersonate the account
//
// An Identity is the agent itself or a service account of the agent's namespace. All identities share the results of
// API discovery and a transport with timeouts. Accounts also decides whether an account may use a namespace or take
// over a release: the agent stores releases itself, so these rules keep a tenant from gaining rights by it.
package access
