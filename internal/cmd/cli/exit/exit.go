// Package exit defines how commands fail: with problems, the commands that fix them, and an exit code.
//
//	error ─► Text (for people) and CodeOf (for scripts)
package exit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/fleet-hub/fleet/internal/cmd/cli/output"
	"github.com/fleet-hub/fleet/internal/cmd/cli/remedy"
)

// Code is an exit code of the program.
type Code int

// The exit codes. They are stable.
const (
	// Done means that the command did what it was asked to do, or that it was done already.
	Done Code = 0
	// Failed means any failure without a code of its own.
	Failed Code = 1
	// Usage means that flags or arguments are invalid. Nothing was sent.
	Usage Code = 2
	// Preflight means that a check before the first change failed. Nothing was changed.
	Preflight Code = 3
	// Timeout means that something did not happen in time.
	Timeout Code = 4
	// Refused means that the command would do harm, or that the hub refused it.
	Refused Code = 5
)

// Error is a failure with its remedy.
type Error struct {
	Code Code
	// Reason is a reason of docs/conditions.md, or empty.
	Reason string
	// Problems are what is wrong and where: one sentence each, all that were found.
	Problems []error
	// Fixes are the commands that fix the problems, or sentences where no command does.
	Fixes []string
}

// Errorf returns an error with one problem.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Problems: []error{fmt.Errorf(format, args...)}}
}

// With adds the commands that fix the error.
func (e *Error) With(fixes ...string) *Error {
	e.Fixes = append(e.Fixes, fixes...)
	return e
}

// Because sets the reason.
func (e *Error) Because(reason string) *Error {
	e.Reason = reason
	return e
}

// Add adds the problems, the reason and the fixes of another error. The exit code is that of the first error that has
// one of its own.
func (e *Error) Add(err error) {
	var other *Error
	if !errors.As(err, &other) {
		e.Problems = append(e.Problems, err)
		return
	}
	e.Problems = append(e.Problems, other.Problems...)
	e.Reason = cmp.Or(e.Reason, other.Reason)
	for _, fix := range other.Fixes {
		if !slices.Contains(e.Fixes, fix) {
			e.Fixes = append(e.Fixes, fix)
		}
	}
	if e.Code == Failed {
		e.Code = other.Code
	}
}

// AfterChange returns an error that occurred after a change. It does not have the code Preflight.
func AfterChange(err error) error {
	var failure *Error
	if errors.As(err, &failure) && failure.Code == Preflight {
		failure.Code = Failed
	}
	return err
}

// Reach makes the commands that fix an error reach the cluster of a target.
func Reach(err error, target remedy.Target) error {
	var failure *Error
	if errors.As(err, &failure) {
		fixes := make([]string, 0, len(failure.Fixes))
		for _, fix := range failure.Fixes {
			fixes = append(fixes, target.On(fix))
		}
		failure.Fixes = fixes
	}
	return err
}

// Error returns the problems in one line.
func (e *Error) Error() string {
	texts := make([]string, 0, len(e.Problems))
	for _, problem := range e.Problems {
		texts = append(texts, problem.Error())
	}
	return strings.Join(texts, "; ")
}

// Unwrap returns the problems.
func (e *Error) Unwrap() []error { return e.Problems }

// Printed is an error whose message is printed already.
type Printed struct{ Code Code }

// Error returns a text for callers that ignore that it was printed.
func (p Printed) Error() string { return fmt.Sprintf("exit code %d", p.Code) }

// CodeOf returns the exit code of an error: that of its Error, Timeout if a deadline passed, otherwise Failed.
func CodeOf(err error) Code {
	var failure *Error
	var printed Printed
	switch {
	case err == nil:
		return Done
	case errors.As(err, &failure):
		return failure.Code
	case errors.As(err, &printed):
		return printed.Code
	case errors.Is(err, context.Canceled): // the user interrupted the command; Interrupted would be true, too
		return Failed
	case errors.Is(err, context.DeadlineExceeded), wait.Interrupted(err):
		return Timeout
	}
	return Failed
}

// Text returns what to print: one line for each problem, the reason, and how to fix them. Problems contain texts of
// clusters and servers, so no text can control the terminal or look like one of the other lines.
func Text(err error) string {
	var failure *Error
	if !errors.As(err, &failure) {
		return "error: " + paragraph(err.Error())
	}
	var text strings.Builder
	if err.Error() == failure.Error() {
		for _, problem := range failure.Problems {
			text.WriteString("error: " + paragraph(problem.Error()))
		}
	} else {
		text.WriteString("error: " + paragraph(err.Error()))
	}
	if failure.Reason != "" {
		fmt.Fprintf(&text, "reason: %s (docs/conditions.md)\n", output.Line(failure.Reason))
	}
	for _, fix := range failure.Fixes {
		fmt.Fprintf(&text, "fix: %s\n", output.Line(fix))
	}
	return text.String()
}

// longestProblem is the number of characters of a problem that are printed.
const longestProblem = 4096

// paragraph returns a text whose lines after the first are indented.
func paragraph(text string) string {
	lines := strings.Split(strings.TrimRight(output.Shorten(text, longestProblem), "\n"), "\n")
	for i := range lines {
		lines[i] = output.Line(lines[i])
	}
	return strings.Join(lines, "\n  ") + "\n"
}

// NoArgs fails with Usage if a command that also has subcommands was called with an argument.
func NoArgs(command *cobra.Command, args []string) error {
	if len(args) > 0 {
		return Subcommand(command, args)
	}
	return nil
}

// Subcommand fails with Usage if a command that only has subcommands was called without a known one. It is such a
// command's RunE.
func Subcommand(command *cobra.Command, args []string) error {
	if len(args) == 0 {
		return Errorf(Usage, "%s needs a subcommand", command.CommandPath()).With(command.CommandPath() + " --help")
	}
	return Errorf(Usage, "unknown command %q for %q", args[0], command.CommandPath()).With(command.CommandPath() + " --help")
}
