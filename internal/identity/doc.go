// Package identity proves that the requests for a registration come from the same agent. An agent has one private key,
// which outlives its credentials. The hub pins the public key on the Cluster.
//
//	agent: Key ─ Prove(Claims) ─► public key and proof, annotations of a ClusterRegistration
//	hub:   public key, proof, expected Claims ─ Verify ─► the key signed this request, or an error
//
// The hub has a key, too. With it the hub signs what an agent needs to return after a loss:
//
//	hub:   hub key ─ SignTicket(Ticket) ─► ticket, which the agent stores and sends back
//	hub:   public key of the agent ─ Seal ─► answer that only this agent can Open
//
// Keys are on the curve P-256, and signatures use ES256. Nothing else is accepted. Everything that is parsed
// comes from tenants and has a maximum size.
package identity
