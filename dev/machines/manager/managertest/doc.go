// Package managertest simulates an API server in memory for tests of the machine provider's controllers, and records what
// a controller writes, also if its writes fail.
//
//	New ─► Context of package manager; Put objects ─► the controller ─► Get, Writes
//
// Caches show the current objects, or those at the time of FreezeCaches.
package managertest
