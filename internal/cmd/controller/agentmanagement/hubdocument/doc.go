// Package hubdocument publishes how agents reach the hub: the hub document, which is signed with the hub's key. Agents
// whose connection fails read it without a credential.
//
//	configuration, recovery tokens, last document ─ decide ─► document ─ sign ─► ConfigMap kube-public/fleet-hub
//
// The document is signed at each start and after each change. Its serial only increases, because agents refuse an older
// one.
package hubdocument
