package pods

import (
	"github.com/spf13/cobra"
)

// Name is the name of the program.
const Name = "podrunner"

// Command returns the program's command. It runs until its context is done.
func Command() *cobra.Command {
	var o Options
	cmd := &cobra.Command{
		Use:           Name,
		Short:         "Run the pods of a cluster without a container runtime; some of them as local processes",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return Run(cmd.Context(), o) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.Kubeconfig, "kubeconfig", "", "kubeconfig of an administrator of the cluster")
	flags.StringVar(&o.Dir, "dir", "", "directory of the pods' credentials and temporary files; emptied at the start and removed at the end")
	flags.StringVar(&o.LogDir, "log-dir", "", "directory of the pods' logs, <namespace>_<pod>.log")
	flags.StringToStringVar(&o.Binaries, "binary", nil, "command of containers that run as processes, and the executable, by its absolute path or its name on the PATH: fleetagent=fleetagent (repeatable)")
	return cmd
}

// Args returns the arguments for the options.
func (o Options) Args() []string {
	args := []string{"--kubeconfig=" + o.Kubeconfig, "--dir=" + o.Dir, "--log-dir=" + o.LogDir}
	for _, command := range sortedKeys(o.Binaries) {
		args = append(args, "--binary="+command+"="+o.Binaries[command])
	}
	return args
}
