// Package hub runs a hub with the product, and measures what it does until it is at rest.
//
//	Start: control plane, helm install, its own cluster has joined ─► Hub
//	Listen, Count, UntilQuiet: its audit log, until there are no more writes
//	Controller, Reading, Profiled: its processes
//
// The agents and the Bundles on it belong to the scenarios.
package hub
