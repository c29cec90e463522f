// Package profiles takes processor profiles of the hub's processes and names the functions that cost the most.
//
//	Process ─► Take: GET /debug/pprof/profile ─► a file for `go tool pprof`, and Top: the dearest functions
package profiles
