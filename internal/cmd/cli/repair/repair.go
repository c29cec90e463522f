// Package repair implements `fleet repair`: how does the agent of a Cluster come back?
//
//	Cluster ─► decide ─┬─ the hub has the kubeconfig: raise spec.redeployAgentGeneration ─► wait for the heartbeat
//	                   └─ the agent joined by itself: token of the Cluster ─► join text, and what the hub does with its request
package repair

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/fleet-hub/fleet/internal/cmd/cli/access"
	"github.com/fleet-hub/fleet/internal/cmd/cli/await"
	"github.com/fleet-hub/fleet/internal/cmd/cli/clusters"
	"github.com/fleet-hub/fleet/internal/cmd/cli/complete"
	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
	"github.com/fleet-hub/fleet/internal/cmd/cli/hubconfig"
	"github.com/fleet-hub/fleet/internal/cmd/cli/jointext"
	"github.com/fleet-hub/fleet/internal/cmd/cli/output"
	"github.com/fleet-hub/fleet/internal/cmd/cli/remedy"
	"github.com/fleet-hub/fleet/internal/cmd/cli/token"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	rules "github.com/fleet-hub/fleet/internal/rules/clusters"
	"github.com/fleet-hub/fleet/internal/rules/revocation"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// defaultTimeout limits the wait for the agent, or for the values of the token.
const defaultTimeout = 3 * time.Minute

// retryTime is how long the hub may take to try an import again, until the problem of the last one counts.
const retryTime = 30 * time.Second

// looksPerHint is how many looks at the Cluster, one a second, there are for each look at its registrations.
const looksPerHint = 5

// Repaired is the result.
type Repaired struct {
	Namespace string `json:"namespace"`
	Cluster   string `json:"cluster"`
	// LastSeen is the time of the heartbeat of an agent that the hub has reinstalled, in RFC 3339.
	LastSeen string `json:"lastSeen,omitempty"`
	// Token is the token of the join text.
	Token string `json:"token,omitempty"`
	// Join is the join text. It is a secret.
	Join string `json:"join,omitempty"`
	// Takeover describes what the hub does with the request of an agent that joins with the text.
	Takeover string `json:"takeover,omitempty"`
}

type options struct {
	streams genericiooptions.IOStreams
	clock   func() time.Time
	flags   *access.Flags
	format  output.Format
	form    token.Handover
	order   *token.Order

	name    string
	dryRun  bool
	timeout time.Duration
}

// New returns the command. clock returns the current time.
func New(streams genericiooptions.IOStreams, clock func() time.Time) *cobra.Command {
	o := &options{
		streams: streams, clock: clock, flags: access.NewFlags(), format: output.Table, order: token.NewOrder(streams.ErrOut), timeout: defaultTimeout,
	}
	command := &cobra.Command{
		Use:   "repair NAME",
		Short: "Reinstall the agent of an imported cluster, or print a text with which the agent joins again",
		Long: `Repair brings the agent of a Cluster back. The Cluster, its workloads and its client ID stay.

If the hub has the kubeconfig of the cluster, repair makes the hub install the agent again with a new identity, and waits until
it reports. If the agent has joined with a token, repair creates a token for this Cluster, and prints the command to run with
access to the cluster. It also says whether the hub grants the request at once, or whether it waits for
"fleet confirm-takeover" because another agent reports as this Cluster. The text contains a secret.

It is safe to run repair again. As long as the hub installs the agent, repair waits for that. Once the agent is installed, a
second run installs it again: to let a slow agent report, use --timeout. Repair prints the text of a token that still exists.`,
		Example: `  fleet repair east
  fleet repair west --ttl 1h
  fleet repair west --format values > west.yaml`,
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
	o.form.Bind(command)
	flags.StringVar(&o.order.Name, "token", "", "name of the token for an agent that joins again (default: NAME-repair)")
	flags.DurationVar(&o.order.TTL, "ttl", o.order.TTL, "lifetime of that token, such as 30m or 12h; 0: it never expires")
	flags.BoolVar(&o.dryRun, "dry-run", false, "print what would be written as YAML, and write nothing")
	flags.DurationVar(&o.timeout, "timeout", o.timeout, "time to wait for the agent of an imported cluster, or for the values of the token")
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
	cluster, err := clusters.Get(ctx, hub, o.name)
	if err != nil {
		return err
	}
	todo, err := decide(cluster, hubconfig.Read(ctx, hub.Core).Bootstrap)
	if err != nil {
		return err
	}
	if todo == stepJoin {
		return o.rejoin(ctx, hub, cluster)
	}
	return o.reinstall(ctx, hub, cluster, todo)
}

// check completes the order of the token, and returns all problems of the flags.
func (o *options) check() error {
	o.order.Workspace, o.order.Cluster, o.order.Timeout, o.order.TakeoverExplained = o.flags.Namespace(), o.name, o.timeout, true
	o.order.Name = cmp.Or(o.order.Name, names.SafeConcat(o.name, "repair"))
	failure := &exit.Error{Code: exit.Failed}
	for _, err := range []error{o.order.Check(), o.form.Check()} {
		if err != nil {
			failure.Add(err)
		}
	}
	if len(failure.Problems) == 0 {
		return nil
	}
	failure.Fixes = []string{"fleet repair --help"}
	return failure
}

// reinstall makes the hub install the agent again, and waits until it reports.
func (o *options) reinstall(ctx context.Context, hub *access.Cluster, c *fleet.Cluster, todo step) error {
	switch {
	case o.dryRun && todo == stepWait:
		fmt.Fprintln(o.streams.ErrOut, "nothing to write: the hub is installing the agent")
		return nil
	case o.dryRun:
		return output.Objects(o.streams.Out, o.format, map[string]any{
			"apiVersion": fleet.SchemeGroupVersion.String(), "kind": "Cluster",
			"metadata": map[string]any{"namespace": c.Namespace, "name": c.Name}, "spec": map[string]any{"redeployAgentGeneration": access.NextGeneration(c)},
		})
	case todo == stepReinstall:
		if err := access.Reinstall(ctx, hub, c); err != nil {
			return err
		}
	}
	if revocation.IsBlocked(c) {
		fmt.Fprintln(o.streams.ErrOut, o.flags.Target().On(revoked(c)))
	}
	seen, err := o.await(ctx, hub, c)
	if err != nil && todo == stepReinstall {
		return exit.AfterChange(err)
	}
	if err != nil {
		return err
	}
	return o.print(Repaired{Namespace: c.Namespace, Cluster: c.Name, LastSeen: rules.LastSeen(seen)})
}

// await waits until the hub has installed the agent and the agent has reported. c is the Cluster before the write.
func (o *options) await(ctx context.Context, hub *access.Cluster, c *fleet.Cluster) (now *fleet.Cluster, err error) {
	name, begun := c.Namespace+"/"+c.Name, o.clock()
	looks, hint := 0, ""
	err = await.Wait{
		For: "the agent of Cluster " + name, Timeout: o.timeout, Progress: o.streams.ErrOut,
		Next: []string{remedy.Command("fleet", "clusters", "describe", c.Name, "-n", c.Namespace), "if the hub is still installing the agent, run the command again with --timeout 10m; if the agent is installed, that reinstalls it"},
	}.Until(ctx, func(ctx context.Context) (bool, string, error) {
		var err error
		if now, err = hub.Clusters(c.Namespace).Get(ctx, c.Name, metav1.GetOptions{}); err != nil {
			return false, "", access.Explain("reading Cluster "+name, err)
		}
		if problem := importProblem(now, exit.Refused); problem != nil {
			if isEarlier(c, now) && o.clock().Sub(begun) < retryTime {
				return false, problem.Error(), nil
			}
			return false, "", problem
		}
		done, state := reinstalled(now)
		if hint == "" && looks%looksPerHint == 0 && isInstalled(now) && !done && revocation.IsBlocked(now) {
			if hint = o.pending(ctx, hub, now); hint != "" {
				fmt.Fprintln(o.streams.ErrOut, hint)
			}
		}
		looks++
		return done, cmp.Or(hint, state), nil
	})
	return now, err
}

// pending describes the registration of a Cluster that waits for a confirmation. It returns an empty text if no registration waits,
// or if the user may not read them.
func (o *options) pending(ctx context.Context, hub *access.Cluster, c *fleet.Cluster) string {
	waiting, _ := access.Select(ctx, hub.Registrations(c.Namespace), metav1.ListOptions{}, func(r *fleet.ClusterRegistration) bool {
		return isPending(r, c)
	})
	last := newest(waiting)
	if last == nil {
		return ""
	}
	return o.flags.Target().On(fmt.Sprintf("ClusterRegistration %s/%s waits (TakeoverPending) until you run: %s",
		last.Namespace, last.Name, remedy.OfRegistration(last, conditions.ReasonTakeoverPending)))
}

// rejoin prints the text with which the agent joins again.
func (o *options) rejoin(ctx context.Context, hub *access.Cluster, c *fleet.Cluster) error {
	existing, err := o.token(ctx, hub, o.order.Name)
	if err != nil {
		return err
	}
	found, err := o.registered(ctx, hub, c, existing)
	if err != nil {
		return err
	}
	result := Repaired{Namespace: c.Namespace, Cluster: c.Name, Token: o.order.Name, Takeover: o.flags.Target().On(takeover(c, found, o.clock()))}
	if o.dryRun {
		fmt.Fprintln(o.streams.ErrOut, result.Takeover)
		if existing != nil {
			fmt.Fprintf(o.streams.ErrOut, "nothing to write: token %s/%s exists\n", c.Namespace, existing.Name)
			return nil
		}
		return token.Preview(ctx, hub, *o.order, o.streams.Out, o.format)
	}
	text, _, err := token.Ensure(ctx, hub, *o.order)
	if err != nil {
		return err
	}
	switch o.format {
	case output.JSON, output.YAML:
		if result.Join, err = jointext.Encode(text); err != nil {
			return err
		}
	case output.Table:
		fmt.Fprintln(o.streams.ErrOut, result.Takeover)
		return o.form.Write(o.streams.Out, text, c.Name)
	}
	return o.print(result)
}

// registered reads with which token the agent of a Cluster has registered. existing is the token that is handed out, or nil.
func (o *options) registered(ctx context.Context, hub *access.Cluster, c *fleet.Cluster, existing *fleet.ClusterRegistrationToken) (registered, error) {
	granted, err := access.Select(ctx, hub.Registrations(c.Namespace), metav1.ListOptions{}, func(r *fleet.ClusterRegistration) bool {
		return r.Status.Granted && r.Status.ClusterName == c.Name
	})
	last := newest(granted)
	if err != nil || last == nil {
		return registered{}, access.Explain("reading ClusterRegistrations", err)
	}
	uid, name := last.Annotations[annotation.TokenUIDAtGrant], last.Labels[fleet.LabelRegistrationToken]
	found := registered{any: true, withToken: existing != nil && uid == string(existing.UID)}
	if found.withToken || name == "" || uid == "" {
		return found, nil
	}
	earlier, err := o.token(ctx, hub, name)
	if err == nil && earlier != nil && uid == string(earlier.UID) {
		found.reusable = name
	}
	return found, err
}

// token reads a token, or returns nil if it does not exist.
func (o *options) token(ctx context.Context, hub *access.Cluster, name string) (*fleet.ClusterRegistrationToken, error) {
	return access.Find(ctx, hub.Tokens(o.order.Workspace), "token "+o.order.Workspace+"/"+name, name)
}

func (o *options) print(result Repaired) error {
	return output.One(o.streams.Out, o.format, result, "cluster.fleet.cattle.io/"+result.Cluster,
		fmt.Sprintf("repaired Cluster %s/%s: its agent reports", result.Namespace, result.Cluster))
}
