package objects

// Slots limits how many BundleDeployments are reconciled at the same time. An operation that only waits for
// objects or hooks lends its slot, so that a bundle that never becomes ready does not block others. A nil slots
// has no limit.
type Slots chan struct{}

func (s Slots) Take() {
	if s != nil {
		s <- struct{}{}
	}
}

func (s Slots) Free() {
	if s != nil {
		<-s
	}
}

// lend releases the slot. The function that it returns waits for a free slot and takes it.
func (s Slots) lend() (takeBack func()) {
	s.Free()
	return s.Take
}
