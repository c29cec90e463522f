package parity

import (
	"fmt"
	"regexp"
	"strings"
)

// Side is the kind of a difference.
type Side string

const (
	// Changed is a field that both sides have with different values.
	Changed Side = "changed"
	// Missing is a recorded field, or a whole recorded object, that we do not have.
	Missing Side = "missing"
	// Added is a field, or a whole object, that was not recorded.
	Added Side = "added"
)

// Row describes known differences and their reason. In its patterns, * matches any text.
type Row struct {
	// Is is the kind of the differences.
	Is Side
	// On matches the String of the objects.
	On string
	// At matches the path. If it is empty, the row matches whole objects, and only then.
	At string
	// Why is the reason, as a sentence.
	Why string
	// Perhaps allows the row to match nothing, because the difference depends on timing.
	Perhaps bool
}

// Report is the verdict on a Comparison.
type Report struct {
	// Objects is the number of recorded objects. Fields is the sum of the other numbers.
	Objects, Fields, Equal, Decided, Waiting int
	// Differences are on no list.
	Differences []Field
	// Problems are other mistakes, such as a row that matches nothing.
	Problems []string
	whole    map[string]bool
}

// Judge finds the row of each difference. Decided differences are permanent. Waiting ones disappear with later
// work.
func Judge(c Comparison, decided, waiting []Row) Report {
	r := Report{Objects: c.Objects, Fields: len(c.Fields), whole: map[string]bool{}}
	lists := []*list{newList("decided", decided), newList("waiting", waiting)}
	counts := []*int{&r.Decided, &r.Waiting}
	for _, object := range c.Twice {
		r.Problems = append(r.Problems, object+" is there twice")
	}
	for _, field := range c.Fields {
		if field.Recorded == field.Ours {
			r.Equal++
			continue
		}
		side, whole := sideOf(c, field)
		known := false
		for i, l := range lists {
			if known = l.has(side, whole, field); known {
				*counts[i]++
				break
			}
		}
		if !known {
			r.whole[field.Object] = whole
			r.Differences = append(r.Differences, field)
		}
	}
	for _, l := range lists {
		r.Problems = append(r.Problems, l.idle()...)
	}
	return r
}

func sideOf(c Comparison, f Field) (side Side, whole bool) {
	switch {
	case f.Ours == "":
		return Missing, c.Missing[f.Object]
	case f.Recorded == "":
		return Added, c.Added[f.Object]
	}
	return Changed, false
}

// String returns the numbers in one line.
func (r Report) String() string {
	return fmt.Sprintf("compared %d recorded objects, %d fields: %d equal, %d decided, %d waiting, %d different",
		r.Objects, r.Fields, r.Equal, r.Decided, r.Waiting, len(r.Differences))
}

// Diff returns the differences and problems as text. It is empty without any.
func (r Report) Diff() string {
	var out strings.Builder
	last := ""
	for _, f := range r.Differences {
		first := f.Object != last
		last = f.Object
		switch {
		case first && r.whole[f.Object] && f.Ours == "":
			fmt.Fprintf(&out, "- %s\n", f.Object)
		case first && r.whole[f.Object]:
			fmt.Fprintf(&out, "+ %s\n", f.Object)
		case first:
			fmt.Fprintf(&out, "  %s\n", f.Object)
		}
		if r.whole[f.Object] {
			continue
		}
		if f.Recorded != "" {
			fmt.Fprintf(&out, "-   %s: %s\n", f.Path, f.Recorded)
		}
		if f.Ours != "" {
			fmt.Fprintf(&out, "+   %s: %s\n", f.Path, f.Ours)
		}
	}
	for _, problem := range r.Problems {
		fmt.Fprintf(&out, "! %s\n", problem)
	}
	return out.String()
}

// list is a list of rows that records which ones were used.
type list struct {
	name string
	rows []Row
	on   []*regexp.Regexp
	at   []*regexp.Regexp
	used []bool
}

func newList(name string, rows []Row) *list {
	l := &list{name: name, rows: rows, used: make([]bool, len(rows))}
	for _, row := range rows {
		l.on, l.at = append(l.on, pattern(row.On)), append(l.at, pattern(row.At))
	}
	return l
}

func pattern(text string) *regexp.Regexp {
	return regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(text), `\*`, ".*") + "$")
}

// has reports whether a row matches the difference. The first match is recorded as used.
func (l *list) has(side Side, whole bool, f Field) bool {
	for i, row := range l.rows {
		if row.Is != side || (row.At == "") != whole || !l.on[i].MatchString(f.Object) {
			continue
		}
		if whole || l.at[i].MatchString(f.Path) {
			l.used[i] = true
			return true
		}
	}
	return false
}

func (l *list) idle() (problems []string) {
	for i, row := range l.rows {
		switch {
		case row.Why == "":
			problems = append(problems, fmt.Sprintf("no reason is given: %s: %s %s %s", l.name, row.Is, row.On, row.At))
		case !l.used[i] && !row.Perhaps:
			problems = append(problems, fmt.Sprintf("matches nothing, remove it: %s: %s %s %s", l.name, row.Is, row.On, row.At))
		}
	}
	return problems
}
