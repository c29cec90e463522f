// Package version says which release a binary is.
package version

// Version is the release, set by the linker; "dev" in a build without one. It is what the
// controllers compare with the annotation of their ConfigMap, and what the agent reports.
var Version = "dev" //nolint:gochecknoglobals // the linker can only set a variable
