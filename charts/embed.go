// Package charts carries Fleet's Helm charts, so that what installs, imports and tests them all use
// the files that ship.
//
//	fleet-crd (the API) ─► fleet (the controllers) ─► fleet-agent (the agent, by hand or by the controllers)
package charts

import "embed"

// FS holds the charts in folders named after them. The prefix "all:" keeps the files whose names
// begin with "_", which hold the charts' named templates. It is a variable because embed knows no
// other way.
//
//go:embed all:fleet-crd all:fleet all:fleet-agent
var FS embed.FS
