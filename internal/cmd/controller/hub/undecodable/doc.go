// Package undecodable protects controllers from objects with values that their CRD allows but their Go type cannot hold.
// Any tenant can write them.
//
//	API server ─► Serializer: what can be decoded ─► caches ─► Guard ─► complete: handlers
//	                 └─► the rest ─► Objects ─► log, Event       └────► Fields: not reconciled, not overwritten
//
// Invariants: such an object affects no other object. It stays in the caches without these fields, so that selectors and
// indexes find it. It is not reconciled or overwritten until it is corrected or deleted. Only orders to revoke a credential
// are carried out nevertheless.
package undecodable
