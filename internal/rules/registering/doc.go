// Package registering decides what an agent does next: use its stored credential, register with its bootstrap Secret,
// wait for the hub, or stop with an error that names the remedy.
//
//	Input (stored identity, bootstrap Secret, request, answers of the hub) ─► Decide ─► Outcome
package registering
