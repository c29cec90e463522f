// Package hub answers what the controllers of the hub share: one Context with configuration, clock, caches, clients and
// the recorder of Events. It imports no controller.
//
//	Check: API server, CRDs, configuration ─► New: Context ─► every controller's Register ─► Start
//
//	API server ─► clients: decode ─► scopes: strip, cache ─► controllers ─► Report ─► status, Event
//	                  └─► undecodable: neither reconciled nor overwritten
//
// Start syncs all caches, runs the work that was registered with First, and then starts the controllers.
//
// Invariants: nothing is watched before Start. A cache never holds more of an agent's report than a status may. An
// object that cannot be decoded affects no other object.
package hub
