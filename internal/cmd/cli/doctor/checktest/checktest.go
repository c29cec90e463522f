// Package checktest tests the checks of `fleet doctor`: does each find its fault, and name the fix?
//
//	healthy facts, fault ─► Change ─► checks ─► the only row with a problem
package checktest

import (
	"slices"
	"strings"
	"testing"

	"github.com/fleet-hub/fleet/internal/cmd/cli/doctor/check"
)

// Fault is a change of healthy facts, and the only row with a problem that a check then returns. It is an alias, so that tables
// need no names of fields.
type Fault[F any] = struct {
	ID     string
	Change func(F)
	// Object, Verdict, Cause (a part of it) and Fix are those of the row.
	Object  string
	Verdict check.Verdict
	Cause   string
	Fix     string
}

// Problems returns the rows of a check that are neither ok nor skipped.
func Problems[F any](checks []check.Check[F], facts F, id string) (found []check.Row) {
	for _, row := range check.Run(checks, facts, nil) {
		if row.ID == id && row.Verdict != check.OK && row.Verdict != check.Skipped {
			found = append(found, row)
		}
	}
	return found
}

// testFault tests that the checks find a fault in facts that were healthy. No row contains the text CANARY, which stands for
// secrets.
func testFault[F any](t *testing.T, checks []check.Check[F], facts F, fault Fault[F]) {
	t.Helper()
	fault.Change(facts)
	found := Problems(checks, facts, fault.ID)
	if len(found) != 1 {
		t.Fatalf("%d rows with a problem: %+v", len(found), found)
	}
	row, object := found[0], ""
	if row.Object != nil {
		object = row.Object.String()
	}
	if object != fault.Object || row.Verdict != fault.Verdict || !strings.Contains(row.Cause, fault.Cause) {
		t.Errorf("%s %s %q\nwant %s %s %q", row.Verdict, object, row.Cause, fault.Verdict, fault.Object, fault.Cause)
	}
	if row.Fix != fault.Fix {
		t.Errorf("fix\n%s\nwant\n%s", row.Fix, fault.Fix)
	}
	if strings.Contains(row.Cause+row.Fix, "CANARY") {
		t.Error("a secret is in the row")
	}
}

// TestFaults tests that the checks find each fault in facts that healthy returns, and that each check is there once and has a fault,
// except those with the IDs in without.
func TestFaults[F any](t *testing.T, checks []check.Check[F], healthy func() F, faults map[string]Fault[F], without ...string) {
	t.Helper()
	found := map[string]bool{}
	for name, fault := range faults {
		found[fault.ID] = true
		t.Run(name, func(t *testing.T) { testFault(t, checks, healthy(), fault) })
	}
	seen := map[string]bool{}
	for _, c := range checks {
		if !found[c.ID] && !slices.Contains(without, c.ID) || seen[c.ID] {
			t.Errorf("check %s has no fault, or is there twice", c.ID)
		}
		seen[c.ID] = true
	}
}

// Deviation is a change of healthy facts in which the check with this ID finds no problem.
type Deviation[F any] = struct {
	ID     string
	Change func(F)
}

// TestDeviations tests that the checks find no problem in deviations from the facts that healthy returns.
func TestDeviations[F any](t *testing.T, checks []check.Check[F], healthy func() F, deviations map[string]Deviation[F]) {
	t.Helper()
	for name, deviation := range deviations {
		t.Run(name, func(t *testing.T) {
			f := healthy()
			deviation.Change(f)
			if found := Problems(checks, f, deviation.ID); len(found) != 0 {
				t.Errorf("rows: %+v", found)
			}
		})
	}
}
