// Package stored reads, watches and writes the agent's objects in its own cluster: its identity, its bootstrap secret and its
// configuration.
//
//	Secrets fleet-agent, fleet-agent-bootstrap ─ Read ──► Objects: as they are, parsed, or why they cannot be
//	ConfigMap fleet-agent                      ─ Watch ─► WatchedVersions: whether they have changed since
//	                                           ◄─ Write, DropBootstrap
//
// Invariants: an identity is never missing while it is replaced. A bootstrap secret that the agent has not read is never
// deleted. No error contains a token.
package stored
