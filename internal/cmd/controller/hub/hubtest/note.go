package hubtest

// Note records a request to something else than the hub among the hub's own, such as "downstream apply Namespace x",
// and returns the error that Fail wants. It is for a test's own fakes, to show what comes before what.
func (h *Hub) Note(verb, rest string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.note(verb, rest)
}
