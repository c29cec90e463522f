// Package recovery keeps what an agent needs to return to its hub after it has lost everything else.
//
//	Secret fleet-agent-recovery-<namespace> ─ Load ─► key, protocol.RecoveryData ─ Save ─► the same Secret
//	hub ─ Fetch: no credential, TLS not verified ─► text, only for identity.VerifyDocument
//
// The Secret is in namespace kube-system, so that it survives the deletion of the agent's namespace. If the agent may
// not write there, its own namespace has to do. A Secret of another type is never touched.
package recovery
