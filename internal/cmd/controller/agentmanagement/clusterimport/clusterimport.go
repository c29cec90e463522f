// Package clusterimport installs the agent on a Cluster that names a kubeconfig, keeps it in the state that the
// Cluster's settings describe, and removes it where the local agent is disabled.
//
//	Cluster ─► probe ─► client ID ─► import token ─► agent applied downstream ─► status
//
// Handlers never connect to another cluster. Jobs (jobs.go) do that in the background, at most one per Cluster.
package clusterimport

import (
	"context"
	"fmt"

	"github.com/rancher/wrangler/v3/pkg/randomtoken"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub"
	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/reconcile"
	"github.com/fleet-hub/fleet/internal/rules/grant"
	"github.com/fleet-hub/fleet/internal/rules/importing"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// byImportToken is the index of Clusters by import token: "<workspace>/<token>".
const byImportToken = "fleet.clusters-by-import-token"

// steps limits how many steps one reconcile takes for a Cluster: a client ID, a token, and the next one.
const steps = 3

type handler struct {
	app       *hub.Context
	addresses *addresses
	jobs      *jobs
	trust     trustFunc
	// supervision remembers agents that do not report.
	supervision *supervision
	// paced limits how often agents are checked downstream while most agents of the hub are silent.
	paced flowcontrol.PassiveRateLimiter
	hub   hubIdentity
}

// Register watches Clusters and everything that can let an import continue: the token and its values, the kubeconfig
// Secret (watched by the app), and the configuration.
func Register(ctx context.Context, a *hub.Context) error {
	h := &handler{
		app: a, addresses: newAddresses(), jobs: newJobs(a.Clock), trust: trust,
		supervision: newSupervision(a.Clock), paced: flowcontrol.NewTokenBucketPassiveRateLimiter(looksPerSecond, looksAtOnce),
	}
	a.Clusters.OnChange(hub.Lasting(ctx), "import", func(key string, cluster *fleet.Cluster) (*fleet.Cluster, error) {
		if cluster == nil {
			h.addresses.forget(key)
			a.Probes.Forget(key)
			h.jobs.forget(key)
			h.supervision.forget(key)
			return nil, nil
		}
		return h.onChange(ctx, cluster)
	})
	addIndexes(a)
	a.Config.OnChange(h.onConfig)
	nudge := reconcile.Nudge(a.Clusters)
	a.Liveness.OnChange(func(cluster types.NamespacedName) {
		if a.Liveness.Stale(cluster) { // an agent that reports again has an event of its own
			nudge(cluster)
		}
	})
	a.Liveness.OnLate(nudge)
	if err := a.OnSecret(h.clustersOfPullSecret, nudge); err != nil {
		return err
	}
	if err := reconcile.Watch(a.ClusterRegistrations.Informer(), clusterOfReplaced, nudge); err != nil {
		return err
	}
	if err := reconcile.Watch(a.Clusters.Informer(), h.namesakesOf, nudge); err != nil {
		return err
	}
	if err := reconcile.Watch(a.ClusterRegistrationTokens.Informer(), func(t *fleet.ClusterRegistrationToken) []types.NamespacedName {
		return h.clustersOf(t.Namespace, t.Name)
	}, nudge); err != nil {
		return err
	}
	return reconcile.Watch(a.ValuesSecrets.Informer(), func(s *corev1.Secret) []types.NamespacedName {
		return h.clustersOf(s.Namespace, s.Name)
	}, nudge)
}

func addIndexes(a *hub.Context) {
	a.Clusters.Cache().AddIndexer(byImportToken, func(c *fleet.Cluster) ([]string, error) {
		return []string{c.Namespace + "/" + names.ImportToken(c.Name)}, nil
	})
	a.ClusterRegistrations.Cache().AddIndexer(byClient, func(r *fleet.ClusterRegistration) ([]string, error) {
		return []string{r.Namespace + "/" + r.Spec.ClientID}, nil
	})
	a.ClusterRegistrations.Cache().AddIndexer(byCluster, clusterOfRegistration)
}

func (h *handler) clustersOf(namespace, token string) (keys []types.NamespacedName) {
	clusters, err := h.app.Clusters.Cache().GetByIndex(byImportToken, namespace+"/"+token)
	if err != nil {
		return nil // only without the index, which Register adds
	}
	for _, cluster := range clusters {
		keys = append(keys, keyOf(cluster))
	}
	return keys
}

// namesakesOf returns the other Clusters that wait until a Cluster gives up their client ID.
func (h *handler) namesakesOf(cluster *fleet.Cluster) (keys []types.NamespacedName) {
	if cluster.Spec.ClientID == "" {
		return nil
	}
	namesakes, err := h.app.Clusters.Cache().GetByIndex(hub.ClustersByClientID, cluster.Namespace+"/"+cluster.Spec.ClientID)
	if err != nil {
		return nil // only without the index, which the app adds
	}
	for _, namesake := range namesakes {
		if namesake.Name != cluster.Name {
			keys = append(keys, keyOf(namesake))
		}
	}
	return keys
}

func keyOf(cluster *fleet.Cluster) types.NamespacedName {
	return types.NamespacedName{Namespace: cluster.Namespace, Name: cluster.Name}
}

// onConfig enqueues every imported Cluster: the rule decides which of them a change concerns. A changed hub address
// concerns all Clusters.
func (h *handler) onConfig(before, after config.Config) {
	moved := grant.AddressHash(before) != grant.AddressHash(after)
	for _, cluster := range h.clusters(func(c *fleet.Cluster) bool { return moved || c.Spec.KubeConfigSecret != "" }) {
		reconcile.Nudge(h.app.Clusters)(cluster)
	}
}

// importedClusters returns the Clusters that name a kubeconfig.
func (h *handler) importedClusters() []types.NamespacedName {
	return h.clusters(func(c *fleet.Cluster) bool { return c.Spec.KubeConfigSecret != "" })
}

func (h *handler) clusters(chosen func(*fleet.Cluster) bool) (keys []types.NamespacedName) {
	clusters, err := h.app.Clusters.Cache().List("", labels.Everything())
	if err != nil {
		return nil // the cache has not started; its start enqueues every Cluster
	}
	for _, cluster := range clusters {
		if chosen(cluster) {
			keys = append(keys, keyOf(cluster))
		}
	}
	return keys
}

func (h *handler) onChange(ctx context.Context, cluster *fleet.Cluster) (*fleet.Cluster, error) {
	key := keyOf(cluster).String()
	if h.app.Probes.IsPending(key) || h.jobs.busy(key, cluster.ResourceVersion) {
		return cluster, nil // the end of the probe or job enqueues the Cluster
	}
	defer h.app.Probes.Reconciled(key)
	for range steps {
		out, err := h.decide(ctx, cluster)
		if err != nil {
			return cluster, fmt.Errorf("looking at cluster %s: %w", keyOf(cluster), err)
		}
		next, more, err := h.act(cluster, out)
		if err != nil || !more {
			return next, err
		}
		cluster = next
	}
	return cluster, nil
}

// decide asks the rule, first with what is remembered of the kubeconfig Secret. The Secret is read only if there is
// something to do: a Cluster whose agent is in place costs no request.
func (h *handler) decide(ctx context.Context, cluster *fleet.Cluster) (importing.Outcome, error) {
	in, err := h.gather(cluster)
	if err != nil {
		return importing.Outcome{}, err
	}
	name := importing.KubeconfigSecret(cluster)
	if name.Name == "" {
		return importing.Decide(in), nil
	}
	if out := importing.Decide(in); out.Stage == importing.NeedsClientID {
		return out, nil
	}
	version := h.app.SecretVersion(name)
	in.Doubted = h.addresses.changed(keyOf(cluster).String())
	if in.Kubeconfig = h.addresses.get(keyOf(cluster).String(), name, version); in.Kubeconfig != nil {
		if out := importing.Decide(in); out.Stage == importing.InSync || out.Stage == importing.Disabled {
			return out, nil
		}
	}
	in.Kubeconfig, err = reconcile.Optional(h.app.Kube.CoreV1().Secrets(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{}))
	if err != nil {
		return importing.Outcome{}, err
	}
	h.addresses.put(keyOf(cluster).String(), in.Kubeconfig)
	in.Doubted = h.addresses.changed(keyOf(cluster).String())
	return importing.Decide(in), nil
}

func (h *handler) gather(cluster *fleet.Cluster) (importing.Input, error) {
	in := importing.Input{
		Now: h.app.Clock(), Cluster: cluster, Config: h.app.Config.Get(), Defaults: h.app.AgentDefaults(), Namespaces: h.app.Namespaces,
	}
	var err error
	if in.Namesakes, err = h.app.Clusters.Cache().GetByIndex(hub.ClustersByClientID, cluster.Namespace+"/"+cluster.Spec.ClientID); err != nil {
		return in, err
	}
	bundle, err := reconcile.Optional(h.app.Bundles.Cache().Get(cluster.Namespace, names.AgentBundle(cluster.Name)))
	if err != nil {
		return in, err
	}
	in.Inherited, in.Bundle, in.PullSecrets = importing.Inherited(cluster, bundle), bundle, h.pullSecretVersions(cluster)
	in.Token, err = reconcile.Optional(h.app.ClusterRegistrationTokens.Cache().Get(cluster.Namespace, names.ImportToken(cluster.Name)))
	if err != nil {
		return in, err
	}
	in.Values, err = reconcile.Optional(h.app.ValuesSecrets.Cache().Get(cluster.Namespace, names.ImportToken(cluster.Name)))
	if err != nil {
		return in, err
	}
	return in, h.gatherSupervised(&in)
}

// act carries out the outcome. more means that the rule has to decide again about the changed Cluster.
func (h *handler) act(cluster *fleet.Cluster, out importing.Outcome) (next *fleet.Cluster, more bool, err error) {
	switch out.Stage {
	case importing.NeedsClientID:
		next, err = h.giveClientID(cluster)
		return next, err == nil, err
	case importing.NeedsToken:
		if out.CreateToken != nil && !h.isReachable(cluster, out) {
			h.dispatch(cluster, out)
			return cluster, false, nil
		}
		return cluster, false, h.makeToken(cluster, out)
	case importing.AwaitingToken:
		return cluster, false, nil // the values enqueue the Cluster when they appear
	case importing.NeedsAgent, importing.MustRemove:
		h.dispatch(cluster, out)
		return cluster, false, nil
	}
	if out.Supervise {
		h.lookAfter(cluster)
		return cluster, false, nil // the result is reported after the check
	}
	h.supervision.forget(keyOf(cluster).String())
	h.jobs.forget(keyOf(cluster).String())
	next, err = h.report(cluster, out)
	return next, false, err
}

// isReachable reports whether the cluster has just answered, so that no probe is needed. The failure of a new
// Cluster's first probe counts as that of the first attempt.
func (h *handler) isReachable(cluster *fleet.Cluster, out importing.Outcome) bool {
	key, attempt := keyOf(cluster).String(), h.attempt(cluster, out)
	wasProbed, err := h.app.Probes.Result(key)
	if err != nil {
		if begun, _ := h.jobs.begin(key, attempt); begun {
			h.finish(cluster, out, h.app.Clock(), err)
		}
		return false
	}
	return wasProbed || h.jobs.hasAnswered(key, attempt)
}

func (h *handler) giveClientID(cluster *fleet.Cluster) (*fleet.Cluster, error) {
	clientID, err := randomtoken.Generate()
	if err != nil {
		return cluster, fmt.Errorf("making a client ID: %w", err)
	}
	return reconcile.Patch(h.app.Clusters, cluster, func(c *fleet.Cluster) {
		if c.Spec.ClientID == "" { // another client may have set it
			c.Spec.ClientID = clientID
		}
	})
}

// makeToken creates the import token, or deletes one that is about to expire. Its deletion enqueues the Cluster.
func (h *handler) makeToken(cluster *fleet.Cluster, out importing.Outcome) error {
	var err error
	if out.RenewToken {
		err = h.app.ClusterRegistrationTokens.Delete(cluster.Namespace, names.ImportToken(cluster.Name), &metav1.DeleteOptions{})
	} else {
		_, err = h.app.ClusterRegistrationTokens.Create(out.CreateToken)
	}
	if err != nil && !apierrors.IsAlreadyExists(err) && !apierrors.IsNotFound(err) {
		return fmt.Errorf("import token of cluster %s: %w", keyOf(cluster), err)
	}
	return nil
}
