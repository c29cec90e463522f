// Package requests evaluates a ClusterRegistration by itself: who grants it, whether it is in progress or used,
// which of two is older, and which labels it may set.
//
//	ClusterRegistration (and its Cluster) ─► predicates ─► grant, importing, hubaddress
//
// Clients write requests. What only the hub writes is its status and, once it is answered, annotation "replaces-key" and those
// that end in "at-grant".
package requests
