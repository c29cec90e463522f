// Package hub is the agent's client of the upstream API server.
//
//	BundleDeployments of one namespace (watched) ─► cache
//	Contents, Secrets and ConfigMaps (read by name) ─► callers
//	status ─► update, or a patch after a conflict
//
// It needs only the rights that a registration grants, and lists nothing but the BundleDeployments.
package hub
