// Package identity proves that the requests for a registration come from the same agent. An agent has one private key,
// which outlives its credentials. The hub pins the public key on the Cluster.
//
//	agent: Key ─ Prove(Claims) ─► public key and proof, annotations of a ClusterRegistration
//	hub:   public key, proof, expected Claims ─ Verify ─► the key signed this request, or an error
//
// Keys are on the curve P-256, and proofs are signed with ES256. Nothing else is accepted. Everything that is parsed
// comes from tenants and has a maximum size.
package identity
