package clusters

// Namespaces are the hub's two namespaces.
type Namespaces struct {
	// System is the namespace of the controllers. Registration is the namespace with the credentials.
	System, Registration string
}
