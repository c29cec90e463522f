// Package observer measures from outside when clusters register.
//
//	watch of ClusterRegistrations ─► the first one of a client ─┐
//	watch of Clusters ────────────► its first heartbeat ────────┴► Took of one client, Span of many
//	watch of ClusterRegistrations ─► one that is refused ────────► end of UnlessRefused
//
// Any client with the rights can open these watches.
package observer
