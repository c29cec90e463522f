// Package companion provides commands that charts of Rancher Fleet start in additional containers, and that have
// nothing to do in this project. Their pods must start, and then stay up or end.
//
//	the pod's command ─► one log line ─► waits for the signal to end │ ends immediately
package companion

import (
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fleet-hub/fleet/internal/logging"
)

// Command describes one such command.
type Command struct {
	// Use is its name.
	Use string
	// Why is the reason why there is nothing to do, for the log: constant, without a full stop.
	Why string
	// Ends means that it is a job or an init container, which must end. Other commands run until they receive a
	// signal.
	Ends bool
}

// Add adds these commands to a program. They accept and ignore all flags and arguments.
func Add(program *cobra.Command, out io.Writer, commands ...Command) {
	// cobra adds a completion command to every program with subcommands. These subcommands must not cause that.
	program.CompletionOptions.DisableDefaultCmd = true
	for _, one := range commands {
		program.AddCommand(&cobra.Command{
			Use:                one.Use,
			Short:              "Does nothing: " + one.Why,
			Hidden:             true,
			Args:               cobra.ArbitraryArgs,
			FParseErrWhitelist: cobra.FParseErrWhitelist{UnknownFlags: true},
			RunE: func(command *cobra.Command, _ []string) error {
				log := logging.New(logging.Options{Writer: out})
				log.Info("this command does nothing", "command", command.CommandPath(), "because", one.Why)
				if !one.Ends {
					<-command.Context().Done()
				}
				return nil
			},
		})
	}
}

// IgnoreFlags accepts and ignores the flags of another logger, so that pods that set them start. The programs of
// this project use --debug and --debug-level.
func IgnoreFlags(flags *pflag.FlagSet) {
	flags.Bool("zap-devel", false, "")
	ignored := []string{"zap-devel", "zap-encoder", "zap-log-level", "zap-stacktrace-level", "zap-time-encoding"}
	for _, name := range ignored {
		if flags.Lookup(name) == nil {
			flags.String(name, "", "")
		}
		flags.Lookup(name).Hidden = true
	}
}
