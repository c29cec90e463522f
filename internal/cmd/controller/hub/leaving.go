package hub

// Leaves reports whether a namespace is being deleted: nothing can be created in it, and its content is deleted. It
// returns false for a namespace that is not in the cache.
func (a *Context) Leaves(namespace string) bool {
	found, err := a.AllNamespaces.Cache().Get(namespace)
	return err == nil && found.DeletionTimestamp != nil
}
