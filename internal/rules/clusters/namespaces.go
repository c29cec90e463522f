package clusters

// Namespaces are the hub's own two.
type Namespaces struct {
	// System is where the controllers run, Registration where credentials are handed out.
	System, Registration string
}
