package reconcile

// Reads reads from caches until the first error, which it keeps. After that, all reads return nothing. The zero value is
// ready for use.
type Reads struct{ Err error }

// Get returns an object, or nil if it does not exist or no name is given.
func Get[T any](r *Reads, cache interface {
	Get(namespace, name string) (T, error)
}, namespace, name string) (found T) {
	if name != "" && r.Err == nil {
		found, r.Err = Optional(cache.Get(namespace, name))
	}
	return found
}

// ByIndex returns the objects of an index.
func ByIndex[T any](r *Reads, cache interface {
	GetByIndex(index, key string) ([]T, error)
}, index, key string) (found []T) {
	if r.Err == nil {
		found, r.Err = cache.GetByIndex(index, key)
	}
	return found
}
