// Package expiry measures agents whose tokens expire, with and without an outage of their hub.
//
//	identities of swarm ─► tokens of ten minutes ─► agents: register.Run, a heartbeat and a watch ─► hub
//	      renewals are counted ─► the API server is gone until every token has expired ─► the returns are timed
//
// The agents run the code of the real agent, so that its rules decide when they renew, ask again and recover. They have
// connections of their own, and share a cluster in memory that counts their requests. They deploy nothing.
package expiry
