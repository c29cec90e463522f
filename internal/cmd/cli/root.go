package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/fleet-hub/fleet/internal/cmd/cli/access"
	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
	"github.com/fleet-hub/fleet/internal/cmd/env"
)

// Names under which kubectl starts this program.
const (
	plugin     = "kubectl-fleet"
	completion = "kubectl_complete-fleet"
)

// Run executes the program with its arguments, of which the first is the path of the executable, and returns the exit
// code. It prints errors to streams.ErrOut.
func Run(ctx context.Context, args []string, streams genericiooptions.IOStreams, environment env.Environment) exit.Code {
	root := New(streams, environment)
	// Errors before flags and arguments are valid are errors of usage. No command may have a PersistentPreRun of its own.
	started := false
	root.PersistentPreRun = func(*cobra.Command, []string) { started = true }
	switch filepath.Base(args[0]) {
	case plugin:
		root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl fleet"}
	case completion:
		args = append([]string{args[0], cobra.ShellCompRequestCmd}, args[1:]...)
	}
	root.SetArgs(args[1:])
	command, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exit.Done
	}
	var printed exit.Printed
	if errors.As(err, &printed) {
		return printed.Code
	}
	if !started {
		err = exit.Errorf(exit.Usage, "%w", err).With(command.CommandPath() + " --help")
	}
	fmt.Fprint(streams.ErrOut, exit.Text(exit.Reach(err, access.TargetOf(command.Flags()))))
	return exit.CodeOf(err)
}

// New returns the program.
func New(streams genericiooptions.IOStreams, environment env.Environment) *cobra.Command {
	root := &cobra.Command{
		Use:   "fleet",
		Short: "Joins clusters to a hub, finds and repairs problems, and delivers Bundles",
		Long: `Joins clusters to a hub, finds and repairs problems, and delivers Bundles.

Exit codes: 0 done, 1 failed, 2 invalid usage, 3 a check failed before the first change, 4 timeout, 5 refused.

docs/cli.md describes all commands. As kubectl-fleet on the PATH, this program is a plugin of kubectl: kubectl fleet.`,
		// Run prints the error once, without the usage.
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetIn(streams.In)
	root.SetOut(streams.Out)
	root.SetErr(streams.ErrOut)
	root.AddCommand(commands(streams, environment)...)
	return root
}
