package clusterimport

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/fleet-hub/fleet/internal/agentchart"
	"github.com/fleet-hub/fleet/internal/cmd/controller/agentmanagement/clusterimport/install"
	"github.com/fleet-hub/fleet/internal/cmd/controller/hub"
	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/remote"
	"github.com/fleet-hub/fleet/internal/kube/accounts"
	"github.com/fleet-hub/fleet/internal/kube/foreign"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/reconcile"
	"github.com/fleet-hub/fleet/internal/rules/clusters"
	"github.com/fleet-hub/fleet/internal/rules/importing"
	supervisionrule "github.com/fleet-hub/fleet/internal/rules/supervision"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// Rate limit of the inspections while most of the hub's agents are silent.
const (
	inspectionsPerSecond = 1
	inspectionsAtOnce    = 10
)

// Rate limit of the reviews of stored tokens, and the maximum size of such a token in bytes.
const (
	reviewsPerSecond = 1
	reviewsAtOnce    = 20
	maxStoredToken   = 8 << 10
)

// inspectionTimeout limits one inspection over all its requests.
const inspectionTimeout = 2 * time.Minute

// messageLimit limits a message about an agent, in bytes. It may contain text from the downstream cluster, such as an
// image name.
const messageLimit = 1024

// reasonTokenRenewed is the reason of the Event for an agent that gets a fresh token.
const reasonTokenRenewed = "AgentTokenRenewed"

// supervise inspects a silent agent in the background when an inspection is due.
func (h *handler) supervise(in gathered) {
	cluster, key := in.Cluster, reconcile.KeyOf(in.Cluster)
	state := h.stateOf(cluster)
	if wait := h.records.dueIn(key.String(), state); wait > 0 {
		h.app.Clusters.EnqueueAfter(key.Namespace, key.Name, wait)
		return
	}
	if !h.mayInspect(cluster) {
		h.app.Clusters.EnqueueAfter(key.Namespace, key.Name, supervisionrule.FirstInspection+spread(supervisionrule.FirstInspectionStale))
		return
	}
	begun, retry, _ := h.records.begin(key.String(), state)
	if !begun {
		return // the end of the job enqueues the Cluster
	}
	var out supervisionrule.Outcome
	h.submit(cluster, remote.Job{Kubeconfig: in.kubeconfig, Retry: retry, CanWait: true}, func(ctx context.Context, kubeconfig []byte) (err error) {
		out, err = h.inspect(ctx, cluster, kubeconfig)
		return err
	}, func(err error) {
		written, reportErr := h.reportInspection(cluster, out, err)
		if failed := errors.Join(err, reportErr); failed != nil {
			h.app.Log.Warn("inspecting the agent failed", "cluster", key.String(), "error", failed)
		}
		h.records.inspected(key.String(), written.ResourceVersion, !supervisionrule.NeverReported(cluster), out, err)
	})
}

// mayInspect reports whether to inspect an agent now. While most agents are silent, the hub is a more likely cause than
// its clusters. It still inspects each agent, so that a restored hub repairs them, but only a few at a time.
func (h *handler) mayInspect(cluster *fleet.Cluster) bool {
	if supervisionrule.NeverReported(cluster) || h.app.Liveness.Stale(reconcile.KeyOf(cluster)) {
		return true
	}
	return h.pace.TryAccept()
}

// stateOf identifies what an inspection depends on. If it has changed since the last one, for example because a user
// corrected a setting, the agent is inspected at once.
func (h *handler) stateOf(cluster *fleet.Cluster) string {
	return fmt.Sprint("look ", cluster.UID, cluster.Generation, h.app.SecretVersion(clusters.KubeconfigSecret(cluster)), h.settings())
}

// reportInspection writes why an agent does not report, or that no reason was found. It writes nothing about an agent that
// has reported in the meantime.
func (h *handler) reportInspection(cluster *fleet.Cluster, out supervisionrule.Outcome, err error) (*fleet.Cluster, error) {
	reason, message := out.Reason, foreign.Excerpt(out.Message, messageLimit)
	if err != nil {
		if reason, message = obstacle(err, h.app.Namespaces.System, importing.AgentNamespace(cluster, h.app.Namespaces)); reason == conditions.ReasonError {
			return cluster, nil // logged; it means nothing for the agent
		}
	}
	return hub.Report(h.app, h.app.Clusters, cluster, func(c *fleet.Cluster) {
		if lost, err := h.isLost(c); err == nil && supervisionrule.Supervised(c, lost) {
			h.setConditions(c, reason, message)
		}
	})
}

// inspect inspects an agent downstream. It deletes the agent's import token if the agent needs another one.
func (h *handler) inspect(ctx context.Context, cluster *fleet.Cluster, kubeconfig []byte) (supervisionrule.Outcome, error) {
	if kubeconfig == nil {
		return supervisionrule.Outcome{}, missingKubeconfig(cluster)
	}
	key := reconcile.KeyOf(cluster)
	ctx, cancel := context.WithTimeout(ctx, inspectionTimeout)
	defer cancel()
	if err := h.checkGoneNow(cluster); err != nil {
		return supervisionrule.Outcome{}, err
	}
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
	h.app.Log.Debug("inspected an agent", "cluster", key.String(), "stage", out.Stage, "reason", out.Reason)
	if !out.FreshToken {
		return out, nil
	}
	return out, h.renewToken(cluster)
}

// renewToken deletes the import token of an agent that has not registered. The deletion enqueues the Cluster, and the
// import creates another token and delivers it.
func (h *handler) renewToken(cluster *fleet.Cluster) error {
	token, err := reconcile.Optional(h.app.ClusterRegistrationTokens.Cache().Get(cluster.Namespace, names.ImportToken(cluster.Name)))
	if err == nil && token != nil && !clusters.IsAnother(cluster, token.OwnerReferences) {
		err = reconcile.Delete(h.app.ClusterRegistrationTokens, token)
	}
	if err != nil {
		return fmt.Errorf("ending the import token of cluster %s: %w", reconcile.KeyOf(cluster), err)
	}
	h.app.Log.Info("import token replaced, because the running agent has not registered", "cluster", reconcile.KeyOf(cluster).String())
	h.app.Recorder.Event(cluster, corev1.EventTypeNormal, reasonTokenRenewed, "the agent runs but has created no ClusterRegistration, so the hub replaces its import token")
	return nil
}

// clockTolerance is the largest accepted difference between the clocks of this process and of the hub's API server.
const clockTolerance = time.Minute

// observe reads the state of an agent, on the hub and downstream.
func (h *handler) observe(ctx context.Context, cluster *fleet.Cluster, downstream hub.Downstream) (supervisionrule.Input, error) {
	key := reconcile.KeyOf(cluster).String()
	known, now := h.records.silence(key), h.app.OwnClock()
	in := supervisionrule.Input{
		Awaited: now.Sub(known.since), Quiet: now.Sub(known.quiet), FreshTokens: known.tokens,
		Heard: !supervisionrule.NeverReported(cluster), Namespace: importing.AgentNamespace(cluster, h.app.Namespaces),
	}
	if err := h.observeHub(cluster, known, &in); err != nil {
		return in, err
	}
	uid, err := h.app.Identities.Own(ctx)
	if err != nil {
		return in, err
	}
	if err := install.CheckHub(ctx, downstream, in.Namespace, uid); err != nil {
		return in, err
	}
	in.Wanted = h.wanted(cluster)
	live, err := h.liveAccounts(cluster)
	if err != nil {
		return in, err
	}
	if err := install.Observe(ctx, downstream, live, h.checkOwner(cluster), &in); err != nil {
		return in, err
	}
	in.Rejected = h.isRejected(ctx, key, in)
	return in, nil
}

// isRejected reports whether the hub's API server rejects the stored token of an agent that has an account. Without an
// answer the token counts as accepted. The token comes from another cluster: only one that names an account of this
// Cluster is sent to the API server, and only some at a time.
func (h *handler) isRejected(ctx context.Context, cluster string, in supervisionrule.Input) bool {
	if !in.Identity || !in.Known || len(in.Stored) > maxStoredToken || !h.reviews.TryAccept() {
		return false
	}
	accepted, err := accounts.Review(ctx, h.app.Kube, in.Stored)
	if err != nil {
		h.app.Log.Debug("a token could not be tried", "cluster", cluster, "error", err)
		return false
	}
	return !accepted
}

// wanted returns the agent's Deployment for the current settings. It returns nil if the chart refuses them, which the
// import reports.
func (h *handler) wanted(cluster *fleet.Cluster) *appsv1.Deployment {
	rendered, err := agentchart.Render(importing.AgentSettings(cluster, h.app.Config.Get(), h.app.AgentDefaults(), h.app.Namespaces))
	if err != nil {
		return nil
	}
	return install.Find[*appsv1.Deployment](rendered)
}

// observeHub reads what the hub knows: the token, and whether the agent has created requests.
func (h *handler) observeHub(cluster *fleet.Cluster, known silenceRecord, in *supervisionrule.Input) error {
	var err error
	if in.Token, err = h.importBearer(cluster); err != nil {
		return err
	}
	requests, err := h.requests(cluster)
	for _, request := range requests {
		if !known.deployed || request.CreationTimestamp.After(known.since.Add(-clockTolerance)) {
			in.Requested = true
		}
	}
	return err
}
