// Package machines installs and starts the machine provider for Cluster API: CRDs, rights and a child process.
// A management cluster then creates clusters on this machine. Tests and demos use it; it never ships.
//
//	plane.CAPI (core) ──► Start: CRDs, rights ─► token ─► machineprovider ─┐
//	host.Start (machines) ◄───────────── Unix socket ──────────────────────┘
//
// The provider runs with the rights of its ServiceAccount in rights.yaml, never as admin. It keeps no state and can be
// killed at any time.
package machines
