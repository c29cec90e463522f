// Package managertest is an API server in memory for tests of the machine provider's controllers. It answers one
// question: what does a controller write, given these objects, at any point of a failure?
//
//	New ─► Context of package manager; Put objects ─► the controller ─► Get, Writes
//
// Caches show the current objects, or those at the time of FreezeCaches.
package managertest
