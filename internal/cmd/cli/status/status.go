// Package status implements `fleet status`: does the hub work, and which problems do its clusters have?
//
//	ConfigMap, Leases, pod, Clusters, tokens, requests ─► gather ─► Status (pure) ─► table, JSON, YAML, names
package status

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/fleet-hub/fleet/internal/cmd/cli/access"
	"github.com/fleet-hub/fleet/internal/cmd/cli/clusters"
	"github.com/fleet-hub/fleet/internal/cmd/cli/hubconfig"
	"github.com/fleet-hub/fleet/internal/cmd/cli/leases"
	"github.com/fleet-hub/fleet/internal/cmd/cli/output"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

type options struct {
	streams genericiooptions.IOStreams
	flags   *access.Flags
	format  output.Format
	system  string
	clock   func() time.Time
}

// New returns the command. clock returns the current time.
func New(streams genericiooptions.IOStreams, clock func() time.Time) *cobra.Command {
	o := &options{streams: streams, flags: access.NewFlags(), format: output.Table, clock: clock}
	command := &cobra.Command{
		Use:   "status",
		Short: "Show the hub: version, leader, clusters by state, tokens and problems",
		Long: `Show whether the hub works: its version, the leader of its controllers, the clusters of a workspace (with -A, of all
workspaces) by state, the tokens, and the most frequent problems with an example and the command that fixes it. What you may
not read is left out, with a warning. ` + "`fleet doctor hub`" + ` checks more.

The exit code is 0 also if there are problems.`,
		Example: "  fleet status -A\n  fleet status -o json | jq .clusters.states",
		Args:    cobra.NoArgs,
		RunE:    func(command *cobra.Command, _ []string) error { return o.run(command.Context()) },
	}
	o.flags.Bind(command.Flags())
	o.flags.BindAll(command.Flags())
	o.format.Bind(command.Flags())
	command.Flags().StringVar(&o.system, "system-namespace", names.SystemNamespace, "namespace of the hub's controllers")
	return command
}

func (o *options) run(ctx context.Context) error {
	hub, err := o.flags.Open()
	if err != nil {
		return err
	}
	found, err := o.gather(ctx, hub)
	if err != nil {
		return err
	}
	result := found.status()
	for i := range result.Problems {
		result.Problems[i].Fix = o.flags.Target().On(result.Problems[i].Fix)
	}
	switch o.format {
	case output.Name:
		return printNames(o.streams.Out, result)
	case output.Table:
		return printTable(o.streams.Out, result, found.now)
	}
	return output.Print(o.streams.Out, o.format, result)
}

// gather reads everything. Without the right to read Clusters it fails. Everything else is optional.
func (o *options) gather(ctx context.Context, hub *access.Cluster) (*findings, error) {
	found := newFindings(o.system, o.clock())
	_, err := access.Each(ctx, hub.Clusters(hub.Namespace), metav1.ListOptions{}, func(cluster *fleet.Cluster) error {
		found.addCluster(cluster)
		return nil
	})
	if err != nil {
		return nil, access.Explain("listing Clusters", err)
	}
	_, err = access.Each(ctx, hub.Tokens(hub.Namespace), metav1.ListOptions{}, func(token *fleet.ClusterRegistrationToken) error {
		found.addToken(token)
		return nil
	})
	if err != nil {
		found.Tokens = nil
	}
	o.warn("listing tokens", err)
	_, err = access.Each(ctx, hub.Registrations(hub.Namespace), metav1.ListOptions{}, func(request *fleet.ClusterRegistration) error {
		found.addRegistration(request)
		return nil
	})
	o.warn("listing registrations", err)
	o.readSystem(ctx, hub, found)
	if ctx.Err() != nil { // a part that is missing would look healthy
		return nil, access.Explain("reading the hub", ctx.Err())
	}
	return found, nil
}

// readSystem reads the version and the leader from the system namespace.
func (o *options) readSystem(ctx context.Context, hub *access.Cluster, found *findings) {
	conf, err := hub.Core.CoreV1().ConfigMaps(o.system).Get(ctx, names.ControllerConfig, metav1.GetOptions{})
	if err == nil {
		found.ConfigurationVersion = conf.Annotations[fleet.AnnotationVersion]
	}
	o.warn("reading the version of the configuration", err)
	for _, name := range []string{names.ControllerLease, names.CleanupLease, names.DeliveryLease} {
		lease, err := hub.Core.CoordinationV1().Leases(o.system).Get(ctx, name, metav1.GetOptions{})
		switch {
		case err == nil:
			found.Leases = append(found.Leases, leases.Of(lease, found.now))
		case name == names.ControllerLease && !apierrors.IsNotFound(err):
			o.warn("reading the leader of the hub", err)
			return
		}
	}
	found.checkLeader()
	found.Version, err = o.readVersion(ctx, hub, found.Leases)
	o.warn("reading the version of the hub", err)
}

// readVersion returns the version of the controller that holds the Lease, or an empty text if it is not known. The configuration and
// the Deployment may have another version while an upgrade is not complete.
func (o *options) readVersion(ctx context.Context, hub *access.Cluster, held []leases.Lease) (string, error) {
	i := slices.IndexFunc(held, func(l leases.Lease) bool { return l.Name == names.ControllerLease && l.Active })
	if i < 0 {
		return "", nil
	}
	name, _, _ := strings.Cut(held[i].Holder, "_")
	pod, err := hub.Core.CoreV1().Pods(o.system).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err): // a controller outside the cluster
		return "", nil
	case err != nil:
		return "", err
	}
	for _, container := range pod.Spec.Containers {
		if container.Name == names.ControllerConfig {
			_, tag := hubconfig.SplitImage(container.Image)
			return tag, nil
		}
	}
	return "", nil
}

// warn prints what could not be read, unless err is nil. gather reports an interruption.
func (o *options) warn(doing string, err error) {
	if err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(o.streams.ErrOut, "warning: "+output.Line(access.Explain(doing, err).Error()))
	}
}

func printNames(out io.Writer, result Status) error {
	for _, problem := range result.Problems {
		group := fleet.GroupName
		if problem.Kind == kindLease {
			group = coordinationv1.GroupName
		}
		if _, err := fmt.Fprintf(out, "%s.%s/%s\n", strings.ToLower(problem.Kind), group, problem.Name); err != nil {
			return err
		}
	}
	return nil
}

// printTable writes the status for people.
func printTable(out io.Writer, result Status, now time.Time) error {
	facts := [][2]string{
		{"Hub version:", result.versionText()}, {"Leader:", leaderText(result.Leases, now)}, {"Clusters:", result.Clusters.text()},
	}
	if result.Tokens != nil {
		facts = append(facts, [2]string{"Tokens:", result.Tokens.text()})
	}
	if err := output.Facts(out, facts); err != nil || len(result.Problems) == 0 {
		return err
	}
	var rows, fixes [][]string
	for _, p := range result.Problems {
		example := p.Kind + " " + p.Namespace + "/" + p.Name
		rows = append(rows, []string{p.Reason, strconv.Itoa(p.Count), example, p.Message})
		if p.Fix != "" {
			fixes = append(fixes, []string{p.Reason, p.Fix})
		}
	}
	fmt.Fprintln(out)
	if err := output.Rows(out, []string{"PROBLEM", "OBJECTS", "EXAMPLE", "MESSAGE"}, rows); err != nil || len(fixes) == 0 {
		return err
	}
	fmt.Fprintln(out)
	return output.Rows(out, []string{"PROBLEM", "FIX OF THE EXAMPLE"}, fixes)
}

func leaderText(held []leases.Lease, now time.Time) string {
	for _, lease := range held {
		if lease.Name != names.ControllerLease {
			continue
		}
		text := cmp.Or(lease.Holder, "unknown")
		if lease.Renewed != nil {
			text += ", renewed " + duration.HumanDuration(max(now.Sub(lease.Renewed.Time), 0)) + " ago"
		}
		if !lease.Active {
			text += ": no controller is active"
		}
		return text
	}
	return "unknown"
}

// text returns the counts that are not 0, the best state first.
func (c Clusters) text() string {
	text := strconv.Itoa(c.Total)
	var parts []string
	for _, state := range clusters.States() {
		if n := c.States[state]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, state))
		}
	}
	if len(parts) > 0 {
		text += " (" + strings.Join(parts, ", ") + ")"
	}
	return text
}
