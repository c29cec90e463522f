// Package observer measures from outside when clusters register.
//
//	watch of ClusterRegistrations ─► the first one of a client ─┐
//	watch of Clusters ────────────► its first heartbeat ────────┴► Took of one client, Span of many
//
// Any client with the rights can open these watches.
package observer
