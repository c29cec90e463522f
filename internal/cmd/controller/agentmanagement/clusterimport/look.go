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
	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/remote"
	"github.com/fleet-hub/fleet/internal/kube/foreign"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/reconcile"
	"github.com/fleet-hub/fleet/internal/rules/importing"
	supervisionrule "github.com/fleet-hub/fleet/internal/rules/supervision"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// byClient is the index of ClusterRegistrations by client: "<workspace>/<clientID>".
const byClient = "fleet.imported-requests-by-client"

// Rate limit of the checks downstream while most of the hub's agents are silent.
const (
	looksPerSecond = 1
	looksAtOnce    = 10
)

// lookTimeout limits one check over all its requests.
const lookTimeout = 2 * time.Minute

// messageLimit limits a message about an agent, in bytes. It may contain text from the downstream cluster, such as an
// image name.
const messageLimit = 1024

// reasonTokenRenewed is the reason of the Event for an agent that gets a fresh token.
const reasonTokenRenewed = "AgentTokenRenewed"

// gatherSupervised adds whether the agent counts as gone, and which repair the last check found necessary. It also
// notices that the token of an agent that has not registered was lost.
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

// isLost reports whether the hub looks for an agent that has reported before: the agent is late, or every account
// that it could use is gone.
func (h *handler) isLost(cluster *fleet.Cluster) (bool, error) {
	if h.app.Liveness.Late(keyOf(cluster)) {
		return true, nil
	}
	requests, err := h.registrations(cluster)
	return supervisionrule.AllReplaced(requests), err
}

// clusterOfReplaced returns the Cluster of a registration that has lost its account.
func clusterOfReplaced(r *fleet.ClusterRegistration) []types.NamespacedName {
	if r.Status.ClusterName == "" || !supervisionrule.AllReplaced([]*fleet.ClusterRegistration{r}) {
		return nil
	}
	return []types.NamespacedName{{Namespace: r.Namespace, Name: r.Status.ClusterName}}
}

// lookAfter checks a silent agent downstream when a check is due, in the background.
func (h *handler) lookAfter(cluster *fleet.Cluster) {
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
		return // the end of the job enqueues the Cluster
	}
	h.app.Remote.Submit(remote.Job{
		Kubeconfig: func(ctx context.Context) ([]byte, error) { return h.kubeconfigOf(ctx, cluster) },
		Local:      h.isLocal(key.String()), Retry: h.jobs.dead(key.String()), CanWait: true,
		Do: func(ctx context.Context, kubeconfig []byte, err error) {
			defer reconcile.Nudge(h.app.Clusters)(key)
			var out supervisionrule.Outcome
			if err == nil {
				out, err = h.look(ctx, cluster, kubeconfig)
			}
			if ctx.Err() != nil {
				h.jobs.ended(key.String(), "", nil)
				return // the process is stopping, which means nothing for the agent
			}
			h.supervision.looked(key.String(), !supervisionrule.NeverHeard(cluster), out)
			written, reportErr := h.reportLook(cluster, out, err)
			if failed := errors.Join(err, reportErr); failed != nil {
				h.app.Log.Warn("looking for an agent failed", "cluster", key.String(), "error", failed)
			}
			h.jobs.ended(key.String(), written.ResourceVersion, err)
		},
	})
}

// mayLook reports whether to check an agent now. While most agents are silent, the hub is a more likely cause than
// its clusters. It still checks each agent, so that a restored hub repairs them, but only a few at a time.
func (h *handler) mayLook(cluster *fleet.Cluster) bool {
	if supervisionrule.NeverHeard(cluster) || h.app.Liveness.Stale(keyOf(cluster)) {
		return true
	}
	return h.paced.TryAccept()
}

// lookOf identifies what a check depends on. If it has changed since the last check, for example because a user
// corrected a setting, the agent is checked at once.
func (h *handler) lookOf(cluster *fleet.Cluster) string {
	conf := h.app.Config.Get()
	return fmt.Sprint("look ", cluster.UID, cluster.Generation, h.app.SecretVersion(importing.KubeconfigSecret(cluster)),
		conf.AgentImage, conf.AgentImagePullPolicy, conf.SystemDefaultRegistry, conf.ImagePullSecrets)
}

// reportLook writes why an agent does not report, or that no reason was found. It writes nothing about an agent that
// has reported in the meantime.
func (h *handler) reportLook(cluster *fleet.Cluster, out supervisionrule.Outcome, err error) (*fleet.Cluster, error) {
	reason, message := out.Reason, foreign.Excerpt(out.Message, messageLimit)
	if err != nil {
		if reason, message = obstacle(err); reason == fleet.ReasonError {
			return cluster, nil // logged; it means nothing for the agent
		}
	}
	return hub.Report(h.app, h.app.Clusters, cluster, func(c *fleet.Cluster) {
		if lost, err := h.isLost(c); err == nil && supervisionrule.Supervised(c, lost) {
			h.setConditions(c, reason, message)
		}
	})
}

// look checks an agent downstream. It deletes the agent's import token if the agent needs another one.
func (h *handler) look(ctx context.Context, cluster *fleet.Cluster, kubeconfig []byte) (supervisionrule.Outcome, error) {
	key := keyOf(cluster)
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

// kubeconfigOf reads the kubeconfig with which to look for an agent.
func (h *handler) kubeconfigOf(ctx context.Context, cluster *fleet.Cluster) ([]byte, error) {
	name := importing.KubeconfigSecret(cluster)
	secret, err := reconcile.Optional(h.app.Kube.CoreV1().Secrets(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{}))
	if err != nil {
		return nil, err
	}
	if reason, message := importing.KubeconfigRefused(cluster, secret, h.app.Config.Get()); reason != "" {
		return nil, &blockedError{reason, message}
	}
	if secret == nil || len(secret.Data[protocol.KubeconfigValueKey]) == 0 {
		return nil, &blockedError{fleet.ReasonKubeconfigMissing, fmt.Sprintf("the agent does not report, and without Secret %s the cause cannot be found: create it, or correct spec.kubeConfigSecret", name)}
	}
	return secret.Data[protocol.KubeconfigValueKey], nil
}

// renewToken deletes the import token of an agent that has not registered. The deletion enqueues the Cluster, and the
// import creates another token and delivers it.
func (h *handler) renewToken(cluster *fleet.Cluster) error {
	err := h.app.ClusterRegistrationTokens.Delete(cluster.Namespace, names.ImportToken(cluster.Name), &metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("ending the import token of cluster %s: %w", keyOf(cluster), err)
	}
	h.app.Log.Info("an agent has asked for nothing and is given a fresh token", "cluster", keyOf(cluster).String())
	h.app.Recorder.Event(cluster, corev1.EventTypeNormal, reasonTokenRenewed, "the agent runs and has not asked this hub for anything: it is given a fresh token")
	return nil
}
