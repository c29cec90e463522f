package clusterimport

import (
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/agentchart"
	"github.com/fleet-hub/fleet/internal/cmd/controller/hub"
	kubeconfigs "github.com/fleet-hub/fleet/internal/kube/kubeconfig"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/reconcile"
	"github.com/fleet-hub/fleet/internal/rules/grant"
	"github.com/fleet-hub/fleet/internal/rules/importing"
	supervisionrule "github.com/fleet-hub/fleet/internal/rules/supervision"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// clockTolerance is the largest accepted difference between the clocks of this process and of the hub's API server.
const clockTolerance = time.Minute

// observe reads the state of an agent, on the hub and downstream.
func (h *handler) observe(ctx context.Context, cluster *fleet.Cluster, downstream hub.Downstream) (supervisionrule.Input, error) {
	known, now := h.supervision.known(keyOf(cluster).String()), h.app.Clock()
	in := supervisionrule.Input{
		Awaited: now.Sub(known.since), Quiet: now.Sub(known.quiet), FreshTokens: known.tokens,
		Heard: !supervisionrule.NeverHeard(cluster), Namespace: importing.AgentNamespace(cluster, h.app.Namespaces),
	}
	if err := h.observeHub(cluster, known, &in); err != nil {
		return in, err
	}
	uid, err := h.hub.get(ctx, h.app.Kube)
	if err != nil {
		return in, err
	}
	if err := checkHub(ctx, downstream, in.Namespace, uid); err != nil {
		return in, err
	}
	in.Wanted = h.wanted(cluster)
	accounts, err := h.liveAccounts(cluster)
	if err != nil {
		return in, err
	}
	return in, observeAgent(ctx, downstream, accounts, &in)
}

// wanted returns the agent's Deployment for the current settings. It returns nil if the chart refuses them, which the
// import reports.
func (h *handler) wanted(cluster *fleet.Cluster) *appsv1.Deployment {
	rendered, err := agentchart.Render(importing.AgentSettings(cluster, h.app.Config.Get(), h.app.AgentDefaults(), h.app.Namespaces))
	if err != nil {
		return nil
	}
	return find[*appsv1.Deployment](rendered)
}

// observeHub reads what the hub knows: the token, and whether the agent has created requests.
func (h *handler) observeHub(cluster *fleet.Cluster, known attention, in *supervisionrule.Input) error {
	values, err := reconcile.Optional(h.app.ValuesSecrets.Cache().Get(cluster.Namespace, names.ImportToken(cluster.Name)))
	if err != nil {
		return err
	}
	if values != nil {
		if parsed, err := protocol.ParseValues(values.Data[protocol.ValuesKey]); err == nil { // else the token reports it
			in.Token = parsed.Token
		}
	}
	requests, err := h.requests(cluster)
	for _, request := range requests {
		if !known.deployed || request.CreationTimestamp.After(known.since.Add(-clockTolerance)) {
			in.Requested = true
		}
	}
	return err
}

// requests returns the ClusterRegistrations of a Cluster's client.
func (h *handler) requests(cluster *fleet.Cluster) (found []*fleet.ClusterRegistration, err error) {
	all, err := h.app.ClusterRegistrations.Cache().GetByIndex(byClient, cluster.Namespace+"/"+cluster.Spec.ClientID)
	for _, request := range all {
		if request.DeletionTimestamp == nil {
			found = append(found, request)
		}
	}
	return found, err
}

// registrations returns the ClusterRegistrations that were granted for a Cluster.
func (h *handler) registrations(cluster *fleet.Cluster) ([]*fleet.ClusterRegistration, error) {
	return h.app.ClusterRegistrations.Cache().GetByIndex(byCluster, cluster.Namespace+"/"+cluster.Name)
}

// liveAccounts returns the UIDs of the accounts with which the Cluster's agent may be registered.
func (h *handler) liveAccounts(cluster *fleet.Cluster) (live []types.UID, err error) {
	requests, err := h.registrations(cluster)
	if err != nil {
		return nil, err
	}
	for _, request := range requests {
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

// observeAgent reads the agent's namespace, its Secrets, its Deployment, ReplicaSets and pods.
func observeAgent(ctx context.Context, downstream hub.Downstream, accounts []types.UID, in *supervisionrule.Input) error {
	here := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: in.Namespace, Name: name} }
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: in.Namespace}}
	if _, err := downstream.Find(ctx, namespace); err != nil {
		return err
	}
	in.Terminating = namespace.DeletionTimestamp != nil
	var err error
	stored := &corev1.Secret{ObjectMeta: here(names.Agent)}
	if in.Identity, err = downstream.Find(ctx, stored); err != nil {
		return err
	}
	in.Known = supervisionrule.KnowsIdentity(kubeconfigs.TokenOf(stored.Data[protocol.KubeconfigKey]), accounts)
	bootstrap := &corev1.Secret{ObjectMeta: here(names.AgentBootstrap)}
	if _, err := downstream.Find(ctx, bootstrap); err != nil {
		return err
	}
	if given, err := protocol.ParseBootstrap(bootstrap.Data); err == nil { // an invalid one counts as missing
		in.Delivered = given.Token
	}
	deployment := &appsv1.Deployment{ObjectMeta: here(names.Agent)}
	found, err := downstream.Find(ctx, deployment)
	if err != nil || !found {
		return err
	}
	in.Deployment = deployment
	sets, pods := &appsv1.ReplicaSetList{}, &corev1.PodList{}
	if err := downstream.List(ctx, in.Namespace, agentPods, sets); err != nil {
		return err
	}
	if err := downstream.List(ctx, in.Namespace, agentPods, pods); err != nil {
		return err
	}
	in.ReplicaSets, in.Pods = sets.Items, pods.Items
	return nil
}
