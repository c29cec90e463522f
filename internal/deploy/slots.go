package deploy

// slots bound how many BundleDeployments are worked on at a time. What only waits, for objects to become ready or
// hooks to be done, lends its slot to others: a bundle whose objects never become ready does not keep them from being
// deployed. A nil one bounds nothing.
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

// lend gives the slot free until what it returns is called, which waits for one to be free.
func (s slots) lend() (takeBack func()) {
	s.free()
	return s.take
}
