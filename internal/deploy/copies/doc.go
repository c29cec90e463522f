// Package copies creates, updates and deletes the copies of Secrets and ConfigMaps that a bundle brings from the hub.
//
//	spec.options.downstreamResources ─► Copier ─► copies in the namespace of the release
//	                                      ▲                    │
//	                                      └─── their metadata ◄┘
//
// A copy carries the name of its BundleDeployment and the namespace of the agent. The agent changes and deletes only
// copies that carry no other agent's namespace.
package copies
