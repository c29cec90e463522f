package bundle

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/controller/bundles/index"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/reconcile"
	"github.com/fleet-hub/fleet/internal/rules/content"
	rulesdelivery "github.com/fleet-hub/fleet/internal/rules/delivery"
	"github.com/fleet-hub/fleet/internal/rules/selection"
	"github.com/fleet-hub/fleet/internal/rules/targeting"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// input is all that is known about a Bundle when a round begins. It does not change during the round.
type input struct {
	// bundle includes the values from its Secret, if it has one.
	bundle *fleet.Bundle
	// failure is the reason why the Bundle cannot be used at all. Then the fields below are empty.
	failure error
	// circle is a message about a Bundle that depends on itself, or empty.
	circle string
	// manifestHash is the hash of the Bundle's own resources. contentThere means that the Content exists.
	manifestHash string
	contentThere bool
	// reach are the workspaces of the clusters. clusters and groups are the Clusters and ClusterGroups in them.
	reach    targeting.Reach
	clusters []*fleet.Cluster
	groups   targeting.Groups
	// unreachable are the clusters whose agents do not report, absent those whose agents have never reported.
	unreachable, absent map[types.NamespacedName]bool
	// existing are the Bundle's BundleDeployments as last seen.
	existing []*fleet.BundleDeployment
	// written describes earlier writes.
	written selection.Written
	// values are the values from the Secrets of staged BundleDeployments, by namespace. Only these Secrets record
	// which values an agent runs with. secretHolds reports whether a Secret is known to hold the values of its hash.
	values      map[string]*rulesdelivery.Values
	secretHolds func(uid types.UID) bool
	// plainInSecrets puts all values into Secrets.
	plainInSecrets bool
	// cache holds the results of earlier passes.
	cache *cache
	// isStale reports whether the Bundle has changed since the pass began. Its results must not be used then. Nil: never.
	isStale func() bool
}

// gather reads what decides where the Bundle is deployed.
func (h *handler) gather(ctx context.Context, bundle *fleet.Bundle) (in input, err error) {
	in = input{bundle: bundle, secretHolds: h.values.Holds, cache: h.cache, plainInSecrets: h.app.Config.Get().PlainValuesInSecrets}
	stale := false
	in.isStale = func() bool { stale = stale || !h.isCurrent(bundle); return stale }
	if in.reach, err = index.ReachOf(h.app, bundle); err != nil {
		return in, err
	}
	cached, err := h.deployments(bundle)
	if err != nil {
		return in, err
	}
	h.queue.Pause(reconcile.KeyOf(bundle), len(cached))
	if in.failure = selection.Unsupported(bundle, index.Within(in.reach, cached)); in.failure != nil {
		return in, nil //nolint:nilerr // the Bundle's status reports it
	}
	if in.circle, err = h.circleOf(bundle); err != nil {
		return in, err
	}
	in.manifestHash = manifestHash(bundle)
	if in.bundle, in.failure, err = h.source.Inject(ctx, bundle); err != nil || in.failure != nil {
		return in, err
	}
	if err := h.gatherClusters(&in); err != nil {
		return in, err
	}
	if err := h.gatherDeployments(&in); err != nil {
		return in, err
	}
	found, err := reconcile.Optional(h.app.Contents.Cache().Get(content.ID(in.manifestHash)))
	in.contentThere = found != nil && found.DeletionTimestamp == nil
	return in, err
}

// selected decides where the Bundle is deployed.
func (in input) selected() selection.Selection {
	selected := selection.Decide(selection.Input{
		Bundle: in.bundle, ManifestHash: in.manifestHash, Failure: in.failure, Circle: in.circle,
		Reach: in.reach, Clusters: in.clusters, Groups: in.groups, Unreachable: in.unreachable, Absent: in.absent, Existing: in.existing,
		Known: func(cluster *fleet.Cluster, of targeting.Fingerprint) (string, bool) {
			if in.isStale != nil && in.isStale() {
				return "", true // do not evaluate templates: the new ones wait for that, and these may take a second each
			}
			return in.cache.deploymentID(in.bundle, cluster, of)
		},
	})
	if selected.Outcome.Failure == "" && (in.isStale == nil || !in.isStale()) {
		in.cache.setTargets(in.bundle, selected.Targets)
	}
	return selected
}

// gatherClusters finds the clusters the Bundle may go to, in its workspace and in those it is mapped to.
func (h *handler) gatherClusters(in *input) error {
	for _, workspace := range in.reach.Namespaces {
		clusters, err := h.clustersFor(in.bundle, workspace)
		if err != nil {
			return err
		}
		groups, err := h.app.GroupsIn(workspace)
		if err != nil {
			return err
		}
		if clusters, err = h.placed(clusters); err != nil {
			return err
		}
		in.clusters = append(in.clusters, clusters...)
		in.groups.Add(groups)
	}
	if !isOfAgent(in.bundle) {
		in.unreachable, in.absent = h.app.Liveness.Gone(in.clusters)
	}
	return nil
}

// placed clears the namespace of Clusters whose namespace was created for another Cluster, so that nothing is deployed
// there for them.
func (h *handler) placed(clusters []*fleet.Cluster) ([]*fleet.Cluster, error) {
	for i, cluster := range clusters {
		taken, err := h.app.NamespaceTaken(cluster)
		if err != nil {
			return nil, err
		}
		if taken {
			cluster = cluster.DeepCopy()
			cluster.Status.Namespace = ""
			clusters[i] = cluster
		}
	}
	return clusters, nil
}

// clustersFor returns the Clusters of a workspace that the Bundle may go to. The Bundle of an agent goes only to the
// Cluster that it is named after and that its target names. This shortcut saves a search through all Clusters each
// time a cluster joins.
func (h *handler) clustersFor(bundle *fleet.Bundle, workspace string) ([]*fleet.Cluster, error) {
	clusters := h.app.Clusters.Cache()
	if isOfAgent(bundle) {
		for i := range bundle.Spec.Targets {
			named, err := reconcile.Optional(clusters.Get(workspace, bundle.Spec.Targets[i].ClusterName))
			if err != nil {
				return nil, err
			}
			if named != nil && bundle.Name == names.AgentBundle(named.Name) {
				return []*fleet.Cluster{named}, nil
			}
		}
	}
	return clusters.List(workspace, labels.Everything())
}

// isOfAgent reports whether a Bundle contains a Cluster's agent. Such a Bundle is also deployed to clusters whose
// agent does not report, because it may repair that agent.
func isOfAgent(bundle *fleet.Bundle) bool {
	return bundle.Annotations[fleet.AnnotationSetID] == names.AgentBundleSet
}

// gatherDeployments finds the Bundle's BundleDeployments as they were last seen.
func (h *handler) gatherDeployments(in *input) error {
	cached, err := h.deployments(in.bundle)
	if err != nil {
		return err
	}
	in.existing, in.written.Uncertain = h.mutations.newest(reconcile.KeyOf(in.bundle), cached)
	unlabelled, err := h.unlabelled(*in)
	in.existing = append(in.existing, unlabelled...)
	return err
}

// listDeployments is gatherDeployments with the state of the API server. The cache may be older than the promotions of
// an earlier process, which count too.
func (h *handler) listDeployments(in *input) error {
	live, err := h.live(in.bundle)
	if err != nil {
		return fmt.Errorf("listing what is promoted: %w", err)
	}
	h.mutations.noteAll(reconcile.KeyOf(in.bundle), live)
	return h.gatherDeployments(in)
}

// unlabelled returns the Bundle's BundleDeployments whose labels were removed or changed. They have the Bundle's name,
// are in the namespace of one of its clusters, and still identify either their cluster or their Bundle. Their labels
// are restored with the next write.
func (h *handler) unlabelled(in input) (found []*fleet.BundleDeployment, err error) {
	namesakes, err := h.app.BundleDeployments.Cache().GetByIndex(index.DeploymentsByName, in.bundle.Name)
	if err != nil {
		return nil, err
	}
	namesakes = elsewhere(namesakes, in.existing)
	if len(namesakes) == 0 {
		return nil, nil
	}
	namespaces, places := namespacesOf(in.clusters)
	for _, bd := range namesakes {
		if index.ClaimedBy(bd) == reconcile.KeyOf(in.bundle) && places[bd.Namespace] {
			found = append(found, bd)
			continue
		}
		if namespaces[index.ClusterOf(bd)] != bd.Namespace {
			continue
		}
		of := index.BundleOf(bd)
		owner, err := reconcile.Optional(h.app.Bundles.Cache().Get(of.Namespace, of.Name))
		if err != nil {
			return nil, err
		}
		if owner == nil {
			found = append(found, bd)
		}
	}
	return found, nil
}

// elsewhere returns the BundleDeployments that are not being deleted, in namespaces where none of the existing ones is.
func elsewhere(namesakes, existing []*fleet.BundleDeployment) []*fleet.BundleDeployment {
	known := map[string]bool{"": true}
	for _, bd := range existing {
		known[bd.Namespace] = true
	}
	var others []*fleet.BundleDeployment
	for _, bd := range namesakes {
		if !known[bd.Namespace] && bd.DeletionTimestamp == nil {
			others = append(others, bd)
		}
	}
	return others
}

// namespacesOf returns the cluster namespaces, by Cluster and as a set.
func namespacesOf(clusters []*fleet.Cluster) (namespaces map[types.NamespacedName]string, places map[string]bool) {
	namespaces, places = make(map[types.NamespacedName]string, len(clusters)), make(map[string]bool, len(clusters))
	for _, cluster := range clusters {
		namespaces[reconcile.KeyOf(cluster)], places[cluster.Status.Namespace] = cluster.Status.Namespace, true
	}
	return namespaces, places
}

// circleOf returns a message about a Bundle that depends on itself, or an empty string.
func (h *handler) circleOf(bundle *fleet.Bundle) (circle string, err error) {
	var all []*fleet.Bundle
	if len(bundle.Spec.DependsOn) > 0 {
		all, err = h.app.Bundles.Cache().List(bundle.Namespace, labels.Everything())
	}
	return targeting.CircleMessage(bundle, all), err
}
