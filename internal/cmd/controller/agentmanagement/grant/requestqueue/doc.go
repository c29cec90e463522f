// Package requestqueue limits how many requests of one client, and of one token, are processed at a time. The cost of a decision
// does not grow with the number of requests.
//
//	request ─► limit of its client ─► limit of its token ─► Decide
//	                └─ exceeded ───────────┴──────────────► waits until an older request has ended, then enqueued
//
// So a client that creates too many requests takes few places of its token.
package requestqueue
