package clusterimport

import (
	"context"
	"fmt"

	"github.com/rancher/wrangler/v3/pkg/randomtoken"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub"
	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/reconcile"
	"github.com/fleet-hub/fleet/internal/rules/hubaddress"
	"github.com/fleet-hub/fleet/internal/rules/importing"
	supervisionrule "github.com/fleet-hub/fleet/internal/rules/supervision"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// byImportToken is the index of Clusters by import token: "<workspace>/<token>".
const byImportToken = "fleet.clusters-by-import-token"

type handler struct {
	app     *hub.App
	records *clusterRecords
	// pace limits how often agents are inspected while most agents of the hub are silent.
	pace flowcontrol.PassiveRateLimiter
	// reviews limits how often the API server is asked whether it accepts a stored token.
	reviews flowcontrol.PassiveRateLimiter
}

// Register watches Clusters and everything that can let an import continue: the token and its values, the kubeconfig
// Secret (watched by the app), and the configuration.
func Register(ctx context.Context, a *hub.App) error {
	h := &handler{
		app: a, records: newClusterRecords(a.OwnClock), pace: flowcontrol.NewTokenBucketPassiveRateLimiter(inspectionsPerSecond, inspectionsAtOnce),
		reviews: flowcontrol.NewTokenBucketPassiveRateLimiter(reviewsPerSecond, reviewsAtOnce),
	}
	a.Clusters.OnChange(hub.Lasting(ctx), "import", func(key string, cluster *fleet.Cluster) (*fleet.Cluster, error) {
		if cluster == nil {
			a.Probes.Forget(key)
			h.records.forget(key)
			a.Identities.Forget(reconcile.ParseKey(key))
			return nil, nil
		}
		return h.onChange(ctx, cluster)
	})
	addIndexes(a)
	a.Config.OnChange(h.onConfig)
	a.OnPublishedAddress(h.onPublished)
	enqueue := reconcile.Enqueue(a.Clusters)
	a.Liveness.OnChange(func(cluster types.NamespacedName) {
		if a.Liveness.Stale(cluster) { // an agent that reports again has an event of its own
			enqueue(cluster)
		}
	})
	a.Liveness.OnLate(enqueue)
	if err := a.OnSecret(h.clustersOfPullSecret, enqueue); err != nil {
		return err
	}
	if err := reconcile.Watch(a.ClusterRegistrations.Informer(), clusterOfReplaced, enqueue); err != nil {
		return err
	}
	if err := reconcile.Watch(a.Clusters.Informer(), h.namesakesOf, enqueue); err != nil {
		return err
	}
	if err := reconcile.Watch(a.ClusterRegistrationTokens.Informer(), func(t *fleet.ClusterRegistrationToken) []types.NamespacedName {
		return h.clustersOf(t.Namespace, t.Name)
	}, enqueue); err != nil {
		return err
	}
	return reconcile.Watch(a.ValuesSecrets.Informer(), func(s *corev1.Secret) []types.NamespacedName {
		return h.clustersOf(s.Namespace, s.Name)
	}, enqueue)
}

func addIndexes(a *hub.App) {
	a.Clusters.Cache().AddIndexer(byImportToken, func(c *fleet.Cluster) ([]string, error) {
		return []string{c.Namespace + "/" + names.ImportToken(c.Name)}, nil
	})
}

func (h *handler) clustersOf(namespace, token string) (keys []types.NamespacedName) {
	clusters, err := h.app.Clusters.Cache().GetByIndex(byImportToken, namespace+"/"+token)
	if err != nil {
		return nil // only without the index, which Register adds
	}
	for _, cluster := range clusters {
		keys = append(keys, reconcile.KeyOf(cluster))
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
			keys = append(keys, reconcile.KeyOf(namesake))
		}
	}
	return keys
}

// onConfig enqueues every imported Cluster: the rule decides which of them a change concerns. A changed hub address
// concerns all Clusters.
func (h *handler) onConfig(before, after config.Config) {
	moved := hubaddress.Hash(before) != hubaddress.Hash(after)
	for _, cluster := range h.clusters(func(c *fleet.Cluster) bool { return moved || c.Spec.KubeConfigSecret != "" }) {
		reconcile.Enqueue(h.app.Clusters)(cluster)
	}
}

// onPublished enqueues the Clusters whose agents read the hub document when that has another address.
func (h *handler) onPublished() {
	for _, cluster := range h.clusters(hubaddress.ReadsDocument) {
		reconcile.Enqueue(h.app.Clusters)(cluster)
	}
}

func (h *handler) clusters(chosen func(*fleet.Cluster) bool) (keys []types.NamespacedName) {
	clusters, err := h.app.Clusters.Cache().List("", labels.Everything())
	if err != nil {
		return nil // the cache has not started; its start enqueues every Cluster
	}
	for _, cluster := range clusters {
		if chosen(cluster) {
			keys = append(keys, reconcile.KeyOf(cluster))
		}
	}
	return keys
}

func (h *handler) onChange(ctx context.Context, cluster *fleet.Cluster) (*fleet.Cluster, error) {
	key := reconcile.KeyOf(cluster).String()
	if h.app.Probes.IsPending(key) {
		return cluster, nil // the end of the probe enqueues the Cluster
	}
	defer h.app.Probes.Reconciled(key)
	if err := h.app.Identities.Persist(cluster); err != nil {
		return cluster, err
	}
	h.records.identify(key, cluster.UID)
	known := h.records.get(key)
	if known.isBusy(cluster.ResourceVersion) {
		return cluster, nil // the end of the job enqueues the Cluster
	}
	in, err := h.gather(ctx, cluster, known)
	if err != nil {
		return cluster, fmt.Errorf("looking at cluster %s: %w", reconcile.KeyOf(cluster), err)
	}
	return h.act(in, importing.Decide(in.Input))
}

// act carries out the outcome.
func (h *handler) act(in gathered, out importing.Outcome) (*fleet.Cluster, error) {
	cluster := in.Cluster
	switch out.Stage {
	case importing.NeedsClientID:
		return h.giveClientID(cluster)
	case importing.NeedsToken:
		if out.CreateToken != nil && !h.isReachable(in, out) {
			h.dispatch(in, out)
			return cluster, nil
		}
		return cluster, h.makeToken(in, out)
	case importing.AwaitingToken:
		return cluster, nil // the values enqueue the Cluster when they appear
	case importing.NeedsAgent, importing.MustRemove:
		h.dispatch(in, out)
		return cluster, nil
	}
	if out.EndToken {
		if err := h.endToken(in); err != nil {
			return cluster, err
		}
	}
	if out.Supervise {
		h.supervise(in)
		return cluster, nil // the result is reported after the inspection
	}
	h.records.settled(reconcile.KeyOf(cluster).String())
	return h.report(cluster, out)
}

// isReachable reports whether the cluster has just answered, so that no probe is needed. The failure of a new
// Cluster's first probe counts as that of the first attempt.
func (h *handler) isReachable(in gathered, out importing.Outcome) bool {
	key, attempt := reconcile.KeyOf(in.Cluster).String(), h.attempt(in.Cluster, out)
	wasProbed, err := h.app.Probes.Result(key)
	if err != nil {
		if begun, _, _ := h.records.begin(key, attempt); begun {
			h.finish(in.Cluster, out, in.Now, err)
		}
		return false
	}
	job := h.records.get(key).job
	return wasProbed || job.reached && job.attempt == attempt
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
func (h *handler) makeToken(in gathered, out importing.Outcome) error {
	var err error
	if out.RenewToken {
		err = reconcile.Delete(h.app.ClusterRegistrationTokens, in.Token)
	} else {
		_, err = h.app.ClusterRegistrationTokens.Create(out.CreateToken)
	}
	if err != nil && !apierrors.IsAlreadyExists(err) && !apierrors.IsNotFound(err) {
		return fmt.Errorf("import token of cluster %s: %w", reconcile.KeyOf(in.Cluster), err)
	}
	return nil
}

// endToken deletes the import token that the agent has used. The next registration gets another one.
func (h *handler) endToken(in gathered) error {
	if err := reconcile.Delete(h.app.ClusterRegistrationTokens, in.Token); err != nil {
		return fmt.Errorf("deleting the used import token of cluster %s: %w", reconcile.KeyOf(in.Cluster), err)
	}
	h.app.Log.Debug("used import token deleted", "cluster", reconcile.KeyOf(in.Cluster).String())
	return nil
}

// clusterOfReplaced returns the Cluster of a registration that has lost its account.
func clusterOfReplaced(r *fleet.ClusterRegistration) []types.NamespacedName {
	if r.Status.ClusterName == "" || !supervisionrule.AllReplaced([]*fleet.ClusterRegistration{r}) {
		return nil
	}
	return []types.NamespacedName{{Namespace: r.Namespace, Name: r.Status.ClusterName}}
}

// clustersOfPullSecret returns the Clusters to whose agents a Secret is copied.
func (h *handler) clustersOfPullSecret(secret types.NamespacedName) (keys []types.NamespacedName) {
	if !h.app.IsPullSecret(secret) {
		return nil
	}
	return h.clusters(func(c *fleet.Cluster) bool { return c.Spec.KubeConfigSecret != "" })
}
