// Package hubclient answers how the agent reaches a hub with one identity, and what the hub's responses mean.
//
//	kubeconfig ─ ParseKubeconfig ─► Access ─ Config, Connect ─► Hub ─► error ─ AnswerOf ─► registering.Answer
//
// Invariants: each call is one request with a timeout, which client-go does not retry. No redirect is followed. A
// kubeconfig that needs more than the server, the CA, the token and the namespace is rejected. No error contains bytes of
// the kubeconfig.
package hubclient
