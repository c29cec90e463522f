package check

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
	"github.com/fleet-hub/fleet/internal/cmd/cli/output"
)

// Report is the result of the command. The field names are stable.
type Report struct {
	Summary Summary `json:"summary"`
	// Rows are the results of all checks, the worst first.
	Rows []Row `json:"rows"`
}

// Summary counts checks by their worst verdict.
type Summary struct {
	Checks   int `json:"checks"`
	OK       int `json:"ok"`
	Warnings int `json:"warnings"`
	Failed   int `json:"failed"`
	Skipped  int `json:"skipped"`
}

// NewReport returns the report for rows.
func NewReport(rows []Row) Report {
	worst := map[string]Verdict{}
	for _, r := range rows {
		if old, found := worst[r.ID]; !found || r.Verdict.rank() < old.rank() {
			worst[r.ID] = r.Verdict
		}
	}
	report := Report{Rows: slices.Clone(rows), Summary: Summary{Checks: len(worst)}}
	for _, verdict := range worst {
		switch verdict {
		case Failed:
			report.Summary.Failed++
		case Warning:
			report.Summary.Warnings++
		case Skipped:
			report.Summary.Skipped++
		default:
			report.Summary.OK++
		}
	}
	slices.SortStableFunc(report.Rows, func(a, b Row) int { return cmp.Compare(a.Verdict.rank(), b.Verdict.rank()) })
	return report
}

// String returns the summary in one line.
func (s Summary) String() string {
	text := fmt.Sprintf("%s: %d ok, %s, %d failed", output.Count(s.Checks, "check"), s.OK, output.Count(s.Warnings, "warning"), s.Failed)
	if s.Skipped > 0 {
		text += fmt.Sprintf(", %d skipped", s.Skipped)
	}
	return text
}

// Print prints a report. Table and name contain only problems, unless all is set. JSON and YAML always contain all rows.
func (r Report) Print(out io.Writer, format output.Format, all bool) error {
	switch format {
	case output.Table:
		return r.printTable(out, all)
	case output.Name:
		return r.printNames(out, all)
	}
	return output.Print(out, format, r)
}

func (r Report) printNames(out io.Writer, all bool) error {
	for _, row := range r.shown(all) {
		if row.Object == nil {
			continue
		}
		if _, err := fmt.Fprintln(out, output.Line(row.Object.Resource())); err != nil {
			return err
		}
	}
	return nil
}

func (r Report) printTable(out io.Writer, all bool) error {
	var rows, fixes [][]string
	for _, row := range together(r.shown(all)) {
		cause, id := cmp.Or(row.Cause, "-"), row.ID
		if row.CauseVaries && row.Object != nil {
			cause = row.Object.fullName() + ": " + cause
		}
		rows = append(rows, []string{string(row.Verdict), row.ID, row.objects(), cause})
		if row.FixVaries && row.Object != nil {
			id += ", " + row.Object.fullName()
		}
		if row.Fix != "" {
			fixes = append(fixes, []string{id, row.Fix})
		}
	}
	if len(rows) > 0 {
		if err := output.Rows(out, []string{"VERDICT", "CHECK", "OBJECT", "CAUSE"}, rows); err != nil {
			return err
		}
		fmt.Fprintln(out)
	}
	if len(fixes) > 0 {
		if err := output.Rows(out, []string{"CHECK", "FIX"}, fixes); err != nil {
			return err
		}
		fmt.Fprintf(out, "\n%s#CHECK explains each check.\n", Page)
	}
	_, err := fmt.Fprintln(out, r.Summary)
	return err
}

// shown returns the rows to print.
func (r Report) shown(all bool) []Row {
	if all {
		return r.Rows
	}
	return slices.DeleteFunc(slices.Clone(r.Rows), func(row Row) bool { return row.Verdict == OK })
}

// together returns rows in which checks that are skipped for the same cause share one.
func together(rows []Row) (shared []Row) {
	checks := map[string]int{}
	for _, row := range rows {
		if row.Verdict != Skipped {
			shared = append(shared, row)
			continue
		}
		if checks[row.Cause]++; checks[row.Cause] == 1 {
			shared = append(shared, row)
		}
	}
	for i, row := range shared {
		if more := checks[row.Cause] - 1; row.Verdict == Skipped && more > 0 {
			shared[i].ID += fmt.Sprintf(", %d more", more)
		}
	}
	return shared
}

// objects returns the objects of a row in words.
func (r Row) objects() string {
	if r.Object == nil {
		return "-"
	}
	text := r.Object.String()
	names := make([]string, 0, len(r.Examples))
	for _, example := range r.Examples {
		name := example.Name
		if example.Namespace != r.Object.Namespace {
			name = example.Namespace + "/" + name
		}
		names = append(names, name)
	}
	if more := r.Count - 1 - len(names); more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	if len(names) > 0 {
		text += ", " + strings.Join(names, ", ")
	}
	return text
}

// Threshold is the verdict from which the command fails: the value of the flag --fail-on.
type Threshold Verdict

// Bind declares the flag --fail-on.
func (t *Threshold) Bind(flags *pflag.FlagSet) {
	*t = Threshold(Failed)
	flags.Var(t, "fail-on", "verdict from which the exit code is 1: warning or failed")
}

// String returns the verdict.
func (t *Threshold) String() string { return string(*t) }

// Type returns the placeholder of the flag's value in the help.
func (*Threshold) Type() string { return "verdict" }

// Set sets the verdict, or returns an error if it is not one of the two.
func (t *Threshold) Set(text string) error {
	switch verdict := Verdict(text); verdict {
	case Warning, Failed:
		*t = Threshold(verdict)
		return nil
	}
	return fmt.Errorf("unknown verdict %q: use warning or failed", text)
}

// Exceeds reports whether a report is as bad as the threshold or worse.
func (t *Threshold) Exceeds(report Report) bool {
	return len(report.Rows) > 0 && report.Rows[0].Verdict.rank() <= Verdict(*t).rank()
}

// ExitCode returns Failed for a report that exceeds the threshold. Otherwise it returns the code of the skipped checks. Failed
// comes before Timeout.
func (t *Threshold) ExitCode(report Report) exit.Code {
	if t.Exceeds(report) {
		return exit.Failed
	}
	code := exit.Done
	for _, row := range report.Rows {
		if code == exit.Done || row.Code == exit.Failed {
			code = row.Code
		}
	}
	return code
}
