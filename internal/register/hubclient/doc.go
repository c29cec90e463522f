// Package hubclient connects the agent to a hub with one identity, and classifies the hub's responses.
//
//	kubeconfig ─ ParseKubeconfig ─► Access ─ Config, Connect ─► Hub ─► error ─ AnswerOf ─► registering.Answer
//
// Invariants: each call but WatchCredential is one request with a timeout, which client-go does not retry. No redirect is
// followed. A kubeconfig that needs more than the server, the CA, the token and the namespace is rejected. No error
// contains bytes of the kubeconfig.
package hubclient
