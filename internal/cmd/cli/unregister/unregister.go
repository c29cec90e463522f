// Package unregister implements `fleet unregister`: how does a cluster leave the hub?
//
//	hub: Cluster, workloads, tokens, kubeconfig ─┐
//	cluster: agents, account of the import ──────┴─► decide ─► plan ─► tokens, Cluster, kubeconfig, agent, account
//
// Invariants:
//   - Nothing is deleted before everything was read and decided.
//   - The Cluster goes before the agent, because the hub installs a missing agent again.
//   - A second run continues after an interruption at any step, also if the Cluster no longer exists.
//   - Only the agent of this Cluster is removed, and only objects with the marks of `fleet import`.
package unregister

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"helm.sh/helm/v3/pkg/release"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/internal/cmd/cli/access"
	"github.com/fleet-hub/fleet/internal/cmd/cli/agentrelease"
	"github.com/fleet-hub/fleet/internal/cmd/cli/complete"
	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
	"github.com/fleet-hub/fleet/internal/cmd/cli/output"
)

// defaultTimeout limits each wait: for the deletion of the Cluster, of the agent's pods, and of its namespace.
const defaultTimeout = 2 * time.Minute

// helm is the Helm of a cluster for the namespace of an agent.
type helm interface {
	Status() (release.Status, error)
	Uninstall() error
}

type options struct {
	streams genericiooptions.IOStreams
	flags   *access.Flags
	format  output.Format
	newHelm func(cfg *rest.Config, namespace string) (helm, error)

	name, clusterContext             string
	keepWorkloads, keepAgent, dryRun bool
	timeout                          time.Duration
}

// New returns the command.
func New(streams genericiooptions.IOStreams) *cobra.Command {
	return newCommand(&options{
		streams: streams, flags: access.NewFlags(), format: output.Table, timeout: defaultTimeout,
		newHelm: func(cfg *rest.Config, namespace string) (helm, error) { return agentrelease.New(cfg, namespace) },
	})
}

func newCommand(o *options) *cobra.Command {
	command := &cobra.Command{
		Use:   "unregister NAME",
		Short: "Delete a Cluster, and with --cluster-context also its agent",
		Long: `Unregister deletes a Cluster on the hub, the tokens that were created for it, and the kubeconfig that "fleet import" has
stored. The hub then deletes everything else that it has of the cluster, within seconds.

What runs on the cluster stays as it is. Unregister therefore refuses a Cluster with workloads (exit code 5), and one whose
workloads you may not list. To uninstall them, let their Bundles no longer target the cluster first. To leave them on the
cluster, use --keep-workloads: when the cluster joins again, Bundles of the same names continue with their releases. With
--dry-run, unregister also prints what it would delete with --keep-workloads, and ends with the same exit code.

The agent stays and waits for another registration. With --cluster-context, unregister also removes the agent from that cluster,
and the service account that "fleet import" has created there. It refuses a cluster whose agent belongs to another Cluster.

To move a cluster to another workspace or hub, add --keep-agent. The agent and what it has deployed then stay, and unregister
removes only what ties them to this hub: the service account, and the mark of the hub. Then use "fleet join" or "fleet import".

It is safe to run unregister again: it continues. docs/uninstall.md describes the same with kubectl and helm.`,
		Example: `  fleet unregister west --dry-run
  fleet unregister west --cluster-context west
  fleet unregister west --keep-workloads
  fleet unregister west --keep-workloads --keep-agent --cluster-context west`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: complete.Clusters(o.flags),
		RunE: func(command *cobra.Command, args []string) error {
			o.name = args[0]
			return o.run(command.Context())
		},
	}
	flags := command.Flags()
	o.flags.Bind(flags)
	o.format.Bind(flags)
	flags.StringVar(&o.clusterContext, "cluster-context", "", "context of the cluster: remove its agent, too")
	flags.BoolVar(&o.keepWorkloads, "keep-workloads", false, "delete the Cluster although workloads exist; they stay on the cluster")
	flags.BoolVar(&o.keepAgent, "keep-agent", false, "with --cluster-context, keep the agent for its next registration; remove only the account of the import and the mark of the hub")
	flags.BoolVar(&o.dryRun, "dry-run", false, "print what would be deleted, and delete nothing")
	flags.DurationVar(&o.timeout, "timeout", o.timeout, "time to wait for the deletion of the Cluster, of the agent's pods, and of its namespace")
	return command
}

func (o *options) run(ctx context.Context) error {
	if err := o.check(); err != nil {
		return err
	}
	hub, err := o.flags.Open()
	if err != nil {
		return err
	}
	var cluster *access.Cluster
	if o.clusterContext != "" {
		if cluster, err = o.flags.In(o.clusterContext).Open(); err != nil {
			return err
		}
	}
	onHub, err := gatherHub(ctx, hub, o.name)
	if err != nil {
		return err
	}
	onCluster, err := o.gatherCluster(ctx, hub, cluster, onHub)
	if err != nil {
		return err
	}
	if err := decide(onHub, onCluster); err != nil {
		return err
	}
	refusal := checkWorkloads(onHub, onCluster, o.keepWorkloads)
	if refusal != nil && !o.dryRun {
		return refusal
	}
	if err := o.execute(ctx, o.plan(hub, cluster, onHub, onCluster), o.result(onHub, refusal)); err != nil {
		return err
	}
	return refusal
}

// check returns why the flags are invalid, or nil.
func (o *options) check() error {
	if len(validation.IsDNS1123Subdomain(o.name)) > 0 {
		return exit.Errorf(exit.Usage, "cluster name %q is not the name of an object", o.name).With("fleet unregister --help")
	}
	if o.keepAgent && o.clusterContext == "" {
		return exit.Errorf(exit.Usage, "--keep-agent needs --cluster-context; without it, nothing is removed from the cluster").With("fleet unregister --help")
	}
	return nil
}

// plan returns all deletions in their order.
func (o *options) plan(hub, cluster *access.Cluster, onHub hubFound, onCluster clusterFound) []step {
	plan := o.hubSteps(hub, onHub)
	if cluster != nil {
		for _, one := range o.clusterSteps(cluster, onHub, onCluster) {
			if do := one.do; do != nil {
				one.do = func(ctx context.Context) (string, error) {
					kept, err := do(ctx)
					return kept, o.onCluster(err)
				}
			}
			plan = append(plan, one)
		}
	}
	return plan
}

// onCluster makes the commands that fix an error reach the cluster of --cluster-context.
func (o *options) onCluster(err error) error {
	return exit.Reach(err, o.flags.In(o.clusterContext).Target())
}

// result returns the result without the changes. refusal is why nothing is deleted, or nil.
func (o *options) result(onHub hubFound, refusal error) Unregistered {
	result := Unregistered{
		Namespace: onHub.workspace, Cluster: o.name, DryRun: o.dryRun, Refused: refusal != nil, Changes: []Change{},
	}
	if count := len(onHub.workloads); !onHub.hidden {
		result.Workloads = &count
	}
	if o.clusterContext == "" {
		for _, command := range removeAgent(onHub) {
			result.Next = append(result.Next, o.flags.Target().On(command))
		}
	}
	return result
}

// execute executes the steps and prints the result.
func (o *options) execute(ctx context.Context, plan []step, result Unregistered) error {
	for _, one := range plan {
		change, err := o.take(ctx, one)
		if err != nil {
			return continues(err)
		}
		result.Changes = append(result.Changes, change)
	}
	return result.write(o.streams.Out, o.format)
}

// step is one deletion.
type step struct {
	Change
	// do deletes the object. It returns why the object is kept, or an empty text. A nil one means that it is kept for the cause in
	// the Change.
	do func(ctx context.Context) (kept string, err error)
}

// take executes a step, unless it is a dry run.
func (o *options) take(ctx context.Context, one step) (Change, error) {
	change := one.Change
	switch {
	case one.do == nil, o.dryRun && change.Cause != "":
		change.Result = resultKept
		return change, o.progress(change)
	case o.dryRun:
		change.Result = resultPlanned
		return change, nil
	}
	if err := ctx.Err(); err != nil {
		return change, err
	}
	kept, err := one.do(ctx)
	if err != nil {
		return change, err
	}
	if change.Result, change.Cause = resultDeleted, kept; kept != "" {
		change.Result = resultKept
	}
	return change, o.progress(change)
}

// progress prints a change as soon as it has happened: as the result, or besides it if the result is a document.
func (o *options) progress(change Change) error {
	if o.dryRun {
		return nil
	}
	out := o.streams.ErrOut
	if o.format == output.Table {
		out = o.streams.Out
	}
	_, err := fmt.Fprintln(out, output.Line(change.line()))
	return err
}

// continues returns an error that says how to go on after some objects were deleted. It never has the code
// Preflight, because each step is a change.
func continues(err error) error {
	const again = "run the same command again: it continues"
	var failure *exit.Error
	if errors.As(exit.AfterChange(err), &failure) {
		return failure.With(again)
	}
	if errors.Is(err, context.Canceled) {
		return exit.Errorf(exit.Failed, "interrupted").With(again)
	}
	return (&exit.Error{Code: exit.CodeOf(err), Problems: []error{err}}).With(again)
}
