package companion_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fleet-hub/fleet/internal/cmd/companion"
)

// program has one command that stays and one that ends.
func program(out io.Writer) *cobra.Command {
	root := &cobra.Command{Use: "fleetprogram", SilenceErrors: true, SilenceUsage: true, Args: cobra.NoArgs, RunE: func(*cobra.Command, []string) error {
		return errors.New("the program itself was started")
	}}
	companion.Add(root, out,
		companion.Command{Use: "cleanup", Why: "the controllers clean up"},
		companion.Command{Use: "migrate", Why: "there is nothing old", Ends: true})
	return root
}

func TestCommands(t *testing.T) {
	tests := map[string]struct {
		args  []string
		stays bool
		says  string
	}{
		"keeps running":             {args: []string{"cleanup"}, stays: true, says: `msg="this command does nothing" command="fleetprogram cleanup" because="the controllers clean up"`},
		"keeps running, with flags": {args: []string{"cleanup", "--namespace", "x", "--debug", "-v=3"}, stays: true, says: "fleetprogram cleanup"},
		"ends":                      {args: []string{"migrate"}, says: `command="fleetprogram migrate" because="there is nothing old"`},
		"ends, with any arguments":  {args: []string{"migrate", "all", "--batch-size=5", "of", "it"}, says: "fleetprogram migrate"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var out watchedBuffer
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			out.line = cancelOnceSaid(test.stays, cancel)
			root := program(&out)
			root.SetArgs(test.args)
			if err := root.ExecuteContext(ctx); err != nil {
				t.Fatal(err)
			}
			// What stays has been ended by the test, after its line; what ends has done so by itself.
			if ended := ctx.Err() != nil; ended != test.stays {
				t.Errorf("it was told to end: %t, want %t", ended, test.stays)
			}
			if !strings.Contains(out.String(), test.says) {
				t.Errorf("it said %q, want %q", out.String(), test.says)
			}
		})
	}
}

// watchedBuffer is what was written, and calls line at each write.
type watchedBuffer struct {
	bytes.Buffer
	line func()
}

func (s *watchedBuffer) Write(p []byte) (int, error) {
	s.line()
	return s.Buffer.Write(p)
}

func cancelOnceSaid(stays bool, cancel func()) func() {
	if stays {
		return cancel
	}
	return func() {}
}

func TestUnknownCommand_IsRejected(t *testing.T) {
	root := program(io.Discard)
	root.SetArgs([]string{"apply"})
	if err := root.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), `unknown command "apply"`) {
		t.Errorf("error %v, want an unknown command", err)
	}
}

func TestIgnoredFlags(t *testing.T) {
	tests := map[string]struct {
		args []string
		err  string
	}{
		"all of them":  {args: []string{"--zap-devel", "--zap-encoder=json", "--zap-log-level", "debug", "--zap-stacktrace-level=panic", "--zap-time-encoding", "iso8601"}},
		"unknown flag": {args: []string{"--zap-color"}, err: "unknown flag: --zap-color"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			flags := pflag.NewFlagSet("fleetprogram", pflag.ContinueOnError)
			companion.IgnoreFlags(flags)
			err := flags.Parse(test.args)
			if (err == nil) != (test.err == "") || err != nil && err.Error() != test.err {
				t.Errorf("error %v, want %q", err, test.err)
			}
			if usage := flags.FlagUsages(); usage != "" {
				t.Errorf("users are told of flags that do nothing:\n%s", usage)
			}
		})
	}
}
