// Package doctor implements `fleet doctor`: what is wrong, why, and which command fixes it?
//
//	hub                  ─► package hub (facts, checks)     ─┐
//	one Cluster of a hub ─► package member (facts, checks)  ─┤
//	both                 ─► package both (checks)           ─┼─► check.Report ─► table, JSON, YAML, names; exit code
//	cluster              ─► package agent (facts, checks)   ─┘
package doctor

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/fleet-hub/fleet/internal/cmd/cli/access"
	"github.com/fleet-hub/fleet/internal/cmd/cli/doctor/check"
	"github.com/fleet-hub/fleet/internal/cmd/cli/doctor/hub"
	"github.com/fleet-hub/fleet/internal/cmd/cli/doctor/hub/gather"
	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
	"github.com/fleet-hub/fleet/internal/cmd/cli/output"
	"github.com/fleet-hub/fleet/internal/protocol/names"
)

const (
	// defaultTimeout limits all requests together.
	defaultTimeout = 30 * time.Second
	// requestTimeout limits one request. It is also limited to half of --timeout, so that other checks have time left.
	requestTimeout = 10 * time.Second
)

// options are the flags of a subcommand.
type options struct {
	streams genericiooptions.IOStreams
	clock   func() time.Time
	flags   *access.Flags
	format  output.Format

	// system and agent are the namespaces of the controllers and of the agent.
	system, agent string
	// cluster is the context of the cluster, or empty.
	cluster string
	all     bool
	// chosen means that -n is given.
	chosen  bool
	failOn  check.Threshold
	timeout time.Duration
}

// New returns the command. clock returns the current time.
func New(streams genericiooptions.IOStreams, clock func() time.Time) *cobra.Command {
	command := newHub(newOptions(streams, clock), "doctor")
	command.Args = exit.NoArgs
	command.AddCommand(newHub(newOptions(streams, clock), "hub"), newCluster(newOptions(streams, clock)), newAgent(newOptions(streams, clock)))
	return command
}

func newOptions(streams genericiooptions.IOStreams, clock func() time.Time) *options {
	return &options{streams: streams, clock: clock, flags: access.NewFlags(), format: output.Table, timeout: defaultTimeout}
}

const rowsHelp = `Each check is ok, warning, failed or skipped. A check is skipped if it could not read what it needs. The cause says why, and
names the right if you lack one. The table shows problems only, unless --all is given. The fix repairs the named object.
` + check.Page + ` explains each check.

The exit code is 1 if a check has the verdict of --fail-on or a worse one. It is also 1 if a check was skipped because a
request failed or the command was interrupted, and 4 if the time was too short. A right that you lack does not change it.`

func newHub(o *options, use string) *cobra.Command {
	command := &cobra.Command{
		Use:     use,
		Short:   "Check the hub, and print the command that fixes each problem",
		Long:    "Check the hub and the objects of a workspace, or with -A of all workspaces.\n\n" + rowsHelp,
		Example: "  fleet doctor hub -A\n  fleet doctor hub -A -o json | jq '.rows[] | select(.verdict == \"failed\")'",
		Args:    cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			o.chosen = command.Flags().Changed("namespace")
			return o.run(command.Context(), o.checkHub)
		},
	}
	o.bind(command, o.flags.Bind)
	o.flags.BindAll(command.Flags())
	command.Flags().StringVar(&o.system, "system-namespace", names.SystemNamespace, "namespace of the hub's controllers")
	return command
}

// bind declares the flags that all subcommands have. declare declares those of package access.
func (o *options) bind(command *cobra.Command, declare func(*pflag.FlagSet)) {
	flags := command.Flags()
	declare(flags)
	o.format.Bind(flags)
	o.failOn.Bind(flags)
	flags.BoolVar(&o.all, "all", false, "also show checks that are ok")
	flags.DurationVar(&o.timeout, "timeout", o.timeout, "time for all checks together")
}

// run prints the rows of checks. Their exit code comes without an error message, because the report has the causes.
func (o *options) run(ctx context.Context, checks func(context.Context) ([]check.Row, error)) error {
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	rows, err := checks(ctx)
	if err != nil {
		return err
	}
	target := o.flags.Target()
	for i := range rows {
		rows[i].Fix = target.On(rows[i].Fix)
	}
	report := check.NewReport(rows)
	if err := report.Print(o.streams.Out, o.format, o.all); err != nil {
		return err
	}
	if code := o.failOn.ExitCode(report); code != exit.Done {
		return exit.Printed{Code: code}
	}
	return nil
}

// open returns the cluster of flags. Each of its requests has a time limit.
func (o *options) open(flags *access.Flags) (*access.Cluster, error) {
	flags.Timeout = min(requestTimeout, o.timeout/2)
	return flags.Open()
}

func (o *options) checkHub(ctx context.Context) ([]check.Row, error) {
	cluster, err := o.open(o.flags)
	if err != nil {
		return nil, err
	}
	facts, missing, err := gather.Facts(ctx, cluster, hub.Scope{System: o.system, Workspace: cluster.Namespace, Chosen: o.chosen}, o.clock)
	if err != nil {
		return nil, err
	}
	return check.Run(hub.Checks(), facts, missing), nil
}
