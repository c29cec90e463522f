package hub

// Leaves says whether a namespace is being deleted: nothing can be made in it any more, and all that is in it goes. One
// that the cache does not know is not said to leave.
func (a *Context) Leaves(namespace string) bool {
	found, err := a.AllNamespaces.Cache().Get(namespace)
	return err == nil && found.DeletionTimestamp != nil
}
