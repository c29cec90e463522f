// Package clusters implements `fleet clusters`: what is the state of each cluster, and why?
//
//	Cluster ─► Judge (state, reason) ─► Row ─► list, watch
//	                                     └──► + conditions, facts, Bundles, fixes ─► describe
package clusters

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/fleet-hub/fleet/internal/cmd/cli/access"
	"github.com/fleet-hub/fleet/internal/cmd/cli/complete"
	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
	"github.com/fleet-hub/fleet/internal/cmd/cli/output"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// options are the flags of a subcommand.
type options struct {
	streams genericiooptions.IOStreams
	flags   *access.Flags
	format  output.Format
	clock   func() time.Time
}

// New returns the command. clock returns the current time.
func New(streams genericiooptions.IOStreams, clock func() time.Time) *cobra.Command {
	command := list(newOptions(streams, clock), "clusters")
	command.Aliases = []string{"cluster"}
	command.Args = exit.NoArgs
	command.Example = `  fleet clusters -A
  fleet clusters -o json | jq '.clusters[] | select(.state != "Ready")'
  fleet clusters describe east`
	command.AddCommand(list(newOptions(streams, clock), "list"), describe(newOptions(streams, clock)), watchCommand(newOptions(streams, clock)))
	return command
}

func newOptions(streams genericiooptions.IOStreams, clock func() time.Time) *options {
	return &options{streams: streams, flags: access.NewFlags(), format: output.Table, clock: clock}
}

const stateHelp = `States:
  Ready         the agent reports, and everything deployed is ready
  NotReady      the agent reports, and a Bundle is not ready; the reason is the worst state of a Bundle
  Degraded      the agent reports, and another condition of the Cluster is False
  Waiting       no agent has reported yet
  NotImported   the hub cannot install the agent
  Silent        the agent no longer reports, or the hub has installed it and it has not reported
  Deleting      the Cluster is being deleted

Reasons are those of docs/conditions.md.`

func list(o *options, use string) *cobra.Command {
	command := &cobra.Command{
		Use:     use,
		Short:   "List clusters with their state, agent and Bundles",
		Long:    "List the clusters of a workspace, or with -A of all workspaces.\n\n" + stateHelp,
		Example: "  fleet clusters list -n fleet-default",
		Args:    cobra.NoArgs,
		RunE:    func(command *cobra.Command, _ []string) error { return o.list(command.Context()) },
	}
	o.flags.Bind(command.Flags())
	o.flags.BindAll(command.Flags())
	o.format.Bind(command.Flags())
	return command
}

// List is the result of `fleet clusters`.
type List struct {
	Clusters []Row `json:"clusters"`
}

func (o *options) list(ctx context.Context) error {
	hub, err := o.flags.Open()
	if err != nil {
		return err
	}
	result := List{Clusters: []Row{}}
	_, err = access.Each(ctx, hub.Clusters(hub.Namespace), metav1.ListOptions{}, func(cluster *fleet.Cluster) error {
		result.Clusters = append(result.Clusters, rowOf(cluster))
		return nil
	})
	if err != nil {
		return access.Explain("listing Clusters", err)
	}
	switch o.format {
	case output.Name:
		return printNames(o.streams.Out, result.Clusters)
	case output.Table:
		if len(result.Clusters) == 0 {
			return o.printNone(hub.Namespace)
		}
		return printTable(o.streams.Out, result.Clusters, o.flags.All, o.clock())
	}
	return output.Print(o.streams.Out, o.format, result)
}

func describe(o *options) *cobra.Command {
	command := &cobra.Command{
		Use:   "describe NAME",
		Short: "Show one cluster with its conditions, its Bundles that are not ready, and the fixes",
		Long: `Show one cluster: its state, the facts that its agent reports, its conditions, and the Bundles that are not ready.
For each condition that needs attention, the command that fixes it follows, if docs/conditions.md names one. Commands with
the name of the Cluster as --context run against that cluster: write the context of your kubeconfig.`,
		Example:           "  fleet clusters describe east\n  fleet clusters describe local -n fleet-local -o yaml",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: complete.Clusters(o.flags),
		RunE:              func(command *cobra.Command, args []string) error { return o.describe(command.Context(), args[0]) },
	}
	o.flags.Bind(command.Flags())
	o.format.Bind(command.Flags())
	return command
}

func (o *options) describe(ctx context.Context, name string) error {
	hub, err := o.flags.Open()
	if err != nil {
		return err
	}
	cluster, err := Get(ctx, hub, name)
	if err != nil {
		return err
	}
	var tokens []*fleet.ClusterRegistrationToken
	if slices.ContainsFunc(cluster.Status.Conditions, isAwaited) {
		if tokens, err = access.Select(ctx, hub.Tokens(cluster.Namespace), metav1.ListOptions{}, nil); err != nil {
			tokens = nil // the fix is then without them
		}
	}
	target := o.flags.Target()
	result := describeCluster(cluster, tokens, target)
	switch o.format {
	case output.Name:
		return printNames(o.streams.Out, []Row{result.Row})
	case output.Table:
		return result.print(o.streams.Out, o.clock(), target)
	}
	return output.Print(o.streams.Out, o.format, result)
}
