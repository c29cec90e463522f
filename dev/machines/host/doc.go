// Package host creates, observes and deletes machines at a machine host, a process that plays a hypervisor for Cluster
// API's providers in dev/machines.
//
//	provider ── Client ── HTTP over a Unix socket ──► machine host (host/server)
//	                                                    ├─ endpoints: reserved ports for API servers
//	                                                    └─ machine (host/machine): folder, process group, port
//
// Requests are idempotent. A machine's ID decides everything: the same ID with the same wishes is the same machine and
// is executed once; with other wishes it is a conflict. Failed machines stay for their log until they are deleted; a
// retry is DeleteMachine and CreateMachine. The host and its machines outlive their clients, unless Start has started
// the host.
//
// A machine isolates nothing: its bootstrap data runs with the rights of the user who runs the host.
package host
