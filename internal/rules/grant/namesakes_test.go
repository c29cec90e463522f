package grant_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fleet-hub/fleet/internal/rules/grant"
	"github.com/fleet-hub/fleet/internal/rules/rulestest"
)

// shared is what request-1 is named after where it meets those of other workspaces.
const shared = "request-1-d2d84ae27da7"

func TestWhoseNameIsShared(t *testing.T) {
	tests := map[string]struct {
		input grant.Input
		want  string
	}{
		"a name that nobody else has is as it is":           {grantInput(), "request-1"},
		"the older one has it":                              {grantInput(requestNamesake("fleet-local", -time.Second)), shared},
		"whatever comes later":                              {grantInput(requestNamesake("fleet-local", time.Second)), "request-1"},
		"in the same second the workspaces decide":          {grantInput(requestNamesake("a", 0)), shared},
		"in the same second the first workspace has it":     {grantInput(requestNamesake("zzz", 0)), "request-1"},
		"one older one among several is enough":             {grantInput(requestNamesake("zzz", time.Hour), requestNamesake("a", -time.Hour), requestNamesake("b", time.Hour)), shared},
		"of several only the oldest has the name to itself": {grantInput(requestNamesake("zzz", time.Hour), requestNamesake("b", time.Minute)), "request-1"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := grant.SharedName(test.input); got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}

// TestNoTwoHaveOneName lets three requests of one name look at each other.
func TestNoTwoHaveOneName(t *testing.T) {
	workspaces := []string{"one", "two", "three"}
	for _, later := range []time.Duration{0, time.Second} {
		seen := map[string]string{}
		for i, own := range workspaces {
			in := grantInput()
			in.Request.Namespace = own
			for j, other := range workspaces {
				if i != j {
					requestNamesake(other, time.Duration(j-i)*later)(&in)
				}
			}
			name := grant.SharedName(in)
			if before := seen[name]; before != "" {
				t.Errorf("%s after %s: %s and %s both have %q", later, later, before, own, name)
			}
			seen[name] = own
		}
		if seen["request-1"] == "" {
			t.Error("nobody has the name itself")
		}
	}
}

func TestNamesOfWhatIsShared(t *testing.T) {
	want := []string{"request-1-creds", shared + "-creds"}
	if diff := cmp.Diff(want, grant.ReaderNames(rulestest.Workspace, "request-1")); diff != "" {
		t.Errorf("readers (-want +got):\n%s", diff)
	}
	for i, name := range []string{"request-1", shared} {
		if got := grant.ReaderName(name); got != want[i] {
			t.Errorf("%q, want %q", got, want[i])
		}
	}
}
