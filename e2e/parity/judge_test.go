package parity_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fleet-hub/fleet/e2e/parity"
)

// differing returns a Comparison with a field of each kind, equal, changed, missing and added, and with one
// object only on each side.
func differing() parity.Comparison {
	return parity.Comparison{
		Objects: 2,
		Missing: map[string]bool{"hub Role a/one": false, "hub Secret a/gone": true},
		Added:   map[string]bool{"east Lease b/new": true},
		Fields: []parity.Field{
			{Object: "hub Role a/one", Path: "kind", Recorded: `"Role"`, Ours: `"Role"`},
			{Object: "hub Role a/one", Path: "metadata.labels[x.y/z]", Recorded: `"1"`, Ours: `"2"`},
			{Object: "hub Role a/one", Path: "rules[0].verbs[1]", Ours: `"watch"`},
			{Object: "hub Role a/one", Path: "status.ready", Recorded: "true"},
			{Object: "hub Secret a/gone", Path: "kind", Recorded: `"Secret"`},
			{Object: "hub Secret a/gone", Path: "type", Recorded: `"Opaque"`},
			{Object: "east Lease b/new", Path: "kind", Ours: `"Lease"`},
		},
	}
}

// allKnown returns a row for every difference.
func allKnown() []parity.Row {
	return []parity.Row{
		{Is: parity.Changed, On: "hub Role a/*", At: "metadata.labels[x.y/z]", Why: "so"},
		{Is: parity.Added, On: "hub * */one", At: "rules[*].verbs[*]", Why: "so"},
		{Is: parity.Missing, On: "hub Role a/one", At: "*ready", Why: "so"},
		{Is: parity.Missing, On: "hub Secret *", Why: "so"},
		{Is: parity.Added, On: "* Lease b/new", Why: "so"},
	}
}

func TestJudge_FindsTheRowOfEachDifference(t *testing.T) {
	rows := allKnown()
	tests := map[string]struct {
		decided, waiting []parity.Row
		count, diff      string
	}{
		"no rows: all differences are listed, a whole object in one line": {
			count: "compared 2 recorded objects, 7 fields: 1 equal, 0 decided, 0 waiting, 6 different",
			diff: `  hub Role a/one
-   metadata.labels[x.y/z]: "1"
+   metadata.labels[x.y/z]: "2"
+   rules[0].verbs[1]: "watch"
-   status.ready: true
- hub Secret a/gone
+ east Lease b/new
`,
		},
		"all differences are decided": {
			decided: rows,
			count:   "compared 2 recorded objects, 7 fields: 1 equal, 6 decided, 0 waiting, 0 different",
		},
		"all differences are waiting": {
			waiting: rows,
			count:   "compared 2 recorded objects, 7 fields: 1 equal, 0 decided, 6 waiting, 0 different",
		},
		"some differences are known": {
			decided: rows[:3], waiting: rows[3:4],
			count: "compared 2 recorded objects, 7 fields: 1 equal, 3 decided, 2 waiting, 1 different",
			diff:  "+ east Lease b/new\n",
		},
		"row without a match: problem": {
			decided: append(allKnown(), parity.Row{Is: parity.Missing, On: "hub Role *", At: "kind", Why: "so"}),
			count:   "compared 2 recorded objects, 7 fields: 1 equal, 6 decided, 0 waiting, 0 different",
			diff:    "! matches nothing, remove it: decided: missing hub Role * kind\n",
		},
		"row without a match, with Perhaps: no problem": {
			decided: append(allKnown(), parity.Row{Is: parity.Missing, On: "hub Role *", At: "kind", Why: "so", Perhaps: true}),
			count:   "compared 2 recorded objects, 7 fields: 1 equal, 6 decided, 0 waiting, 0 different",
		},
		"row after another one with the same match: problem": {
			decided: rows, waiting: rows[4:],
			count: "compared 2 recorded objects, 7 fields: 1 equal, 6 decided, 0 waiting, 0 different",
			diff:  "! matches nothing, remove it: waiting: added * Lease b/new \n",
		},
		"row without a reason: problem": {
			decided: append(rows[:4:4], parity.Row{Is: parity.Added, On: "* Lease b/new"}),
			count:   "compared 2 recorded objects, 7 fields: 1 equal, 6 decided, 0 waiting, 0 different",
			diff:    "! no reason is given: decided: added * Lease b/new \n",
		},
		"row for fields: does not match objects, and vice versa": {
			decided: []parity.Row{
				rows[0], rows[1], rows[2],
				{Is: parity.Missing, On: "hub Secret a/gone", At: "*", Why: "so"},
				{Is: parity.Added, On: "hub Role a/one", Why: "so"},
			},
			count: "compared 2 recorded objects, 7 fields: 1 equal, 3 decided, 0 waiting, 3 different",
			diff: `- hub Secret a/gone
+ east Lease b/new
! matches nothing, remove it: decided: missing hub Secret a/gone *
! matches nothing, remove it: decided: added hub Role a/one 
`,
		},
		"row for one kind of difference: does not match others": {
			decided: []parity.Row{{Is: parity.Missing, On: "hub Role *", At: "metadata.labels[x.y/z]", Why: "so"}, rows[1], rows[2], rows[3], rows[4]},
			count:   "compared 2 recorded objects, 7 fields: 1 equal, 5 decided, 0 waiting, 1 different",
			diff: `  hub Role a/one
-   metadata.labels[x.y/z]: "1"
+   metadata.labels[x.y/z]: "2"
! matches nothing, remove it: decided: missing hub Role * metadata.labels[x.y/z]
`,
		},
		"pattern without *: matched literally": {
			decided: []parity.Row{{Is: parity.Changed, On: "hub Role a/*", At: "metadata.labels[xXy/z]", Why: "so"}, rows[1], rows[2], rows[3], rows[4]},
			count:   "compared 2 recorded objects, 7 fields: 1 equal, 5 decided, 0 waiting, 1 different",
			diff: `  hub Role a/one
-   metadata.labels[x.y/z]: "1"
+   metadata.labels[x.y/z]: "2"
! matches nothing, remove it: decided: changed hub Role a/* metadata.labels[xXy/z]
`,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			report := parity.Judge(differing(), test.decided, test.waiting)
			if got := report.String(); got != test.count {
				t.Errorf("%s, want\n%s", got, test.count)
			}
			if diff := cmp.Diff(test.diff, report.Diff()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestDuplicateObjects_AreAProblem(t *testing.T) {
	c := parity.Comparison{Twice: []string{"hub Role a/one"}}
	if diff := cmp.Diff("! hub Role a/one is there twice\n", parity.Judge(c, nil, nil).Diff()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestLists_HaveReasonsAndNoDuplicates checks the lists without an API server.
func TestLists_HaveReasonsAndNoDuplicates(t *testing.T) {
	seen := map[parity.Row]bool{}
	for _, row := range append(decided(), waiting()...) {
		key := row
		key.Why = ""
		if seen[key] {
			t.Errorf("duplicate row: %v", key)
		}
		seen[key] = true
		if row.Why == "" {
			t.Errorf("row without a reason: %v", row)
		}
	}
}
