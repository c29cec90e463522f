// Package charts fetches the charts that Bundles name: from chart repositories, OCI registries, archives, git repositories
// and folders.
//
//	repository, chart, version ─► index ─┐
//	chart (an address) ──────────────────┴► address ─► HTTP, git, OCI or folder ─► unpack ─► directory
//
// Each server, archive and index is hostile: every download has a time limit and a size limit, every file stays inside
// the directory, and credentials are sent only to the host that was asked for.
package charts
