package clusterimport

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/agentchart"
	"github.com/fleet-hub/fleet/internal/cmd/controller/agentmanagement/clusterimport/install"
	"github.com/fleet-hub/fleet/internal/cmd/controller/hub"
	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/remote"
	"github.com/fleet-hub/fleet/internal/metrics"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/reconcile"
	capirule "github.com/fleet-hub/fleet/internal/rules/capi"
	"github.com/fleet-hub/fleet/internal/rules/clusters"
	"github.com/fleet-hub/fleet/internal/rules/importing"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// jobTimeout limits one import over all its requests: about twenty, to a server that takes ten seconds for each.
const jobTimeout = 5 * time.Minute

// errPullSecretGone means that a pull secret was deleted after the decision to copy it.
var errPullSecretGone = errors.New("an image pull Secret does not exist")

// errClusterGone means that the Cluster of a job was deleted while the job waited for a worker, or since.
var errClusterGone = errors.New("the Cluster was deleted")

// checkGone returns errClusterGone if found, which was just read, is no longer the Cluster of a job. Its token is revoked then, and
// its cluster may have joined elsewhere.
func checkGone(cluster, found *fleet.Cluster, err error) error {
	if apierrors.IsNotFound(err) || err == nil && (found.UID != cluster.UID || found.DeletionTimestamp != nil) {
		return errClusterGone
	}
	return err
}

// checkGoneNow is checkGone for the stored Cluster. A job calls it when it begins.
func (h *handler) checkGoneNow(cluster *fleet.Cluster) error {
	found, err := h.app.Clusters.Get(cluster.Namespace, cluster.Name, metav1.GetOptions{})
	if err = checkGone(cluster, found, err); err != nil {
		return fmt.Errorf("reading Cluster %s before its job: %w", reconcile.KeyOf(cluster), err)
	}
	return nil
}

// submit does work on a cluster in the background. Without a kubeconfig, work gets nil. end records the result, except if the
// process is stopping, or if the Cluster was deleted, which the cache will know after a pause.
func (h *handler) submit(cluster *fleet.Cluster, job remote.Job, work func(ctx context.Context, kubeconfig []byte) error, end func(error)) {
	key := reconcile.KeyOf(cluster)
	job.Workspace, job.Local = key.Namespace, h.isLocal(key.String())
	job.Do = func(ctx context.Context, kubeconfig []byte, err error) {
		// Changes during the job were not handled, and their events are past.
		defer reconcile.Enqueue(h.app.Clusters)(key)
		if kubeconfig, err = h.kubeconfigNow(ctx, cluster, kubeconfig, err); err == nil {
			err = work(ctx, kubeconfig)
		}
		switch {
		case ctx.Err() != nil:
			h.records.stopped(key.String())
		case errors.Is(err, errClusterGone):
			h.records.failed(key.String(), err)
		default:
			end(err)
		}
	}
	h.app.Remote.Submit(job)
}

// dispatch carries out the outcome in the background, unless the same is already running or failed a moment ago. If a
// token has to be created, it only probes the cluster.
func (h *handler) dispatch(in gathered, out importing.Outcome) {
	cluster, key, probeOnly := in.Cluster, reconcile.KeyOf(in.Cluster), out.CreateToken != nil
	begun, retry, wait := h.records.begin(key.String(), h.attempt(cluster, out))
	if !begun {
		if wait > 0 {
			h.app.Clusters.EnqueueAfter(key.Namespace, key.Name, wait)
		}
		return
	}
	written := cluster
	h.submit(cluster, remote.Job{Kubeconfig: kubeconfigFor(in, out), Retry: retry, ProbeOnly: probeOnly}, func(ctx context.Context, kubeconfig []byte) (err error) {
		if kubeconfig == nil && out.Remove == nil {
			return missingKubeconfig(cluster)
		}
		if !probeOnly {
			written, err = h.run(ctx, cluster, out, kubeconfig)
		}
		return err
	}, func(err error) {
		if probeOnly && err == nil {
			h.records.reached(key.String())
			return
		}
		h.finish(written, out, in.Now, err)
	})
}

// finish reports and records the end of an attempt.
func (h *handler) finish(cluster *fleet.Cluster, out importing.Outcome, began time.Time, err error) {
	key := reconcile.KeyOf(cluster).String()
	h.measure(cluster, out, h.app.Clock().Sub(began), err)
	written, reportErr := h.reportRun(cluster, out, err)
	if err := errors.Join(err, reportErr); err != nil {
		h.app.Log.Warn("import failed", "cluster", key, "error", err)
		h.records.failed(key, err)
		return
	}
	if out.Deploy != nil {
		h.records.deployed(key, out.Deploy.NewRegistration, out.Deploy.Values.Bootstrap != nil)
	}
	h.records.succeeded(key, written.ResourceVersion)
}

// attempt identifies an attempt: a failed attempt is retried after a pause, a different one starts at once.
func (h *handler) attempt(cluster *fleet.Cluster, out importing.Outcome) string {
	return fmt.Sprint(out.Stage, cluster.Generation, h.app.SecretVersion(clusters.KubeconfigSecret(cluster)),
		out.Done.APIServerURL, out.Done.APIServerCAHash, out.Done.AgentTLSMode, out.Done.PullSecrets,
		out.Deploy != nil && out.Deploy.NewRegistration, h.settings())
}

// settings identifies the hub's settings that decide how a job ends, apart from those that a Cluster's status records.
func (h *handler) settings() string {
	conf := h.app.Config.Get()
	return fmt.Sprint(conf.AgentImage, conf.AgentImagePullPolicy, conf.SystemDefaultRegistry, conf.ImagePullSecrets,
		conf.AgentWorkers, conf.AgentCheckinInterval, conf.AllowLocalKubeconfigs, conf.RefusedKubeconfigCIDRs)
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
	if err := h.checkGoneNow(cluster); err != nil {
		return cluster, err
	}
	if out.Remove == nil {
		return h.deploy(ctx, cluster, out, kubeconfig)
	}
	if kubeconfig == nil {
		return cluster, nil // only the status is cleared
	}
	own, err := h.app.Identities.Own(ctx)
	if err != nil {
		return cluster, err
	}
	downstream, err := h.dial(ctx, reconcile.KeyOf(cluster).String(), kubeconfig, out.Remove.TLSMode)
	if err != nil {
		return cluster, err
	}
	defer downstream.Close()
	return cluster, install.Remove(ctx, downstream, out.Remove, own)
}

// deploy applies the agent downstream.
func (h *handler) deploy(ctx context.Context, cluster *fleet.Cluster, out importing.Outcome, kubeconfig []byte) (*fleet.Cluster, error) {
	rendered, err := agentchart.Render(out.Deploy.Values)
	if err != nil {
		return cluster, fmt.Errorf("%w: %w", install.ErrSettings, err)
	}
	secrets, err := h.pullSecrets(ctx, out.Deploy)
	if err != nil {
		return cluster, err
	}
	own, err := h.app.Identities.Own(ctx)
	if err != nil {
		return cluster, err
	}
	downstream, err := h.dial(ctx, reconcile.KeyOf(cluster).String(), kubeconfig, out.Deploy.TLSMode)
	if err != nil {
		return cluster, err
	}
	defer downstream.Close()
	if err := h.recognize(ctx, cluster, downstream); err != nil {
		return cluster, err
	}
	agent := &install.Agent{
		AgentDeployment: out.Deploy, Downstream: downstream, Rendered: install.WithHub(rendered, own), Sources: secrets, Trust: h.trust(cluster), Hub: own,
		CheckOwner: h.checkOwner(cluster), GivesWay: capirule.IsMarked(cluster),
		Reset: func() (err error) {
			cluster, err = h.resetAgent(cluster, out.Done)
			return err
		},
	}
	if err = agent.Install(ctx); err != nil {
		return cluster, err
	}
	h.records.usedKubeconfig(reconcile.KeyOf(cluster).String(), kubeconfig)
	if !out.Deploy.InspectOnly {
		h.app.Log.Info("agent deployed", "cluster", reconcile.KeyOf(cluster).String(), "newRegistration", out.Deploy.NewRegistration)
	}
	return cluster, nil
}

// trust returns the function that finds the CA for the hub's address, under the rules for the Cluster's kubeconfig.
func (h *handler) trust(cluster *fleet.Cluster) install.TrustFunc {
	local := h.isLocal(reconcile.KeyOf(cluster).String())
	return install.Trust(remote.ForeignOptions(h.app.Env, h.app.Config.Get(), local, h.app.Clock()))
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

// resetAgent clears the agent's status before the agent is changed, so that a heartbeat of the old agent is not taken
// for one of the new agent. Without a generation, the Cluster needs a new registration until one is deployed, even if
// a step in between fails. It returns errClusterGone if the agent must not be changed, because its Cluster was deleted meanwhile.
func (h *handler) resetAgent(cluster *fleet.Cluster, done importing.Status) (*fleet.Cluster, error) {
	found, err := h.app.Clusters.Cache().Get(cluster.Namespace, cluster.Name)
	if err = checkGone(cluster, found, err); err != nil {
		return cluster, err
	}
	agent := cluster.Status.Agent
	if !done.ResetAgent || agent.LastSeen.IsZero() && agent.Namespace == done.AgentNamespace {
		return cluster, nil
	}
	return hub.Report(h.app, h.app.Clusters, cluster, func(c *fleet.Cluster) {
		c.Status.Agent = fleet.AgentStatus{Namespace: done.AgentNamespace}
		c.Status.AgentDeployedGeneration = nil
	})
}

// pullSecrets reads the Secrets to copy to the agent.
func (h *handler) pullSecrets(ctx context.Context, deploy *importing.AgentDeployment) ([]*corev1.Secret, error) {
	var secrets []*corev1.Secret
	if deploy.InspectOnly {
		return nil, nil
	}
	for _, name := range deploy.PullSecrets {
		secret, err := h.app.Kube.CoreV1().Secrets(h.app.Namespaces.System).Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return nil, errPullSecretGone
		case err != nil:
			return nil, fmt.Errorf("reading pull secret %s: %w", name, err)
		}
		secrets = append(secrets, secret)
	}
	return secrets, nil
}

// isLocal reports whether key names the hub's own Cluster, whose kubeconfig the hub creates.
func (h *handler) isLocal(key string) bool {
	bootstrap := h.app.Config.Get().Bootstrap
	return bootstrap.Enabled() && key == bootstrap.Namespace+"/"+names.LocalCluster
}
