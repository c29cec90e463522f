// Package hub builds and starts what the controllers of the hub share: one App with configuration, clock, caches, clients and
// the recorder of Events. It imports no controller.
//
//	Check: API server, CRDs, configuration ─► New: App ─► every controller's Register ─► Fill ─► Work
//
//	API server ─► clients: decode ─► scopes: cache what strip keeps ─► controllers ─► Report ─► status, Event
//	                  └─► undecodable: neither reconciled nor overwritten
//
// Fill syncs all caches, which a standby does, too. Work runs the work that was registered with BeforeControllers, and then opens the
// gate for the controllers. Start does both.
//
// Invariants:
//   - Nothing is watched before Fill.
//   - Nothing is written before Work.
//   - A cache never holds more of an agent's report than a status may.
//   - An object that cannot be decoded affects no other object.
package hub
