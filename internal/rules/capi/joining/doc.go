// Package joining decides about a cluster of Cluster API that the hub cannot reach. The hub creates a token for it and a
// Secret with a manifest, which the bootstrap provider of the cluster applies:
//
//	Cluster of Fleet ─► token (one client ID) ─► values ─► Secret <cluster>-fleet-join ─► bootstrap data ─► agent
//	        ▲                                                                                               │
//	        └─────────────────────────────────────── first heartbeat ◄─────────────────────────────────────┘
//
// Invariants:
//   - The token is for the client ID of this Cluster only, and ends with the first heartbeat or with the Cluster.
//   - Until then it is prolonged. What was handed out stays valid for Reserve, however long a provider takes.
//   - After that the Secret stays without a token: a control plane that is scaled refers to it again.
//   - Only a token and a Secret with the marks of this cluster are changed.
package joining
