package watch

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fleet-hub/fleet/internal/deploy/deploytest"
	"github.com/fleet-hub/fleet/internal/deploy/manifest"
	"github.com/fleet-hub/fleet/internal/rules/drift"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

func TestContentHash_IgnoresStatus(t *testing.T) {
	const base = "apiVersion: v1\nkind: A\nmetadata: {name: a, resourceVersion: '1', generation: 1, labels: {a: b}}\nspec: {a: 1}\nstatus: {b: 1}\n"
	tests := map[string]struct {
		text string
		same bool
	}{
		"the same":     {base, true},
		"the status":   {"apiVersion: v1\nkind: A\nmetadata: {name: a, resourceVersion: '2', generation: 2, managedFields: [], labels: {a: b}}\nspec: {a: 1}\nstatus: {b: 2}\n", true},
		"a label":      {"apiVersion: v1\nkind: A\nmetadata: {name: a, labels: {a: c}}\nspec: {a: 1}\n", false},
		"the spec":     {"apiVersion: v1\nkind: A\nmetadata: {name: a, labels: {a: b}}\nspec: {a: 2}\n", false},
		"another name": {"apiVersion: v1\nkind: A\nmetadata: {name: b, labels: {a: b}}\nspec: {a: 1}\n", false},
	}
	first := deploytest.ObjectOf(t, base)
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			object := deploytest.ObjectOf(t, test.text)
			before := object.DeepCopy()
			if got := contentOf(object) == contentOf(first); got != test.same {
				t.Errorf("the same: %v", got)
			}
			if diff := cmp.Diff(before, object); diff != "" {
				t.Errorf("the input was changed:\n%s", diff)
			}
		})
	}
}

func TestChangedDiffRules_CompareAllObjectsAgain(t *testing.T) {
	ref := refTo("ConfigMap", "ns", "a")
	seen := seenAs("1", fleet.ResourceSummary{})
	seen.Compared, seen.ResourceVersion = true, "7"
	options := &fleet.BundleDeploymentOptions{Diff: &fleet.DiffOptions{ComparePatches: []fleet.ComparePatch{{Kind: "ConfigMap"}}}}
	tr := &Tracking{refs: []manifest.Ref{ref}, seen: map[manifest.Ref]observation{ref: seen}, rules: drift.RulesOf(options.Diff)}
	tr.heed(options)
	if diff := cmp.Diff(seen, tr.seen[ref]); diff != "" {
		t.Errorf("the same rules (-before +after):\n%s", diff)
	}
	tr.heed(&fleet.BundleDeploymentOptions{})
	if got := tr.seen[ref]; got.Compared || got.ResourceVersion != "" {
		t.Errorf("other rules: %+v", got)
	}
	if !tr.rules.AreOf(nil) {
		t.Errorf("rules %v", tr.rules)
	}
}

func TestTooManyDiffRules_AreReported(t *testing.T) {
	bd := &fleet.BundleDeployment{}
	bd.Spec.Options.Diff = &fleet.DiffOptions{ComparePatches: []fleet.ComparePatch{{Kind: "*", JSONPointers: make([]string, 20_001)}}}
	tr := &Tracking{Known: true}
	if _, err := (&Observer{}).Check(t.Context(), bd, tr); !errors.Is(err, drift.ErrTooManyRules) {
		t.Errorf("error %v", err)
	}
	if tr.Known {
		t.Error("drift would be corrected by rules that are not complete")
	}
}

func TestInvalidDiffRule_IsReportedWhileObjectsAreChecked(t *testing.T) {
	bd := &fleet.BundleDeployment{}
	bd.Spec.Options.Diff = &fleet.DiffOptions{ComparePatches: []fleet.ComparePatch{{Kind: "Deployment", JSONPointers: []string{"spec.replicas"}}}}
	tr := &Tracking{first: &manifest.Revision{}}
	found, err := (&Observer{Watches: &Watches{stopped: true}}).Check(t.Context(), bd, tr)
	if err != nil || found == nil {
		t.Fatal(found, err)
	}
	Monitored(&bd.Status, deploytest.Noon(), *found, 0)
	const want = `diff.comparePatches: JSON pointer "spec.replicas" does not begin with /: correct or remove it`
	if got := conditions.Get(bd.Status.Conditions, conditions.Monitored); got == nil || got.Status != "True" || got.Reason != "" || got.Message != want {
		t.Errorf("condition %+v", got)
	}
	if !bd.Status.Ready || !bd.Status.NonModified || !tr.Known {
		t.Errorf("status %+v", bd.Status)
	}
}
