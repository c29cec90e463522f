// Package revocation carries out the orders of operators to revoke the credential or the key of an agent, or the keys of
// all Clusters that joined with a token.
//
//	Cluster with an order ─► key blocked ─► accounts deleted ─► order recorded as done
//	token with an order   ─► order on each Cluster that joined with it ─► token deleted
//
// After an error the order is carried out again from its start.
package revocation
