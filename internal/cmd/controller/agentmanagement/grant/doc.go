// Package grant answers ClusterRegistrations. It finds or creates the Cluster, creates an account for the agent in
// the cluster's namespace, and writes the account's token to a credential Secret. Only the account that the agent
// registers with can read this Secret.
//
//	ClusterRegistration ─► queue ─► gather ─► grant.Decide ─► writes, in the order of the outcome
//	                                                            Cluster ─► rights ─► owner ─► credential ─► status
//
// Invariants:
//   - All writes of a reconcile follow one decision of the rule. While gathering, the rule says whether more has to be
//     read. Nothing is read between writes, except what a write itself needs.
//   - After an error nothing more is written, unless the failed write only deletes. Each write can be repeated.
//   - What is done about one request does not grow with the number of requests.
package grant
