package clusterimport

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/util/flowcontrol"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/hubtest"
	supervisionrule "github.com/fleet-hub/fleet/internal/rules/supervision"
)

const reviews = "review token"

// After a change of the key that signs tokens, the account of an agent exists and its token is invalid.
func TestRejectedStoredToken_AgentGetsBootstrapTokenWhileMostAreSilent(t *testing.T) {
	hub, behind := mostSilent(t, identityWith("u-live"))
	hub.RejectTokens(func(string) bool { return true })
	hub.Requests()
	work(t, hub) // looks
	if requests := hub.Requests(); !slices.Contains(requests, reviews) {
		t.Fatalf("the stored token was not reviewed: %q", requests)
	}
	hub.Sync()
	work(t, hub) // repairs
	hubtest.ExpectOrder(t, hub.Requests(), removedMeans, appliedMeans, applied)
	if len(behind.applied) == 0 {
		t.Error("nothing was applied")
	}
}

func TestStoredToken_CountsAsAcceptedUnlessItIsRejected(t *testing.T) {
	for name, prepare := range map[string]func(*hubtest.Hub){
		"token is accepted":   func(*hubtest.Hub) {},
		"hub does not answer": func(h *hubtest.Hub) { h.Fail(reviews, errServer) },
	} {
		t.Run(name, func(t *testing.T) {
			hub, _ := mostSilent(t, identityWith("u-live"))
			prepare(hub)
			work(t, hub) // looks
			hub.Sync()
			hub.Requests()
			handle(t, hub)
			if requests := hub.Requests(); slices.Contains(requests, appliedMeans) {
				t.Errorf("a bootstrap token was delivered: %q", requests)
			}
		})
	}
}

func TestStoredToken_IsReviewedOnlyIfItMayBeOfThisCluster(t *testing.T) {
	hub, _ := mostSilent(t, identityWith("u-live"))
	hub.RejectTokens(func(string) bool { return true })
	in := supervisionrule.Input{Identity: true, Known: true, Stored: "token"}
	for name, test := range map[string]struct {
		change func(*handler, *supervisionrule.Input)
		want   bool
	}{
		"token of a live account":      {func(*handler, *supervisionrule.Input) {}, true},
		"no identity":                  {func(_ *handler, in *supervisionrule.Input) { in.Identity = false }, false},
		"token of an unknown account":  {func(_ *handler, in *supervisionrule.Input) { in.Known = false }, false},
		"token of a megabyte":          {func(_ *handler, in *supervisionrule.Input) { in.Stored = strings.Repeat("x", 1<<20) }, false},
		"too many reviews in a minute": {func(h *handler, _ *supervisionrule.Input) { h.reviews = flowcontrol.NewFakeNeverRateLimiter() }, false},
	} {
		t.Run(name, func(t *testing.T) {
			h, in := newTestHandler(hub), in
			h.reviews = flowcontrol.NewFakeAlwaysRateLimiter()
			test.change(h, &in)
			hub.Requests()
			if got := h.isRejected(t.Context(), "ws/c1", in); got != test.want || (len(hub.Requests()) > 0) != test.want {
				t.Errorf("rejected %v, want %v, with a review only then", got, test.want)
			}
		})
	}
}
