// Package conditions defines the conditions and reasons that the objects of Fleet report, and reads and writes them in
// a status.
//
//	controller, agent ─► Set ─► status.conditions ─► Get, IsTrouble ─► command line, metrics, other controllers
//
// Each type is written by one controller, or by the agent. The comments of the constants are docs/conditions.md: after a
// change, run `go test ./pkg/apis/fleet.cattle.io/v1alpha1/conditions -update-docs`.
package conditions
