package hubtest

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// ExpectRequests compares what was asked for since the last look, in whatever order: a set's children are written
// at the same time. See ExpectOrder for what comes before what. It returns the requests in their order.
func ExpectRequests(t testing.TB, h *Hub, want ...string) []string {
	t.Helper()
	got := h.Requests()
	if diff := cmp.Diff(slices.Sorted(slices.Values(want)), slices.Sorted(slices.Values(got))); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	return got
}

// ExpectOrder fails unless each of the requests in order was made after all those before it.
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

// ExpectWoken compares who is to be looked at again, and when, since the last look.
func ExpectWoken(t testing.TB, h *Hub, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, h.Woken()); diff != "" {
		t.Errorf("woken (-want +got):\n%s", diff)
	}
}
