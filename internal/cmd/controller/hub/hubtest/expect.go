package hubtest

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// ExpectRequests compares the requests since the last call in any order, because a set's children are written in
// parallel. ExpectOrder checks the order. It returns the requests in their order.
func ExpectRequests(t testing.TB, h *Hub, want ...string) []string {
	t.Helper()
	got := h.Requests()
	if diff := cmp.Diff(slices.Sorted(slices.Values(want)), slices.Sorted(slices.Values(got))); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	return got
}

// ExpectOrder fails unless each request in order was made after all those before it.
func ExpectOrder(t testing.TB, requests []string, order ...string) {
	t.Helper()
	last := -1
	for _, request := range order {
		at := slices.Index(requests, request)
		if at < 0 {
			t.Errorf("there was no request %q", request)
			continue
		}
		if at < last {
			t.Errorf("%q came before %q", request, requests[last])
		}
		last = at
	}
}

// ExpectWoken compares the keys enqueued since the last call, with their delays.
func ExpectWoken(t testing.TB, h *Hub, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, h.Woken()); diff != "" {
		t.Errorf("woken (-want +got):\n%s", diff)
	}
}
