// Package authorization measures what the API server needs to authorize the requests of agents and of the hub, with the
// bindings that a hub has for so many clusters. It has only a benchmark:
//
//	go test -run - -bench . -benchtime 300x ./e2e/authorization
//
//	bindings of N clusters ─► requests of an agent, a token, the hub ─► authorization_duration_seconds
package authorization
