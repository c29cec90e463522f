package join

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/cmd/cli/access"
	"github.com/fleet-hub/fleet/internal/cmd/cli/await"
	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
	"github.com/fleet-hub/fleet/internal/cmd/cli/jointext"
	"github.com/fleet-hub/fleet/internal/cmd/cli/output"
	"github.com/fleet-hub/fleet/internal/cmd/cli/remedy"
	"github.com/fleet-hub/fleet/internal/cmd/cli/token"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// hubSide is the hub of --hub-context. A nil one does nothing.
type hubSide struct {
	cluster *access.Cluster
	made    token.Made
}

// errPreviewed ends a dry run: without a token, the other phases have nothing to check.
var errPreviewed = errors.New("the objects on the hub were printed")

// prepareHub creates the Cluster and the token, and returns the join text. A token of an earlier run is used again.
func (j *joiner) prepareHub(ctx context.Context) (jointext.Text, error) {
	order, fixes := j.order, []string{"fleet join --help"}
	if order.Cluster == "" {
		fixes = []string{"choose the name of the Cluster: --cluster NAME"}
	}
	if order.Cluster = cmp.Or(order.Cluster, j.flags.Context()); order.Cluster == "" {
		return jointext.Text{}, exit.Errorf(exit.Usage, "--hub-context needs --context or --cluster").With("fleet join --help")
	}
	order.Name, order.Workspace, order.Hub = order.Cluster, j.flags.Namespace(), j.hubTarget()
	if err := order.Check(fixes...); err != nil {
		return jointext.Text{}, err
	}
	cluster, err := j.flags.In(j.hubContext).Open()
	if err != nil {
		return jointext.Text{}, err
	}
	j.hubSide = &hubSide{cluster: cluster}
	own, err := j.cluster.UID(ctx)
	if err != nil {
		return jointext.Text{}, j.onCluster(err)
	}
	hub, err := cluster.UID(ctx)
	if err != nil {
		return jointext.Text{}, j.onHub(err)
	}
	if own == hub {
		return jointext.Text{}, exit.Errorf(exit.Refused, "--hub-context and --context point to the same cluster: a hub does not join itself").Because(conditions.ReasonTargetIsHub).
			With("select the cluster that joins with --context: kubectl config get-contexts")
	}
	if j.dryRun {
		if err := token.Preview(ctx, cluster, *order, j.streams.Out, j.format); err != nil {
			return jointext.Text{}, j.onHub(err)
		}
		return jointext.Text{}, errPreviewed
	}
	text, made, err := token.Ensure(ctx, cluster, *order)
	j.hubSide.made, j.changed = made, made != token.Made{}
	return text, j.onHub(err)
}

// hubTarget returns how the user reaches the hub, or an empty target without --hub-context.
func (j *joiner) hubTarget() remedy.Target {
	if j.hubContext == "" {
		return remedy.Target{}
	}
	return j.flags.In(j.hubContext).Target()
}

// onHub makes the commands that fix an error reach the hub.
func (j *joiner) onHub(err error) error { return exit.Reach(err, j.hubTarget()) }

// checkUnused refuses a cluster without an agent if the token is that of an agent which reports: the hub would replace
// that agent without a confirmation.
func (h *hubSide) checkUnused(ctx context.Context, workspace, name string) error {
	if h == nil || h.made.Token.Name != "" {
		return nil
	}
	cluster, err := access.Find(ctx, h.cluster.Clusters(workspace), "Cluster "+workspace+"/"+name, name)
	if err != nil || cluster == nil {
		return err
	}
	return unused(cluster)
}

// unused returns the error for a Cluster with an agent that reports, or nil.
func unused(cluster *fleet.Cluster) error {
	reporting := conditions.Get(cluster.Status.Conditions, conditions.AgentReporting)
	if cluster.Status.Agent.LastSeen.IsZero() || reporting == nil || reporting.Status != corev1.ConditionTrue {
		return nil
	}
	return exit.Errorf(exit.Refused, "Cluster %s/%s has an agent on another cluster, which reports; with its token, this cluster would replace it at once", cluster.Namespace, cluster.Name).
		With("select the cluster that joins with --context: kubectl config get-contexts",
			fmt.Sprintf("to replace that agent: fleet token revoke %s -n %s, and run the command again; it then names the request to confirm", cluster.Name, cluster.Namespace))
}

// await waits until the Cluster on the hub has a heartbeat.
func (h *hubSide) await(ctx context.Context, joined Joined, timeout time.Duration) error {
	return await.Poll(ctx, timeout, func(ctx context.Context) (bool, error) {
		cluster, err := h.cluster.Clusters(joined.Workspace).Get(ctx, joined.Cluster, metav1.GetOptions{})
		if err != nil {
			return false, access.Explain(fmt.Sprintf("reading Cluster %s/%s", joined.Workspace, joined.Cluster), err)
		}
		return !cluster.Status.Agent.LastSeen.IsZero(), nil
	})
}

// pending returns the latest registration of the client ID if the hub does not grant it, or nil.
func (h *hubSide) pending(ctx context.Context, text jointext.Text) *fleet.ClusterRegistration {
	if h == nil {
		return nil
	}
	var latest *fleet.ClusterRegistration
	_, err := access.Each(ctx, h.cluster.Registrations(text.Workspace), metav1.ListOptions{}, func(r *fleet.ClusterRegistration) error {
		if r.Spec.ClientID == text.ClientID && (latest == nil || latest.CreationTimestamp.Before(&r.CreationTimestamp)) {
			latest = r
		}
		return nil
	})
	if err != nil || latest == nil { // the diagnosis is then without it
		return nil
	}
	if granted := conditions.Get(latest.Status.Conditions, conditions.Granted); granted == nil || granted.Status != corev1.ConditionFalse {
		return nil
	}
	return latest
}

// confirmation returns the command that lets a registration replace the agent of its Cluster, or an empty text if that is
// not what it waits for.
func confirmation(r *fleet.ClusterRegistration) string {
	if r == nil || conditions.Get(r.Status.Conditions, conditions.Granted).Reason != conditions.ReasonTakeoverPending {
		return ""
	}
	return remedy.OfRegistration(r, conditions.ReasonTakeoverPending)
}

// refusal returns the error for a registration that the hub does not grant. kept means that its agent keeps running, so that
// the registration can still be granted.
func refusal(r *fleet.ClusterRegistration, kept bool) *exit.Error {
	granted := conditions.Get(r.Status.Conditions, conditions.Granted)
	failure := exit.Errorf(exit.Timeout, "ClusterRegistration %s/%s: %s", r.Namespace, r.Name, output.Line(granted.Message)).Because(granted.Reason)
	if confirmation(r) != "" && !kept {
		return failure.With("run the command again with --timeout 10m, and while it waits, run the command that it prints: fleet confirm-takeover …")
	}
	if command := remedy.OfRegistration(r, granted.Reason); command != "" {
		return failure.With(command)
	}
	return failure
}

// keep makes undo remove nothing: the cluster has joined.
func (h *hubSide) keep() {
	if h != nil {
		h.made = token.Made{}
	}
}

// undo removes what this run has created on the hub.
func (h *hubSide) undo(ctx context.Context) error {
	if h == nil {
		return nil
	}
	var problems []error
	if made := h.made.Token; made.Name != "" {
		problems = append(problems, access.Delete(ctx, h.cluster.Tokens(made.Namespace), "token "+made.String(), made.Name, h.made.TokenUID))
	}
	if made := h.made.Cluster; made.Name != "" {
		problems = append(problems, access.Delete(ctx, h.cluster.Clusters(made.Namespace), "Cluster "+made.String(), made.Name, h.made.ClusterUID))
	}
	return errors.Join(problems...)
}
