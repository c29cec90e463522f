package clusterimport

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/reconcile"
	"github.com/fleet-hub/fleet/internal/rules/clusters"
	"github.com/fleet-hub/fleet/internal/rules/grant"
	"github.com/fleet-hub/fleet/internal/rules/importing"
	supervisionrule "github.com/fleet-hub/fleet/internal/rules/supervision"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// gathered is what the rule decides from.
type gathered struct {
	importing.Input

	// kubeconfig returns the kubeconfig for a job, or nil if there is none.
	kubeconfig func(context.Context) ([]byte, error)
}

// gather reads what the rule decides from. It sends a request only for a kubeconfig Secret that has changed.
func (h *handler) gather(ctx context.Context, cluster *fleet.Cluster, known clusterRecord) (gathered, error) {
	in := gathered{Input: importing.Input{
		Now: h.app.Clock(), Cluster: cluster, Config: h.app.Config.Get(), Defaults: h.app.AgentDefaults(), Namespaces: h.app.Namespaces,
		PullSecrets: h.pullSecretVersions(cluster),
	}}
	r, workspace, token := &reconcile.Reads{}, cluster.Namespace, names.ImportToken(cluster.Name)
	in.Namesakes = reconcile.ByIndex(r, h.app.Clusters.Cache(), hub.ClustersByClientID, workspace+"/"+cluster.Spec.ClientID)
	in.Bundle = reconcile.Get(r, h.app.Bundles.Cache(), workspace, names.AgentBundle(cluster.Name))
	in.Token = reconcile.Get(r, h.app.ClusterRegistrationTokens.Cache(), workspace, token)
	in.Values = reconcile.Get(r, h.app.ValuesSecrets.Cache(), workspace, token)
	requests := reconcile.ByIndex(r, h.app.ClusterRegistrations.Cache(), hub.RequestsByCluster, workspace+"/"+cluster.Name)
	if r.Err != nil {
		return in, r.Err
	}
	in.Inherited = importing.Inherited(cluster, in.Bundle, requests)
	if err := h.gatherSilence(&in.Input); err != nil {
		return in, err
	}
	if err := h.gatherTokenUsed(&in.Input, requests); err != nil {
		return in, err
	}
	return in, h.gatherKubeconfig(ctx, &in, known)
}

// gatherKubeconfig adds the Secret that the Cluster names, if the rule needs it. What is remembered of this version of
// the Secret is sufficient for the rule; then a job reads the kubeconfig itself.
func (h *handler) gatherKubeconfig(ctx context.Context, in *gathered, known clusterRecord) (err error) {
	in.kubeconfig = noKubeconfig
	if !importing.NeedsKubeconfig(in.Cluster, in.Config) {
		return nil
	}
	name := clusters.KubeconfigSecret(in.Cluster)
	in.Doubted = known.kubeconfig.doubted(in.Input)
	if in.Kubeconfig = known.secret(name, h.app.SecretVersion(name)); in.Kubeconfig != nil {
		in.kubeconfig = func(ctx context.Context) ([]byte, error) { return h.readKubeconfig(ctx, in.Cluster) }
		return nil
	}
	secret, err := h.kubeconfigSecret(ctx, name)
	if err != nil {
		return err
	}
	in.Kubeconfig = secret
	failed := !in.Inherited && importing.KubeconfigFailed(in.Cluster)
	in.Doubted = h.records.putSecret(reconcile.KeyOf(in.Cluster).String(), secret, fingerprintFor(in.Cluster), failed).doubted(in.Input)
	in.kubeconfig = func(context.Context) ([]byte, error) { return kubeconfigIn(secret), nil }
	return nil
}

func (h *handler) kubeconfigSecret(ctx context.Context, name types.NamespacedName) (*corev1.Secret, error) {
	return reconcile.Optional(h.app.Kube.CoreV1().Secrets(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{}))
}

func kubeconfigIn(secret *corev1.Secret) []byte {
	if secret == nil {
		return nil
	}
	return secret.Data[protocol.KubeconfigValueKey]
}

// readKubeconfig reads the kubeconfig of a Cluster, unless the Cluster may no longer use it.
func (h *handler) readKubeconfig(ctx context.Context, cluster *fleet.Cluster) ([]byte, error) {
	secret, err := h.kubeconfigSecret(ctx, clusters.KubeconfigSecret(cluster))
	if err != nil {
		return nil, err
	}
	if reason, message := importing.KubeconfigRefused(cluster, secret, h.app.Config.Get()); reason != "" {
		return nil, &blockedError{reason, message}
	}
	return kubeconfigIn(secret), nil
}

// kubeconfigNow returns the kubeconfig for a job that begins now. A Secret of another namespace is read again: its owner
// may have withdrawn the consent while the job waited for a worker. err is the result of the probe.
func (h *handler) kubeconfigNow(ctx context.Context, cluster *fleet.Cluster, queued []byte, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	if queued == nil || clusters.KubeconfigSecret(cluster).Namespace == cluster.Namespace {
		return queued, nil
	}
	return h.readKubeconfig(ctx, cluster)
}

// missingKubeconfig is the error of a job without a kubeconfig.
func missingKubeconfig(cluster *fleet.Cluster) error {
	return &blockedError{conditions.ReasonKubeconfigMissing, fmt.Sprintf(
		"Secret %s does not exist or has no kubeconfig, without which nothing can be done about the agent: create it, or correct spec.kubeConfigSecret", clusters.KubeconfigSecret(cluster))}
}

// gatherSilence adds whether the agent counts as gone, and which repair the last inspection found necessary. It also
// notices that the token of an agent that has not registered was lost.
func (h *handler) gatherSilence(in *importing.Input) error {
	key := reconcile.KeyOf(in.Cluster)
	var err error
	if in.Stale, err = h.isLost(in.Cluster); err != nil {
		return err
	}
	if in.Inherited || !supervisionrule.Supervised(in.Cluster, in.Stale) {
		return nil
	}
	if importing.TokenLost(*in) {
		h.records.want(key.String(), supervisionrule.RepairIdentity)
	}
	in.Repair = h.records.silence(key.String()).repair
	in.Accounts, err = h.liveAccounts(in.Cluster)
	return err
}

// gatherTokenUsed adds whether the agent's last heartbeat came from the account that it got with its import token. It
// sends a request only for a token that is about to be deleted.
func (h *handler) gatherTokenUsed(in *importing.Input, granted []*fleet.ClusterRegistration) error {
	request := importing.MayHaveUsedToken(*in, granted)
	if request == nil {
		return nil
	}
	name := grant.RequestAccount(request, in.Cluster)
	account, err := reconcile.Optional(h.app.ServiceAccounts.Cache().Get(name.Namespace, name.Name))
	if err != nil || account == nil {
		return err
	}
	live, err := reconcile.Optional(h.app.Clusters.Get(in.Cluster.Namespace, in.Cluster.Name, metav1.GetOptions{})) // caches drop who wrote
	if err != nil || live == nil {
		return err
	}
	in.TokenUsed = protocol.HeartbeatAccount(live) == string(account.UID)
	return nil
}

// isLost reports whether the hub looks for an agent that has reported before: the agent is late, or every account
// that it could use is gone.
func (h *handler) isLost(cluster *fleet.Cluster) (bool, error) {
	if h.app.Liveness.Late(reconcile.KeyOf(cluster)) {
		return true, nil
	}
	granted, err := h.registrations(cluster)
	return supervisionrule.AllReplaced(granted), err
}

// requests returns the ClusterRegistrations of a Cluster's client.
func (h *handler) requests(cluster *fleet.Cluster) (found []*fleet.ClusterRegistration, err error) {
	all, err := h.app.ClusterRegistrations.Cache().GetByIndex(hub.RequestsByClientID, cluster.Namespace+"/"+cluster.Spec.ClientID)
	for _, request := range all {
		if request.DeletionTimestamp == nil {
			found = append(found, request)
		}
	}
	return found, err
}

// registrations returns the ClusterRegistrations that name a Cluster in their status.
func (h *handler) registrations(cluster *fleet.Cluster) ([]*fleet.ClusterRegistration, error) {
	return h.app.ClusterRegistrations.Cache().GetByIndex(hub.RequestsByCluster, cluster.Namespace+"/"+cluster.Name)
}

// liveAccounts returns the UIDs of the accounts with which the Cluster's agent may be registered.
func (h *handler) liveAccounts(cluster *fleet.Cluster) (live []types.UID, err error) {
	granted, err := h.registrations(cluster)
	if err != nil {
		return nil, err
	}
	for _, request := range granted {
		if !request.Status.Granted || request.DeletionTimestamp != nil {
			continue
		}
		name := grant.RequestAccount(request, cluster)
		account, err := reconcile.Optional(h.app.ServiceAccounts.Cache().Get(name.Namespace, name.Name))
		if err != nil {
			return nil, err
		}
		if account != nil && account.DeletionTimestamp == nil {
			live = append(live, account.UID)
		}
	}
	return live, nil
}

// pullSecretVersions returns the last seen versions of the Secrets that are copied to the agent.
func (h *handler) pullSecretVersions(cluster *fleet.Cluster) map[string]string {
	versions := map[string]string{}
	for _, name := range importing.PropagatedPullSecrets(cluster, h.app.Config.Get()) {
		versions[name] = h.app.SecretVersion(types.NamespacedName{Namespace: h.app.Namespaces.System, Name: name})
	}
	return versions
}

// kubeconfigFor returns the kubeconfig for the job that carries out an outcome.
func kubeconfigFor(in gathered, out importing.Outcome) func(context.Context) ([]byte, error) {
	if out.Remove != nil && out.Remove.StatusOnly {
		return noKubeconfig
	}
	return in.kubeconfig
}

func noKubeconfig(context.Context) ([]byte, error) { return nil, nil }
