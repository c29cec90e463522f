// Package revocation decides what an operator's order to revoke the credential or the key of an agent changes.
//
//	annotations of a Cluster ─► Decide ─► block the key, then delete the accounts, then record the order as done
package revocation
