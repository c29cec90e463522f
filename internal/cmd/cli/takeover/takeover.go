// Package takeover implements `fleet confirm-takeover`: may this request replace the agent of a Cluster?
//
//	Cluster, request, other requests of its client ─► decide ─► annotation on the Cluster ─► wait for the grant
//	                                               └─► Takeover (the new agent, and what happens to the earlier one)
package takeover

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/fleet-hub/fleet/internal/cmd/cli/access"
	"github.com/fleet-hub/fleet/internal/cmd/cli/await"
	"github.com/fleet-hub/fleet/internal/cmd/cli/clusters"
	"github.com/fleet-hub/fleet/internal/cmd/cli/complete"
	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
	"github.com/fleet-hub/fleet/internal/cmd/cli/output"
	"github.com/fleet-hub/fleet/internal/cmd/cli/remedy"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

// defaultTimeout limits the wait for the grant.
const defaultTimeout = time.Minute

type options struct {
	streams genericiooptions.IOStreams
	clock   func() time.Time
	flags   *access.Flags
	format  output.Format

	cluster, request string
	dryRun           bool
	timeout          time.Duration
}

// New returns the command. clock returns the current time.
func New(streams genericiooptions.IOStreams, clock func() time.Time) *cobra.Command {
	o := &options{streams: streams, clock: clock, flags: access.NewFlags(), format: output.Table, timeout: defaultTimeout}
	command := &cobra.Command{
		Use:   "confirm-takeover NAME REQUEST",
		Short: "Let a request that waits replace the agent of a Cluster",
		Long: `Confirm-takeover lets a ClusterRegistration that waits with TakeoverPending replace the agent of a Cluster. A client ID is not
secret: anyone with a token of the workspace can send such a request. Confirm only a request that you expect, from an agent
that you have just installed.

It prints what the request says about its agent, and what happens to the earlier agent. --dry-run prints only that. Then it
annotates the Cluster with fleet.cattle.io/confirm-takeover, and waits until the hub grants the request.`,
		Example: `  fleet confirm-takeover west request-x7k2p --dry-run
  fleet confirm-takeover west request-x7k2p`,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: complete.Takeovers(o.flags),
		RunE: func(command *cobra.Command, args []string) error {
			o.cluster, o.request = args[0], args[1]
			return o.run(command.Context())
		},
	}
	flags := command.Flags()
	o.flags.Bind(flags)
	o.format.Bind(flags)
	flags.BoolVar(&o.dryRun, "dry-run", false, "show the request and the change of the Cluster, and write nothing")
	flags.DurationVar(&o.timeout, "timeout", o.timeout, "time to wait until the hub grants the request")
	return command
}

func (o *options) run(ctx context.Context) error {
	if err := checkNames(o.cluster, o.request); err != nil {
		return err
	}
	hub, err := o.flags.Open()
	if err != nil {
		return err
	}
	f, err := gather(ctx, hub, o.cluster, o.request)
	if err != nil {
		return err
	}
	already, err := decide(f)
	if err != nil {
		return err
	}
	result := describe(f)
	if result.Already = already; already {
		return o.print(result)
	}
	for _, warning := range warnings(f) {
		fmt.Fprintln(o.streams.ErrOut, "warning: "+warning)
	}
	if o.dryRun {
		return o.preview(f, result)
	}
	if err := result.facts(o.streams.ErrOut, o.clock()); err != nil {
		return err
	}
	if err := confirm(ctx, hub, f); err != nil {
		return err
	}
	if err := o.await(ctx, hub, f); err != nil {
		return exit.AfterChange(err)
	}
	result.Granted = true
	return o.print(result)
}

// gather reads the Cluster, the request, and the other requests of the Cluster.
func gather(ctx context.Context, hub *access.Cluster, cluster, request string) (found, error) {
	var f found
	var err error
	if f.cluster, err = clusters.Get(ctx, hub, cluster); err != nil {
		return f, err
	}
	requests := hub.Registrations(hub.Namespace)
	if f.request, err = access.Find(ctx, requests, "ClusterRegistration "+hub.Namespace+"/"+request, request); err != nil {
		return f, err
	}
	_, err = access.Each(ctx, requests, metav1.ListOptions{}, func(r *fleet.ClusterRegistration) error {
		f.add(r)
		return nil
	})
	if err != nil {
		return f, access.Explain("reading ClusterRegistrations", err)
	}
	if f.request == nil {
		return f, noSuchRequest(f, request)
	}
	if name := f.request.Labels[fleet.LabelRegistrationToken]; name != "" {
		token, err := access.Find(ctx, hub.Tokens(hub.Namespace), "token "+hub.Namespace+"/"+name, name)
		f.tokenMissing = token == nil
		return f, err
	}
	return f, nil
}

// confirm annotates the Cluster. The UID prevents that another Cluster of the same name gets the annotation.
func confirm(ctx context.Context, hub *access.Cluster, f found) error {
	_, err := access.Patch(ctx, hub.Clusters(f.cluster.Namespace), f.cluster.Name, map[string]any{"metadata": map[string]any{
		"uid": f.cluster.UID, "annotations": map[string]any{annotation.ConfirmTakeover: f.request.Name},
	}})
	return access.Explain(fmt.Sprintf("annotating Cluster %s/%s", f.cluster.Namespace, f.cluster.Name), err)
}

// await waits until the hub has granted the request.
func (o *options) await(ctx context.Context, hub *access.Cluster, f found) error {
	name := f.request.Namespace + "/" + f.request.Name
	return await.Wait{
		For: "the grant of ClusterRegistration " + name, Timeout: o.timeout, Progress: o.streams.ErrOut,
		Next: []string{"kubectl get pods -n cattle-fleet-system -l app=fleet-controller", "run the command again: it continues"},
	}.Until(ctx, func(ctx context.Context) (bool, string, error) {
		now, err := hub.Registrations(f.request.Namespace).Get(ctx, f.request.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err), err == nil && now.UID != f.request.UID:
			return false, "", gone(f)
		case err != nil:
			return false, "", access.Explain("reading ClusterRegistration "+name, err)
		}
		return now.Status.Granted, stateOf(now), nil
	})
}

// gone returns the error for a request that was deleted, or replaced by another one with its name, after it was confirmed.
func gone(f found) error {
	return exit.Errorf(exit.Failed, "ClusterRegistration %s/%s was deleted before the hub granted it", f.request.Namespace, f.request.Name).With(
		remedy.Command("kubectl", "annotate", "clusters.fleet.cattle.io", "-n", f.cluster.Namespace, f.cluster.Name, annotation.ConfirmTakeover+"-"),
		"if the agent still waits, it sends another request within 30 minutes: "+remedy.Command("fleet", "status", "-n", f.cluster.Namespace))
}

// preview prints the change of the Cluster.
func (o *options) preview(f found, result Takeover) error {
	if err := result.facts(o.streams.ErrOut, o.clock()); err != nil {
		return err
	}
	return output.Objects(o.streams.Out, o.format, map[string]any{
		"apiVersion": fleet.SchemeGroupVersion.String(), "kind": "Cluster",
		"metadata": map[string]any{
			"namespace": f.cluster.Namespace, "name": f.cluster.Name, "annotations": map[string]any{annotation.ConfirmTakeover: f.request.Name},
		},
	})
}

func (o *options) print(result Takeover) error {
	text := "was granted"
	if result.Already {
		text = "had been granted already"
	}
	return output.One(o.streams.Out, o.format, result, "clusterregistration.fleet.cattle.io/"+result.Request,
		fmt.Sprintf("request %s/%s %s: it registers Cluster %s", result.Namespace, result.Request, text, result.Cluster))
}
