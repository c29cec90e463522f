package clusterimport

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/fleet-hub/fleet/internal/agentchart"
	"github.com/fleet-hub/fleet/internal/cmd/controller/agentmanagement/app"
	"github.com/fleet-hub/fleet/internal/handshake"
	"github.com/fleet-hub/fleet/internal/kube"
	"github.com/fleet-hub/fleet/internal/metrics"
	"github.com/fleet-hub/fleet/internal/names"
	"github.com/fleet-hub/fleet/internal/reconcile"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// errOtherCluster means that the local Cluster's kubeconfig leads to another cluster than the hub's.
var errOtherCluster = errors.New("the kubeconfig of the local Cluster leads to another cluster")

// dispatch carries the outcome out beside the queue, unless it is being carried out, or was tried in
// vain a moment ago.
func (h *handler) dispatch(ctx context.Context, cluster *fleet.Cluster, out handshake.ImportOutcome) {
	key := keyOf(cluster)
	of := fmt.Sprint(out.Stage, cluster.Generation, h.app.SecretVersion(handshake.KubeconfigSecret(cluster)),
		out.Done.APIServerURL, out.Done.APIServerCAHash, out.Done.AgentTLSMode)
	begun, wait := h.jobs.begin(key.String(), of)
	if !begun {
		if wait > 0 {
			h.app.Clusters.EnqueueAfter(key.Namespace, key.Name, wait)
		}
		return
	}
	go func() {
		// Whatever the end, look again: what happened meanwhile was left alone, and its event is past.
		defer reconcile.Nudge(h.app.Clusters)(key)
		begun := h.app.Clock()
		written, err := h.run(ctx, cluster, out)
		if ctx.Err() != nil {
			h.jobs.failed(key.String())
			return // the process ends, which says nothing about the Cluster
		}
		h.measure(cluster, out, h.app.Clock().Sub(begun), err)
		written, reportErr := h.reportRun(written, out, err)
		if err := errors.Join(err, reportErr); err != nil {
			h.app.Log.Warn("import failed", "cluster", key.String(), "error", err)
			h.jobs.failed(key.String())
			return
		}
		h.jobs.succeeded(key.String(), written.ResourceVersion)
	}()
}

// reasonAgentDeployed is the reason of the Event that tells of an agent whose deployment took a while.
const reasonAgentDeployed = "AgentDeployed"

// measure counts what came of a run, and tells of an agent that took a while. A run that failed has its own Event.
func (h *handler) measure(cluster *fleet.Cluster, out handshake.ImportOutcome, took time.Duration, err error) {
	switch {
	case err != nil:
		h.app.Metrics.Import(metrics.OutcomeFailed, took)
	case out.Deploy != nil:
		h.app.Metrics.Import(metrics.OutcomeSucceeded, took)
		h.app.Took(cluster, reasonAgentDeployed, "agent deployed", took)
	}
}

// run waits for its turn, and then does the work under a time limit. It returns the Cluster as it is then.
func (h *handler) run(ctx context.Context, cluster *fleet.Cluster, out handshake.ImportOutcome) (*fleet.Cluster, error) {
	select {
	case h.jobs.slots <- struct{}{}:
		defer func() { <-h.jobs.slots }()
	case <-ctx.Done():
		return cluster, ctx.Err()
	}
	ctx, cancel := context.WithTimeout(ctx, jobTimeout)
	defer cancel()
	if out.Remove != nil {
		return cluster, h.remove(ctx, out.Remove)
	}
	return h.deploy(ctx, cluster, out)
}

// deploy applies the agent downstream. An agent that has to register anew loses its identity before
// it is given the means to get another.
func (h *handler) deploy(ctx context.Context, cluster *fleet.Cluster, out handshake.ImportOutcome) (*fleet.Cluster, error) {
	rendered, err := agentchart.Render(out.Deploy.Values)
	if err != nil {
		return cluster, fmt.Errorf("rendering the agent: %w", err)
	}
	downstream, err := h.dial(ctx, out.Deploy.Kubeconfig, out.Deploy.TLSMode)
	if err != nil {
		return cluster, err
	}
	defer downstream.Close()
	if leaving := out.Deploy.LeaveNamespace; leaving != "" {
		// While the status still says where the agent was: a later try would not know.
		if err := downstream.Remove(ctx, agentResources(leaving)...); err != nil {
			return cluster, err
		}
	}
	if out.Deploy.NewRegistration {
		if cluster, err = h.resetAgent(cluster, out.Done); err != nil {
			return cluster, err
		}
		// With what others have written into the bootstrap Secret, which an apply leaves there, the agent could not begin.
		if err := downstream.Remove(ctx, secretsOf(out.Deploy.Values.Namespace)...); err != nil {
			return cluster, err
		}
	}
	if err := downstream.Apply(ctx, desired(out.Deploy, rendered)...); err != nil {
		return cluster, err
	}
	h.app.Log.Info("agent deployed", "cluster", keyOf(cluster).String(), "newRegistration", out.Deploy.NewRegistration)
	return cluster, nil
}

// secretsOf are the agent's identity and the means to get one.
func secretsOf(namespace string) []runtime.Object {
	return []runtime.Object{
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: names.Agent}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: names.AgentBootstrap}},
	}
}

func (h *handler) dial(ctx context.Context, kubeconfig []byte, tlsMode string) (app.Downstream, error) {
	downstream, err := h.app.Dial(ctx, kubeconfig, tlsMode)
	if err != nil {
		return nil, err
	}
	if _, err := downstream.ServerVersion(ctx); err != nil {
		downstream.Close()
		return nil, err
	}
	return downstream, nil
}

// resetAgent forgets the agent before it is touched: its first heartbeat must not be taken for one of the old
// agent's. Without a generation, the Cluster needs a new registration until one is deployed, whatever fails
// in between.
func (h *handler) resetAgent(cluster *fleet.Cluster, done handshake.ImportStatus) (*fleet.Cluster, error) {
	agent := cluster.Status.Agent
	if !done.ResetAgent || agent.LastSeen.IsZero() && agent.Namespace == done.AgentNamespace {
		return cluster, nil
	}
	return reconcile.PatchStatus(h.app.Clusters, cluster, func(c *fleet.Cluster) {
		c.Status.Agent = fleet.AgentStatus{Namespace: done.AgentNamespace}
		c.Status.AgentDeployedGeneration = nil
	})
}

// remove takes the local agent away, if the kubeconfig does lead to the hub's own cluster: only there
// may a switch in the hub's configuration remove anything.
func (h *handler) remove(ctx context.Context, removal *handshake.AgentRemoval) error {
	if removal.Kubeconfig == nil {
		return nil // nothing to reach it with: the status is all there is to clear
	}
	own, err := h.app.Kube.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading the hub's own identity: %w", err)
	}
	downstream, err := h.dial(ctx, removal.Kubeconfig, removal.TLSMode)
	if err != nil {
		return err
	}
	defer downstream.Close()
	uid, err := downstream.NamespaceUID(ctx, metav1.NamespaceSystem)
	switch {
	case err != nil:
		return err
	case uid == "" || uid != own.UID:
		return errOtherCluster
	}
	return downstream.Remove(ctx, agentResources(removal.Namespace)...)
}

// obstacle is the error of a run as conditions. Messages are constant: what a server said is in the log.
func obstacle(err error) (reason, message string) {
	kubeconfig := func(err error) string {
		return "the kubeconfig Secret cannot be used: " + err.Error()
	}
	for _, known := range []struct {
		is              error
		reason, message string
	}{
		{kube.ErrKubeconfigExec, fleet.ReasonKubeconfigRefused, kubeconfig(kube.ErrKubeconfigExec)},
		{kube.ErrKubeconfigAuthProvider, fleet.ReasonKubeconfigRefused, kubeconfig(kube.ErrKubeconfigAuthProvider)},
		{kube.ErrKubeconfigFile, fleet.ReasonKubeconfigRefused, kubeconfig(kube.ErrKubeconfigFile)},
		{kube.ErrKubeconfigInsecure, fleet.ReasonKubeconfigRefused, kubeconfig(kube.ErrKubeconfigInsecure)},
		{kube.ErrKubeconfigContext, fleet.ReasonKubeconfigInvalid, kubeconfig(kube.ErrKubeconfigContext)},
		{kube.ErrKubeconfigMalformed, fleet.ReasonKubeconfigInvalid, kubeconfig(kube.ErrKubeconfigMalformed)},
		{kube.ErrUntrusted, fleet.ReasonTLSUntrusted, "the certificate of the API server in the kubeconfig is not signed by a CA that is trusted: put the right certificate-authority-data into the kubeconfig"},
		{kube.ErrNoCA, fleet.ReasonTLSUntrusted, "agentTLSMode is strict and the kubeconfig has no certificate-authority-data: add it, or set agentTLSMode to system-store"},
		{kube.ErrUnreachable, fleet.ReasonDownstreamUnreachable, "the API server in the kubeconfig does not answer: check that its address is right and reachable from this hub"},
		{errOtherCluster, fleet.ReasonLocalClusterMismatch, "the agent is not removed, for the kubeconfig of the local Cluster leads to another cluster: put one of this hub's own cluster into its Secret"},
	} {
		if errors.Is(err, known.is) {
			return known.reason, known.message
		}
	}
	switch {
	case apierrors.IsUnauthorized(err):
		return fleet.ReasonDownstreamUnauthorized, "the API server in the kubeconfig rejects its credential: put a valid token or client certificate into the kubeconfig Secret"
	case apierrors.IsForbidden(err):
		return fleet.ReasonDownstreamForbidden, "the kubeconfig's user may not install the agent: it needs the rights of cluster-admin"
	}
	return fleet.ReasonError, "the agent could not be installed; it is tried again, and the controller's log says why"
}
