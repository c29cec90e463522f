// Package remote decides when work on other clusters runs, so that clusters that are slow or cannot be reached do not
// block the others.
//
//	Submit ─► queue of probes ─► the cluster answers ─► queue of work ─► Do
//	                        └──► it does not ─────────────────────────► Do with an error
//
// A probe is cheap, so many run at the same time. Only clusters that answer get a worker, of which there are few. Both
// queues are divided: clusters that did not answer the last time, or are slow, have workers of their own and never use
// those of the others. Everything ends with the context of Run.
//
// Dialer and Reacher connect to clusters with kubeconfigs of users.
//
// Probes probes a new Cluster before any object is created for it. Creating a Cluster's objects on the hub costs
// ten times as much as a probe, and a reachable cluster must not wait until this is done for hundreds of unreachable
// ones. Unreachable Clusters get the same objects, a few at a time.
//
//	new Cluster ─► Start ─► reachable ───────────────► reconciled ─► Result
//	                   └──► unreachable ─► its turn ─► reconciled ─► Result
package remote
