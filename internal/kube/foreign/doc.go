// Package foreign is a client for the API server of a downstream cluster, which is not trusted: it follows no redirects,
// dials no local addresses, bounds every answer, and cuts what the server says before it reaches a log or a condition.
//
//	kubeconfig bytes, Options ─► Config ─► New ─► Client ─► Apply, Find, List, Remove
package foreign
