// Package agentalone measures the real agent on clusters of its own: its memory, its requests, and how soon it deploys and
// reports.
//
//	helm install fleet-agent ─► idle ─► a large chart ─► Bundles, edits ─► a restart ─► Figures, Budgets of their medians
package agentalone
