// Package register obtains the agent's identity on the hub and keeps checking it.
//
//	look (three local objects, the hub's answers) ─► registering.Decide ─► act ─► look again
//
// registering.Decide makes the decisions. This package reads, sends requests, writes and waits for it: stored has the local
// objects, hubclient the requests to the hub, and pace says when a request is sent again.
//
// Invariants:
//   - An identity is stored only after a hub has accepted it.
//   - A stored identity is sent only to its own hub, wherever a bootstrap secret leads.
//   - The work with one identity ends before the work with the next one begins. If it does not end, Run returns.
//   - A bootstrap secret is deleted only while an identity is in use.
//
// Begin at register.go. With few exceptions, each file refers only to files in the lines below it:
//
//	register                          the loop, and which function performs a step
//	observe, credential, serve        look; fetch a credential; use an identity
//	request, renew, refresh           request a credential; renew its token; read what the hub gives for a recovery
//	recover, hubdocument              return after a loss; follow the hub to another address or CA
//	probe, key, write                 test an identity at its hub; the recovery Secret; the stored identity
//	pauses                            wait, but not beyond the time at which the token is due
//	agent                             what Run is given, and what it keeps
package register
