package clusterimport

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/fleet-hub/fleet/internal/agentchart"
	"github.com/fleet-hub/fleet/internal/cmd/controller/hub"
	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/remote"
	"github.com/fleet-hub/fleet/internal/metrics"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/reconcile"
	"github.com/fleet-hub/fleet/internal/rules/importing"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// jobTimeout limits one import over all its requests: about twenty, to a server that takes ten seconds for each.
const jobTimeout = 5 * time.Minute

// errOtherCluster means that the local Cluster's kubeconfig points to a cluster other than the hub's.
var errOtherCluster = errors.New("the kubeconfig of the local Cluster leads to another cluster")

// dispatch carries out the outcome in the background, unless the same is already running or failed a moment ago. If a
// token has to be created, it only probes the cluster.
func (h *handler) dispatch(in gathered, out importing.Outcome) {
	cluster, key := in.Cluster, keyOf(in.Cluster)
	begun, retry, wait := h.runs.begin(key.String(), h.attempt(cluster, out))
	if !begun {
		if wait > 0 {
			h.app.Clusters.EnqueueAfter(key.Namespace, key.Name, wait)
		}
		return
	}
	h.app.Remote.Submit(remote.Job{
		Kubeconfig: kubeconfigFor(in, out), Local: h.isLocal(key.String()), Retry: retry, ProbeOnly: out.CreateToken != nil,
		Do: func(ctx context.Context, kubeconfig []byte, err error) {
			// Changes during the job were not handled, and their events are past.
			defer reconcile.Nudge(h.app.Clusters)(key)
			written := cluster
			switch {
			case err != nil: // the cluster does not answer
			case kubeconfig == nil && out.Remove == nil:
				err = missingKubeconfig(cluster)
			case out.CreateToken == nil:
				written, err = h.run(ctx, cluster, out, kubeconfig)
			}
			switch {
			case ctx.Err() != nil: // the process is stopping, which means nothing for the Cluster
				h.runs.stopped(key.String())
			case err == nil && out.CreateToken != nil:
				h.runs.reached(key.String())
			default:
				if err == nil && out.Deploy != nil {
					h.runs.usedKubeconfig(key.String(), kubeconfig)
				}
				h.finish(written, out, in.Now, err)
			}
		},
	})
}

// finish reports and records the end of an attempt.
func (h *handler) finish(cluster *fleet.Cluster, out importing.Outcome, began time.Time, err error) {
	key := keyOf(cluster).String()
	h.measure(cluster, out, h.app.Clock().Sub(began), err)
	written, reportErr := h.reportRun(cluster, out, err)
	if err := errors.Join(err, reportErr); err != nil {
		h.app.Log.Warn("import failed", "cluster", key, "error", err)
		h.runs.failed(key, err)
		return
	}
	if out.Deploy != nil {
		h.runs.deployed(key, out.Deploy.NewRegistration, out.Deploy.Values.Bootstrap != nil)
	}
	h.runs.succeeded(key, written.ResourceVersion)
}

// attempt identifies an attempt: a failed attempt is retried after a pause, a different one starts at once.
func (h *handler) attempt(cluster *fleet.Cluster, out importing.Outcome) string {
	return fmt.Sprint(out.Stage, cluster.Generation, h.app.SecretVersion(importing.KubeconfigSecret(cluster)),
		out.Done.APIServerURL, out.Done.APIServerCAHash, out.Done.AgentTLSMode, out.Done.PullSecrets,
		out.Deploy != nil && out.Deploy.NewRegistration)
}

// reasonAgentDeployed is the reason of the Event for an agent whose deployment took a while.
const reasonAgentDeployed = "AgentDeployed"

// measure counts the result of a run, and records an Event if the deployment took a while. A failed run has its own
// Event.
func (h *handler) measure(cluster *fleet.Cluster, out importing.Outcome, took time.Duration, err error) {
	switch {
	case err != nil:
		h.app.Metrics.Import(metrics.OutcomeFailed, took)
	case out.Deploy != nil:
		h.app.Metrics.Import(metrics.OutcomeSucceeded, took)
		h.app.Took(cluster, reasonAgentDeployed, "agent deployed", took)
	}
}

// run does the work within a time limit. It returns the Cluster as it is afterwards.
func (h *handler) run(ctx context.Context, cluster *fleet.Cluster, out importing.Outcome, kubeconfig []byte) (*fleet.Cluster, error) {
	ctx, cancel := context.WithTimeout(ctx, jobTimeout)
	defer cancel()
	if out.Remove != nil {
		return cluster, h.remove(ctx, keyOf(cluster).String(), out.Remove, kubeconfig)
	}
	return h.deploy(ctx, cluster, out, kubeconfig)
}

// errSettings means that the chart refuses the agent's settings.
var errSettings = errors.New("the agent's settings cannot be used")

// deploy applies the agent downstream. It reinstalls an agent that has to register again, and upgrades any other.
func (h *handler) deploy(ctx context.Context, cluster *fleet.Cluster, out importing.Outcome, kubeconfig []byte) (*fleet.Cluster, error) {
	rendered, err := agentchart.Render(out.Deploy.Values)
	if err != nil {
		return cluster, fmt.Errorf("%w: %w", errSettings, err)
	}
	secrets, err := h.pullSecrets(ctx, out.Deploy)
	if err != nil {
		return cluster, err
	}
	hub, err := h.hub.get(ctx, h.app.Kube)
	if err != nil {
		return cluster, err
	}
	downstream, err := h.dial(ctx, keyOf(cluster).String(), kubeconfig, out.Deploy.TLSMode)
	if err != nil {
		return cluster, err
	}
	defer downstream.Close()
	if err := h.checkTarget(ctx, cluster, downstream, hub); err != nil {
		return cluster, err
	}
	if err := checkHub(ctx, downstream, out.Deploy.Values.Namespace, hub); err != nil {
		return cluster, err
	}
	d := &deployment{AgentDeployment: out.Deploy, downstream: downstream, rendered: withHub(rendered, hub), pullSecrets: secrets, trust: h.trust, hub: hub}
	switch {
	case out.Deploy.NewRegistration:
		cluster, err = h.reinstall(ctx, cluster, out.Done, d)
	case out.Deploy.Values.Bootstrap != nil:
		err = d.handOver(ctx)
	default:
		cluster, err = h.upgrade(ctx, cluster, d)
	}
	if err == nil && !out.Deploy.LookOnly {
		h.app.Log.Info("agent deployed", "cluster", keyOf(cluster).String(), "newRegistration", out.Deploy.NewRegistration)
	}
	return cluster, err
}

// reinstall deploys an agent that has to register. It removes the agent's identity before it delivers the bootstrap
// Secret for another one.
func (h *handler) reinstall(ctx context.Context, cluster *fleet.Cluster, done importing.Status, d *deployment) (*fleet.Cluster, error) {
	// Remove the old agent while the status still contains its namespace. A retry would not know it.
	if err := d.leave(ctx); err != nil {
		return cluster, err
	}
	unwatched, err := d.keptByAnother(ctx)
	if err != nil {
		return cluster, err
	}
	if cluster, err = h.resetAgent(cluster, done); err != nil {
		return cluster, err
	}
	// An apply keeps foreign fields in the bootstrap Secret, and with that the agent could not start.
	if err := d.downstream.Remove(ctx, secretsOf(d.Values.Namespace)...); err != nil {
		return cluster, err
	}
	if err := d.removeLeftovers(ctx); err != nil {
		return cluster, err
	}
	if err := d.apply(ctx); err != nil {
		return cluster, err
	}
	return cluster, d.restart(ctx, unwatched)
}

// upgrade changes an agent that keeps its identity. Without an identity of this Cluster, the agent belongs to
// another Cluster or has lost its identity, and the next run reinstalls it.
func (h *handler) upgrade(ctx context.Context, cluster *fleet.Cluster, d *deployment) (*fleet.Cluster, error) {
	found, err := d.findIdentity(ctx)
	switch {
	case err != nil:
		return cluster, err
	case !found.any():
		return cluster, errNoIdentity
	case d.LookOnly:
		return cluster, nil
	}
	unwatched, err := d.readdress(ctx, found)
	if err != nil {
		return cluster, err
	}
	if err := d.apply(ctx); err != nil {
		return cluster, err
	}
	return cluster, d.restart(ctx, unwatched)
}

func (h *handler) dial(ctx context.Context, key string, kubeconfig []byte, tlsMode string) (hub.Downstream, error) {
	downstream, err := h.app.Dial(ctx, kubeconfig, tlsMode, h.isLocal(key))
	if err != nil {
		return nil, err
	}
	if _, err := downstream.ServerVersion(ctx); err != nil {
		downstream.Close()
		return nil, err
	}
	return downstream, nil
}

// secretsOf returns the Secrets with the agent's identity and with its bootstrap token.
func secretsOf(namespace string) []runtime.Object {
	return []runtime.Object{
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: names.Agent}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: names.AgentBootstrap}},
	}
}

// resetAgent clears the agent's status before the agent is changed, so that a heartbeat of the old agent is not taken
// for one of the new agent. Without a generation, the Cluster needs a new registration until one is deployed, even if
// a step in between fails.
func (h *handler) resetAgent(cluster *fleet.Cluster, done importing.Status) (*fleet.Cluster, error) {
	agent := cluster.Status.Agent
	if !done.ResetAgent || agent.LastSeen.IsZero() && agent.Namespace == done.AgentNamespace {
		return cluster, nil
	}
	return hub.Report(h.app, h.app.Clusters, cluster, func(c *fleet.Cluster) {
		c.Status.Agent = fleet.AgentStatus{Namespace: done.AgentNamespace}
		c.Status.AgentDeployedGeneration = nil
	})
}

// remove removes the local agent if the kubeconfig points to the hub's own cluster. A setting of the hub must not
// remove anything elsewhere.
func (h *handler) remove(ctx context.Context, key string, removal *importing.AgentRemoval, kubeconfig []byte) error {
	if kubeconfig == nil {
		return nil // only the status is cleared
	}
	own, err := h.hub.get(ctx, h.app.Kube)
	if err != nil {
		return err
	}
	downstream, err := h.dial(ctx, key, kubeconfig, removal.TLSMode)
	if err != nil {
		return err
	}
	defer downstream.Close()
	uid, err := downstream.NamespaceUID(ctx, metav1.NamespaceSystem)
	switch {
	case err != nil:
		return err
	case uid == "" || uid != own:
		return errOtherCluster
	}
	return downstream.Remove(ctx, agentResources(removal.Namespace)...)
}
