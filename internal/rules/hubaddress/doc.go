// Package hubaddress decides whether an agent knows the address and the CAs of the hub that are now configured.
//
//	configuration, Cluster, its registrations, hub document ─► IsUnknown
package hubaddress
