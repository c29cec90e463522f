// Package report prints the errors and warnings of the Bundle verbs. How does Rancher Fleet's command line print them?
//
//	error, warning ─► Reporter ─► one line of text with the time, or of JSON (FLEET_JSON_OUTPUT)
//
// Scripts and GitRepo jobs read these lines. Other verbs print errors as package exit does.
package report

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fleet-hub/fleet/internal/cmd/cli/access"
	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
	"github.com/fleet-hub/fleet/internal/cmd/cli/output"
	"github.com/fleet-hub/fleet/internal/cmd/env"
)

// Reporter prints errors, warnings and progress as text or JSON. Each is one line.
type Reporter struct {
	// Debug enables Log.
	Debug bool

	// text or json prints the lines, one at a time. The other one is nil.
	text  *log.Logger
	json  *slog.Logger
	clock func() time.Time
}

// Keys of JSON lines. Under keyError a GitRepo's job reports its error to the hub.
const (
	keyError = "fleetErrorMessage"
	keyFix   = "fix"
)

// New returns a Reporter that prints to out.
func New(out io.Writer, environment env.Environment, clock func() time.Time) Reporter {
	if strings.EqualFold(environment("FLEET_JSON_OUTPUT"), "true") {
		return Reporter{json: slog.New(slog.NewJSONHandler(out, nil)), clock: clock}
	}
	return Reporter{text: log.New(out, "", 0), clock: clock}
}

// Warn prints a warning.
func (r Reporter) Warn(text string) {
	if r.json != nil {
		r.json.Warn(text)
		return
	}
	r.line("warning: " + text)
}

// Log prints what is done, with --debug.
func (r Reporter) Log(text string) {
	if r.Debug {
		r.progress(text)
	}
}

// Write prints the progress of a download. The text may have several lines.
func (r Reporter) Write(text []byte) (int, error) {
	for line := range strings.Lines(string(text)) {
		r.progress(strings.TrimRight(line, "\r\n"))
	}
	return len(text), nil
}

func (r Reporter) progress(text string) {
	if r.json != nil {
		r.json.Info(text)
		return
	}
	r.line(text)
}

// Finish prints an error and the commands that fix it, and returns an error that is not printed again.
func (r Reporter) Finish(err error) error {
	if err == nil {
		return nil
	}
	var failure *exit.Error
	var fixes []string
	if errors.As(err, &failure) {
		fixes = failure.Fixes
	}
	if r.json != nil {
		args := []any{keyError, err.Error()}
		if len(fixes) > 0 {
			args = append(args, keyFix, strings.Join(fixes, "; "))
		}
		r.json.Error("Fleet cli failed", args...)
		return exit.Printed{Code: exit.Failed}
	}
	r.line(err.Error())
	for _, fix := range fixes {
		r.text.Print("fix: " + output.Line(fix))
	}
	return exit.Printed{Code: exit.Failed}
}

// Bind makes run the action of a command without arguments, and prints all errors of the command, also those of its
// flags.
func (r Reporter) Bind(command *cobra.Command, run func(context.Context) error) {
	command.Args = cobra.ArbitraryArgs
	command.SetFlagErrorFunc(func(command *cobra.Command, err error) error { return r.Finish(usage(command, err)) })
	command.RunE = func(command *cobra.Command, args []string) error {
		if len(args) > 0 {
			return r.Finish(usage(command, fmt.Errorf("unexpected argument %q", args[0])))
		}
		return r.Finish(exit.Reach(run(command.Context()), access.TargetOf(command.Flags())))
	}
}

func usage(command *cobra.Command, err error) error {
	return exit.Errorf(exit.Usage, "%w", err).With(command.CommandPath() + " --help")
}

func (r Reporter) line(text string) {
	r.text.Print(r.clock().Format("2006/01/02 15:04:05") + " " + output.Line(text))
}
