// Package workload lets machines join a cluster of the machine provider: it creates the bindings and
// tokens with which the kubelet of a new machine gets its certificate.
//
//	Bindings() ─► group of bootstrappers: may request a node's certificate, which is approved and signed
//	NewToken(CA, UID) ─► Token ─► Secret() ─► kube-system/bootstrap-token-<id>, expires after 30 minutes
//	kubeconfig ─► New ─► Client ─► Version, EnsureBindings, EnsureToken
//
// Invariants:
//   - A token is computed from the cluster's CA key and the UID of the bootstrap configuration. So it can be written again
//     at any time, and no other object has the same.
//   - Every request has a timeout.
package workload
