// Package deploy turns the BundleDeployments of one cluster into Helm releases and reports their status. It is the
// loop; its parts are the packages below it, which do not know the loop.
//
//	BundleDeployment ─► decide ─► source: chart, values ─► release: Helm ─► objects ─► outcome: status ─► hub
//	                      ▲                                                    │
//	                      └──────────────── watch: their metadata ◄────────────┘
//
// reconcile.go is where to begin: locate the release, decide, execute, monitor, correct, repair, report. deployer.go
// makes the parts and runs the queue, events.go enqueues, collect.go finds releases of BundleDeployments that are gone.
//
// One worker at a time handles a BundleDeployment. A process may be killed at any point: the next one finds the state
// in the cluster and continues.
package deploy
