// Package capi registers clusters that Cluster API creates: it creates one Cluster of Fleet for each selected Cluster of
// Cluster API, keeps its labels, and deletes it with the Cluster of Cluster API.
//
//	Cluster of Cluster API ─┐
//	kubeconfig Secret ──────┼─► gather ─► rules/capi.Decide ─► create │ labels │ delete │ condition or Event
//	Cluster of Fleet ───────┤                          │
//	UID of kube-system ─────┘◄──── identify ◄──────────┘
//
// Invariants:
//   - Without capi.enabled nothing is requested, and the chart grants no right.
//   - The CRDs may be installed, updated and removed at any time: discovery is asked again at an interval.
//   - A kubeconfig is never kept, only its validity.
//   - The other cluster is asked only which one it is, before a Cluster is created for it. Package clusterimport does
//     everything else.
package capi
