package deploy

// slots limits how many BundleDeployments are reconciled at the same time. An operation that only waits for
// objects or hooks lends its slot, so that a bundle that never becomes ready does not block others. A nil slots
// has no limit.
type slots chan struct{}

func (s slots) take() {
	if s != nil {
		s <- struct{}{}
	}
}

func (s slots) free() {
	if s != nil {
		<-s
	}
}

// lend releases the slot. The function that it returns waits for a free slot and takes it.
func (s slots) lend() (takeBack func()) {
	s.free()
	return s.take
}
