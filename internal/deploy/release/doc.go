// Package release installs, upgrades, rolls back and uninstalls Helm releases, and reads their revisions. It is the
// only package that runs Helm's actions.
//
//	Installation ─► Releaser ─► history (Secrets) ─► next step ─► Helm ─► objects.Client ─► API server
//	Secrets of revisions ─► Reader ─► newest revisions, their objects, their owners
//
// A revision counts as the agent's own only with a valid Seal: others may write Secrets in the namespaces of bundles,
// and the agent executes with its own rights what a revision says.
package release
