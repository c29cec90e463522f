// Package companion has the commands that charts of other implementations start beside the programs of this one, in
// containers of their own, and that have nothing to do here: their pods start and stay up, or end, as they must.
//
//	the pod's command ─► one line in the log ─► waits to be told to end │ ends at once
package companion

import (
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fleet-hub/fleet/internal/logging"
)

// Command is one such command.
type Command struct {
	// Use is its name.
	Use string
	// Why there is nothing to do, as a log line says it: constant, without a full stop.
	Why string
	// Ends says that it is a job or an init container, which has to end; others stay until they are told to end.
	Ends bool
}

// Add gives these commands to a program. They take any flag and any argument, since they do nothing with them.
func Add(program *cobra.Command, out io.Writer, commands ...Command) {
	// Without commands of its own a program would not have offered that one either.
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
				log.Info("nothing to do", "command", command.CommandPath(), "because", one.Why)
				if !one.Ends {
					<-command.Context().Done()
				}
				return nil
			},
		})
	}
}

// IgnoreFlags accepts the flags of another logger, so that pods which set them start; the programs here have --debug
// and --debug-level.
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
