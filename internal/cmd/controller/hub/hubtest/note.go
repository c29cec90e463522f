package hubtest

// Note records a request to a test's own fake among the hub's requests, such as "downstream apply Namespace x", to
// show their order. It returns the error set by Fail.
func (h *Hub) Note(verb, rest string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.note(verb, rest)
}
