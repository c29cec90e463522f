// Package queue processes keys. Each key is handled at most once at a time, and not more often than the spacing
// allows, so that a burst of events causes one pass. The first event of a burst is handled immediately, unless
// Settling is set.
//
//	an object changed ─► reconcile.WatchChanges ─► Add ─► at most one pass per key ─► again after an error
//
// The controllers of Bundles use these queues instead of one queue per kind of object. They seldom work on the object
// that changed, and they inspect a change before they enqueue a key.
package queue
