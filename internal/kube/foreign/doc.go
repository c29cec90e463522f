// Package foreign is a client for the API server of a downstream cluster, which is not trusted. It follows no
// redirects, connects to no local addresses, limits every response, and shortens the server's text before it
// reaches a log or a condition.
//
//	kubeconfig bytes, Options ─► Config ─► New ─► Client ─► Apply, Find, List, Remove
package foreign
