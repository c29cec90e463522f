// Package check defines what `fleet doctor` does: which facts are read, and which rows do the checks return?
//
//	Reader ─► Gather ─► facts, missing sources ─┐
//	                                            ├─► Run ─► rows ─► Report
//	Check (pure function over facts) ───────────┘
//
// Facts are read once, by all checks together. A check whose facts could not be read is skipped.
package check

import (
	"cmp"
	"slices"
)

// Page is the page of the documentation that explains each check, at an anchor with the check's ID.
const Page = "docs/troubleshooting.md"

// Source names facts that are read together.
type Source string

// Check is one check of the facts F.
type Check[F any] struct {
	// ID is stable. It is also the anchor in the documentation, which says what the check expects.
	ID string
	// Needs are the sources of the facts that Judge reads.
	Needs []Source
	// Judge returns a row for each problem. No rows mean the verdict ok.
	Judge func(F) []Row
}

// Run returns the rows of all checks, in their order, those of a check with the most objects first. Each check has at least one row.
func Run[F any](checks []Check[F], facts F, missing Missing) []Row {
	var rows []Row
	for _, c := range checks {
		for _, r := range c.rows(facts, missing) {
			r.ID, r.Docs = c.ID, Page+"#"+c.ID
			rows = append(rows, bounded(r))
		}
	}
	return rows
}

func (c Check[F]) rows(facts F, missing Missing) []Row {
	for _, source := range c.Needs {
		if why, found := missing[source]; found {
			return []Row{{Verdict: Skipped, Cause: why.Cause, Fix: why.Fix, Code: why.Code}}
		}
	}
	if found := c.Judge(facts); len(found) > 0 {
		slices.SortStableFunc(found, func(a, b Row) int { return cmp.Compare(b.Count, a.Count) })
		return found
	}
	return []Row{{Verdict: OK}}
}
