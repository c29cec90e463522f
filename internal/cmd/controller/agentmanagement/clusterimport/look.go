package clusterimport

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub"
	"github.com/fleet-hub/fleet/internal/kube/foreign"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/reconcile"
	"github.com/fleet-hub/fleet/internal/rules/importing"
	supervisionrule "github.com/fleet-hub/fleet/internal/rules/supervision"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// byClient finds the ClusterRegistrations of one client: "<workspace>/<clientID>".
const byClient = "fleet.imported-requests-by-client"

// The looks at agents while most of the hub's agents are silent.
const (
	looksPerSecond = 1
	looksAtOnce    = 10
)

// lookTimeout bounds one look, over all its requests.
const lookTimeout = 2 * time.Minute

// messageLimit bounds what is said of an agent, in bytes: it may name what the cluster downstream names, such as an image.
const messageLimit = 1024

// reasonTokenRenewed is the reason of the Event that tells of an agent's fresh token.
const reasonTokenRenewed = "AgentTokenRenewed"

// gatherSupervised says whether an agent counts as gone, and what the last look has found to be missing downstream, or
// that the token of one that is awaited has been lost.
func (h *handler) gatherSupervised(in *importing.Input) error {
	key := keyOf(in.Cluster)
	var err error
	if in.Stale, err = h.isLost(in.Cluster); err != nil {
		return err
	}
	if in.Inherited || !supervisionrule.Supervised(in.Cluster, in.Stale) {
		return nil
	}
	if importing.TokenLost(*in) {
		h.supervision.want(key.String(), supervisionrule.RepairIdentity)
	}
	in.Repair = h.supervision.wanted(key.String())
	in.Accounts, err = h.liveAccounts(in.Cluster)
	return err
}

// isLost reports whether the hub looks for an agent that it has heard of: the agent is late, or every account that it
// could be using is gone.
func (h *handler) isLost(cluster *fleet.Cluster) (bool, error) {
	if h.app.Liveness.Late(keyOf(cluster)) {
		return true, nil
	}
	requests, err := h.registrations(cluster)
	return supervisionrule.AllReplaced(requests), err
}

// clusterOfReplaced is the Cluster of a registration that has lost its account.
func clusterOfReplaced(r *fleet.ClusterRegistration) []types.NamespacedName {
	if r.Status.ClusterName == "" || !supervisionrule.AllReplaced([]*fleet.ClusterRegistration{r}) {
		return nil
	}
	return []types.NamespacedName{{Namespace: r.Namespace, Name: r.Status.ClusterName}}
}

// lookAfter looks downstream, beside the queue, for an agent that is not heard of, when it is time to.
func (h *handler) lookAfter(ctx context.Context, cluster *fleet.Cluster) {
	key := keyOf(cluster)
	of := h.lookOf(cluster)
	if wait := h.supervision.due(key.String(), of); wait > 0 {
		h.app.Clusters.EnqueueAfter(key.Namespace, key.Name, wait)
		return
	}
	if !h.mayLook(cluster) {
		h.app.Clusters.EnqueueAfter(key.Namespace, key.Name, supervisionrule.FirstLook+spread(supervisionrule.FirstLookStale))
		return
	}
	if begun, _ := h.jobs.begin(key.String(), of); !begun {
		return // the job's end wakes the Cluster
	}
	go func() {
		defer reconcile.Nudge(h.app.Clusters)(key)
		out, err := h.look(ctx, cluster)
		if ctx.Err() != nil {
			h.jobs.ended(key.String(), "", nil)
			return // the process ends, which says nothing about the agent
		}
		h.supervision.looked(key.String(), !supervisionrule.NeverHeard(cluster), out)
		written, reportErr := h.reportLook(cluster, out, err)
		if failed := errors.Join(err, reportErr); failed != nil {
			h.app.Log.Warn("looking for an agent failed", "cluster", key.String(), "error", failed)
		}
		h.jobs.ended(key.String(), written.ResourceVersion, err)
	}()
}

// mayLook reports whether an agent may be looked for now. While most agents are silent the cause is more likely the hub
// than its clusters: it still looks for each, so that a restored hub repairs them, but a few at a time.
func (h *handler) mayLook(cluster *fleet.Cluster) bool {
	if supervisionrule.NeverHeard(cluster) || h.app.Liveness.Stale(keyOf(cluster)) {
		return true
	}
	return h.paced.TryAccept()
}

// lookOf tells what a look is at from what the one before was at: what somebody has corrected is looked at at once.
func (h *handler) lookOf(cluster *fleet.Cluster) string {
	conf := h.app.Config.Get()
	return fmt.Sprint("look ", cluster.UID, cluster.Generation, h.app.SecretVersion(importing.KubeconfigSecret(cluster)),
		conf.AgentImage, conf.AgentImagePullPolicy, conf.SystemDefaultRegistry, conf.ImagePullSecrets)
}

// reportLook writes what keeps an agent from coming, or that nothing does. An agent that was heard of meanwhile needs
// no word.
func (h *handler) reportLook(cluster *fleet.Cluster, out supervisionrule.Outcome, err error) (*fleet.Cluster, error) {
	reason, message := out.Reason, foreign.Excerpt(out.Message, messageLimit)
	if err != nil {
		if reason, message = obstacle(err); reason == fleet.ReasonError {
			return cluster, nil // logged, and it says nothing about the agent
		}
	}
	return hub.Report(h.app, h.app.Clusters, cluster, func(c *fleet.Cluster) {
		if lost, err := h.isLost(c); err == nil && supervisionrule.Supervised(c, lost) {
			h.setConditions(c, reason, message)
		}
	})
}

// look looks for an agent downstream, and ends its import token if it is to get another.
func (h *handler) look(ctx context.Context, cluster *fleet.Cluster) (supervisionrule.Outcome, error) {
	key := keyOf(cluster)
	secret, err := h.kubeconfigOf(ctx, cluster)
	if err != nil {
		return supervisionrule.Outcome{}, err
	}
	reason, message := importing.KubeconfigRefused(cluster, secret, h.app.Config.Get())
	switch {
	case reason != "":
		return supervisionrule.Outcome{Stage: supervisionrule.Troubled, Reason: reason, Message: message}, nil
	case secret == nil:
		return supervisionrule.Outcome{
			Stage: supervisionrule.Troubled, Reason: fleet.ReasonKubeconfigMissing,
			Message: fmt.Sprintf("the agent is not heard of, and without Secret %s nobody can see why: create it, or correct spec.kubeConfigSecret", importing.KubeconfigSecret(cluster)),
		}, nil
	}
	kubeconfig := secret.Data[protocol.KubeconfigValueKey]
	leave, err := h.approach(ctx, key.String(), kubeconfig, true)
	if err != nil {
		return supervisionrule.Outcome{}, err
	}
	defer leave()
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	downstream, err := h.dial(ctx, key.String(), kubeconfig, h.app.Config.Get().AgentTLSMode)
	if err != nil {
		return supervisionrule.Outcome{}, err
	}
	defer downstream.Close()
	in, err := h.observe(ctx, cluster, downstream)
	if err != nil {
		return supervisionrule.Outcome{}, err
	}
	out := supervisionrule.Decide(in)
	h.app.Log.Debug("looked for an agent", "cluster", key.String(), "stage", out.Stage, "reason", out.Reason)
	if !out.FreshToken {
		return out, nil
	}
	return out, h.renewToken(cluster)
}

func (h *handler) kubeconfigOf(ctx context.Context, cluster *fleet.Cluster) (*corev1.Secret, error) {
	name := importing.KubeconfigSecret(cluster)
	return reconcile.Optional(h.app.Kube.CoreV1().Secrets(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{}))
}

// renewToken ends the import token of an agent that has been waited for in vain. That wakes the Cluster, and the
// import makes another one and hands it over.
func (h *handler) renewToken(cluster *fleet.Cluster) error {
	err := h.app.ClusterRegistrationTokens.Delete(cluster.Namespace, names.ImportToken(cluster.Name), &metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("ending the import token of cluster %s: %w", keyOf(cluster), err)
	}
	h.app.Log.Info("an agent has asked for nothing and is given a fresh token", "cluster", keyOf(cluster).String())
	h.app.Recorder.Event(cluster, corev1.EventTypeNormal, reasonTokenRenewed, "the agent runs and has not asked this hub for anything: it is given a fresh token")
	return nil
}
