// Package importing decides what an imported Cluster needs: a client ID, a token, an agent downstream, or only a note in
// its status.
//
//	Input (Cluster, kubeconfig, configuration, token, values) ─► Decide ─► Outcome (token, agent, removal, status)
//
// A kubeconfig Secret of another namespace is used only if that Secret allows it.
package importing
