// Package register obtains the agent's identity on the hub and keeps checking it.
//
//	look (three local objects, the hub's answers) ─► registering.Decide ─► act ─► look again
//
// registering.Decide makes the decisions. This package reads, sends requests, writes and waits for it: stored has the local
// objects, hubclient the requests to the hub, and pace says when a request is sent again.
package register
