// Package manageagent creates a Bundle with the agent for every Cluster whose agent has reported. The agent then
// takes over its own Deployment and follows the hub's settings.
//
//	Cluster ─► settings ─► agent.yaml ─► Bundle fleet-agent-<cluster> ─► (delivery) ─► the agent adopts itself
//
// Invariants:
//   - Until its first heartbeat, an agent's objects belong to the import, or to the administrator who installed it.
//   - The Bundle contains the same Deployment as the import, so that the takeover restarts nothing.
package manageagent
