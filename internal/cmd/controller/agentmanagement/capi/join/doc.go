// Package join joins clusters of Cluster API that the hub cannot reach: it keeps their tokens, and the Secrets with the
// manifest that their bootstrap providers apply.
//
//	Cluster of Fleet ─┐
//	token, values ────┼─► gather ─► rules/capi/joining.Decide ─► token │ Secret <cluster>-fleet-join │ reason
//	pull Secrets ─────┘
//
// Invariants:
//   - Package capi calls it for every Cluster that follows Cluster API, and reports what it returns.
//   - The manifest is neither kept nor logged: it contains a bearer token. Only a hash of what it is made of is kept.
//   - An unchanged Secret costs no request.
package join
