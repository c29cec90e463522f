// Package walls tests the walls between the tenants of a hub, on a real API server and with the controllers under the
// rights that the chart gives them. It answers two questions.
//
// What can a tenant do to others? (TestWalls) The hub has two tenants. The identities of one of them, its workspace
// admin, the account of its token and the agent of its cluster, send random sequences of hostile requests. Whatever
// they send:
//
//   - no object outside the attacker's namespaces is created, changed or deleted,
//   - no byte of another tenant's Secrets, or of the hub's, gets into an object that the attacker can read,
//   - no identity of the attacker is granted a right in another namespace, or more than its own in the attacker's.
//
// What may each identity do? (TestRights) After a real registration the API server is asked for every verb on every
// resource in every kind of namespace. What it allows is listed in testdata/rights.golden; everything else is denied.
//
//	generator ─► sequence of requests ─► API server ◄─► controllers
//	                                         │
//	                                 watches of everything ─► invariants ─► violations: seed, sequence, requests
//
// `go test ./e2e/walls -seed=7` repeats a run; `make walls N=20000` is a longer one.
package walls
