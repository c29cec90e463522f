package join

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/fleet-hub/fleet/internal/cmd/cli/access"
	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
	"github.com/fleet-hub/fleet/internal/cmd/cli/jointext"
	"github.com/fleet-hub/fleet/internal/cmd/cli/output"
	"github.com/fleet-hub/fleet/internal/cmd/cli/token"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
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
	order := j.order
	if order.Cluster == "" {
		order.Cluster = j.flags.Context()
	}
	if order.Cluster == "" {
		return jointext.Text{}, exit.Errorf(exit.Usage, "--hub-context needs --context or --cluster").With("fleet join --help")
	}
	order.Name, order.Workspace = order.Cluster, j.flags.Namespace()
	if err := order.Check(); err != nil {
		return jointext.Text{}, err
	}
	cluster, err := j.flags.In(j.hubContext).Open()
	if err != nil {
		return jointext.Text{}, err
	}
	j.hubSide = &hubSide{cluster: cluster}
	own, err := systemUID(ctx, j.cluster)
	if err != nil {
		return jointext.Text{}, err
	}
	hub, err := systemUID(ctx, cluster)
	if err != nil {
		return jointext.Text{}, err
	}
	if own == hub {
		return jointext.Text{}, exit.Errorf(exit.Refused, "--hub-context and --context lead to the same cluster: a hub does not join itself").Because(fleet.ReasonTargetIsHub).
			With("select the cluster that joins with --context: kubectl config get-contexts")
	}
	if j.dryRun {
		if err := token.Preview(ctx, cluster, *order, j.streams.Out); err != nil {
			return jointext.Text{}, err
		}
		return jointext.Text{}, errPreviewed
	}
	text, made, err := token.Ensure(ctx, cluster, *order)
	j.hubSide.made = made
	return text, err
}

// systemUID identifies a cluster: it is the UID of its namespace kube-system.
func systemUID(ctx context.Context, cluster *access.Cluster) (types.UID, error) {
	system, err := cluster.Core.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return "", access.Explain("reading namespace "+metav1.NamespaceSystem, err)
	}
	return system.UID, nil
}

// await waits until the Cluster on the hub has a heartbeat.
func (h *hubSide) await(ctx context.Context, joined Joined, timeout time.Duration) error {
	return wait.PollUntilContextTimeout(ctx, pollInterval, timeout, true, func(ctx context.Context) (bool, error) {
		cluster, err := h.cluster.Clusters(joined.Workspace).Get(ctx, joined.Cluster, metav1.GetOptions{})
		if err != nil {
			return false, access.Explain(fmt.Sprintf("reading Cluster %s/%s", joined.Workspace, joined.Cluster), err)
		}
		return !cluster.Status.Agent.LastSeen.IsZero(), nil
	})
}

// refusal returns why the hub does not grant the registration, or nil.
func (h *hubSide) refusal(ctx context.Context, text jointext.Text) error {
	if h == nil {
		return nil
	}
	var refused error
	_, err := access.Each(ctx, h.cluster.Registrations(text.Workspace), metav1.ListOptions{}, func(r *fleet.ClusterRegistration) error {
		granted := fleet.GetCondition(r.Status.Conditions, fleet.ConditionGranted)
		if r.Spec.ClientID != text.ClientID || granted == nil || granted.Status != corev1.ConditionFalse {
			return nil
		}
		failure := exit.Errorf(exit.Timeout, "ClusterRegistration %s/%s: %s", r.Namespace, r.Name, output.Line(granted.Message)).Because(granted.Reason)
		if granted.Reason == fleet.ReasonTakeoverPending {
			failure.Fixes = []string{fmt.Sprintf("fleet confirm-takeover %s %s -n %s", r.Status.ClusterName, r.Name, r.Namespace)}
		}
		refused = failure
		return nil
	})
	if err != nil {
		return nil //nolint:nilerr // the diagnosis is then without it
	}
	return refused
}

// undo removes what this run has created on the hub.
func (h *hubSide) undo(ctx context.Context) error {
	if h == nil {
		return nil
	}
	var problems []error
	if made := h.made.Token; made.Name != "" {
		if err := h.cluster.Tokens(made.Namespace).Delete(ctx, made.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			problems = append(problems, access.Explain("deleting token "+made.String(), err))
		}
	}
	if made := h.made.Cluster; made.Name != "" {
		if err := h.cluster.Clusters(made.Namespace).Delete(ctx, made.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			problems = append(problems, access.Explain("deleting Cluster "+made.String(), err))
		}
	}
	return errors.Join(problems...)
}
