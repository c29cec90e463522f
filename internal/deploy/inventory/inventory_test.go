package inventory

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fleet-hub/fleet/internal/deploy/placement"
)

func TestInventory(t *testing.T) {
	i := New()
	a, b, c := placement.Release{Namespace: "web", Name: "a"}, placement.Release{Namespace: "web", Name: "b"}, placement.Release{Namespace: "db", Name: "z"}
	i.Add("x", b)
	i.Add("x", a)
	i.Add("x", c)
	i.Add("x", a)
	i.Add("y", a)
	if diff := cmp.Diff([]placement.Release{c, a, b}, i.Of("x")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]placement.Release{c, b}, i.Except("x", a)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"x", "y"}, i.Names()); diff != "" {
		t.Error(diff)
	}
	i.Remove("y", a)
	i.Remove("y", a)
	if diff := cmp.Diff([]string{"x"}, i.Names()); diff != "" || !i.Owns(a) || i.Owns(placement.Release{Namespace: "web", Name: "q"}) {
		t.Error(diff)
	}
	i.SetForeign(a, "7")
	if !i.IsForeign(a, "7") || i.IsForeign(a, "8") || i.IsForeign(b, "") {
		t.Error("a release must be foreign at exactly the checked version")
	}
}

func TestConfinement_IsThatOfTheNamedRevision(t *testing.T) {
	key := placement.Release{Namespace: "web", Name: "app"}
	i := New()
	for _, step := range []struct {
		revision int
		confined bool
		want     string
	}{{1, true, "web"}, {1, false, "web"}, {2, false, ""}, {3, true, "web"}} {
		i.Name(key, step.revision, step.confined)
		if got := i.Confinement(key); got != step.want {
			t.Errorf("revision %d, confined %t: confinement %q, want %q", step.revision, step.confined, got, step.want)
		}
	}
}
