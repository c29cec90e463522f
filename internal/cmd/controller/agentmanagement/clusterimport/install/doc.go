// Package install does what an import does on the other cluster: it installs, changes, removes and reads an agent there.
//
//	importing.AgentDeployment ─► Agent.Install ─► reinstall │ hand over a bootstrap Secret │ upgrade
//
// Invariants:
//   - Nothing is written on the hub's own cluster, unless the Cluster may have its agent there.
//   - An agent that belongs to another hub is left alone. Only objects with our marks are removed.
//   - An agent keeps its identity, unless it has to register again.
package install
