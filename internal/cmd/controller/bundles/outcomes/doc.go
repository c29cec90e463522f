// Package outcomes stores the targeting outcome of each Bundle. The controller of Bundles writes it, and the controller
// of statuses reads it. Targeting is expensive and runs when a Bundle or a Cluster changes; statuses change much more
// often.
//
//	bundle ─► Set ─► status
//
// The store is lost with the process, and complete again after one pass over all Bundles.
package outcomes
