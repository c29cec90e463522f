// Package leftovers counts the objects that registrations leave on a hub.
//
//	inventory before, inventory after ─► Between ─► Left, per cluster and kind, and when the credentials have expired
package leftovers
