package doctor

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/fleet-hub/fleet/internal/cmd/cli/doctor/agent"
	"github.com/fleet-hub/fleet/internal/cmd/cli/doctor/agent/gather"
	"github.com/fleet-hub/fleet/internal/cmd/cli/doctor/check"
	"github.com/fleet-hub/fleet/internal/cmd/cli/remedy"
	"github.com/fleet-hub/fleet/internal/protocol/names"
)

// unknownHub is the context of the hub in commands, if only the cluster is known.
const unknownHub = "HUB"

func newAgent(o *options) *cobra.Command {
	command := &cobra.Command{
		Use:   "agent",
		Short: "Check the agent of a cluster, with access to that cluster only",
		Long: `Check the agent of the cluster of --context: its pods, its Secrets, its rights, Helm releases, other agents, and the
connection to its hub.

The connection to the hub is measured from this machine. The check sends the agent's credential only to the address in the
agent's Secret, and only to a server whose certificate the CA in that Secret has signed. It is never printed.

` + rowsHelp,
		Example: "  fleet doctor agent --context east\n  fleet doctor agent --context east --agent-namespace cattle-fleet-system --all",
		Args:    cobra.NoArgs,
		RunE:    func(command *cobra.Command, _ []string) error { return o.run(command.Context(), o.checkAgent) },
	}
	o.bind(command, o.flags.BindCluster)
	command.Flags().Lookup("namespace").Usage = "has no effect here; see --agent-namespace"
	command.Flags().StringVar(&o.agent, "agent-namespace", names.SystemNamespace, "namespace of the agent")
	return command
}

func (o *options) checkAgent(ctx context.Context) ([]check.Row, error) {
	cluster, err := o.open(o.flags)
	if err != nil {
		return nil, err
	}
	// run adds the flags of the cluster to commands that name no context
	scope := agent.Scope{Namespace: o.agent, Hub: remedy.Target{Context: unknownHub}}
	report, err := gather.Report(ctx, cluster, scope, o.clock)
	if err != nil {
		return nil, err
	}
	return report.Rows(), nil
}
