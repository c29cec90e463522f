// Package cli implements the command line `fleet`. Each command has a package of its own below this one.
//
//	arguments ─► command ─► access (clients) ─► API servers
//	                  └───► output (table, JSON, YAML, names)
//	                  └───► exit (problems, remedies, exit code)
//
// Results are written to standard output, progress and warnings to standard error. The process starts as `fleet`, as
// `kubectl-fleet` (a plugin of kubectl) or as `kubectl_complete-fleet` (the completion of this plugin).
package cli
