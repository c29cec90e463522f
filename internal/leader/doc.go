// Package leader runs work in one replica at a time. It contains the election, the fence that stops writes of a
// replica that may have lost its lease, and the restart of the work after the hub was restored from an older
// state.
//
//	Options ─► Lead ─► lease ─► Fence ─► work, until the lease is lost or the context ends
package leader
