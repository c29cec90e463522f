// Package places limits how many requests of one client, and of one token, are processed at a time. The cost of a decision
// does not grow with the number of requests.
//
//	request ─► list of its client ─(has a place, in progress)─► list of its token ─(has a place)─► Decide
//
// So a client that creates too many requests takes few places of its token.
package places
