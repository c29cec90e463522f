package apply

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/fleet-hub/fleet/internal/cmd/cli/output"
	"github.com/fleet-hub/fleet/internal/cmd/env"
)

// reporter prints errors and warnings as text or JSON. Each is one line.
type reporter struct {
	out   io.Writer
	clock func() time.Time
	json  bool
	debug bool
}

// keyError is the key under which a GitRepo's job reports its error to the hub.
const keyError = "fleetErrorMessage"

func newReporter(out io.Writer, environment env.Environment, clock func() time.Time) reporter {
	return reporter{out: out, clock: clock, json: strings.EqualFold(environment("FLEET_JSON_OUTPUT"), "true")}
}

// fail prints the error that ends the call.
func (r reporter) fail(err error) {
	if r.json {
		slog.New(slog.NewJSONHandler(r.out, nil)).Error("Fleet cli failed", keyError, err.Error())
		return
	}
	r.line(err.Error())
}

// warn prints a warning.
func (r reporter) warn(text string) {
	if r.json {
		slog.New(slog.NewJSONHandler(r.out, nil)).Warn(text)
		return
	}
	r.line("warning: " + text)
}

// log prints what is done, with --debug.
func (r reporter) log(text string) {
	switch {
	case !r.debug:
	case r.json:
		slog.New(slog.NewJSONHandler(r.out, nil)).Info(text)
	default:
		r.line(text)
	}
}

func (r reporter) line(text string) {
	fmt.Fprintf(r.out, "%s %s\n", r.clock().Format("2006/01/02 15:04:05"), output.Line(text))
}
