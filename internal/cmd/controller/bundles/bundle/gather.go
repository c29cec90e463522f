package bundle

import (
	"context"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/controller/bundles/index"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/reconcile"
	"github.com/fleet-hub/fleet/internal/rules/content"
	rulesdelivery "github.com/fleet-hub/fleet/internal/rules/delivery"
	"github.com/fleet-hub/fleet/internal/rules/targeting"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Why a Bundle goes nowhere, apart from its targets.
var (
	errOCIStorage = errors.New("contentsId: resources in an OCI registry are not supported; put them into spec.resources")
	errHelmOp     = errors.New("helmOpOptions: charts fetched by the agents are not supported; put the chart into spec.resources")
	errLimited    = errors.New("a GitRepoRestriction, which nobody acts on here, has limited where this Bundle may be deployed: put the allowedTargetNamespaceSelector of its BundleDeployments into its spec, or take its label " + fleet.LabelRepoName + " off for no limit")
	errNoValues   = errors.New("spec.valuesHash: the Secret of the Bundle's name with its values (type " + fleet.SecretTypeBundleValues +
		") is missing; apply the Bundle again together with its values")
)

// input is all that is known about a Bundle.
type input struct {
	// bundle has its values back if they are in a Secret.
	bundle *fleet.Bundle
	// manifestHash is of its resources, if it has any of its own; contentThere says that the Content exists.
	manifestHash string
	contentThere bool
	// reach is where the clusters are, with their groups.
	reach    targeting.Reach
	clusters []*fleet.Cluster
	groups   []*fleet.ClusterGroup
	// unreachable are the clusters whose agents are silent.
	unreachable map[types.NamespacedName]bool
	// existing are the Bundle's BundleDeployments as last seen, and inDoubt the namespaces of those that may have been
	// promoted.
	existing []*fleet.BundleDeployment
	inDoubt  map[string]bool
	// left are the namespaces in which something has failed in this pass; true where nobody knows what became of it.
	left map[string]bool
	// values are those in the Secrets of existing ones that are staged, by namespace:
	// only there can it be known what an agent runs with. secretHolds says of which it is known what they hold.
	values      map[string]*rulesdelivery.Values
	secretHolds func(uid types.UID, hash string) bool
	// settled is what earlier passes have found out.
	settled *settled
	// circle tells of a Bundle that depends on itself.
	circle string
	// failure says why the Bundle cannot be used at all.
	failure error
}

func (h *handler) gather(ctx context.Context, bundle *fleet.Bundle) (input, error) {
	in := input{bundle: bundle, secretHolds: h.memo.secretHolds, settled: &settled{h.memo, bundle}}
	err := h.gatherDeployments(&in)
	if err != nil {
		return in, err
	}
	if in.reach, err = index.ReachOf(h.app, bundle); err != nil {
		return in, err
	}
	if in.failure = unsupported(bundle, index.Within(in.reach, in.existing)); in.failure != nil {
		return in, nil //nolint:nilerr // it is told on the Bundle
	}
	if in.circle, err = h.circleOf(bundle); err != nil {
		return in, err
	}
	in.manifestHash = h.memo.manifestHash(bundle)
	if in.bundle, in.failure, err = h.withValues(ctx, bundle); err != nil || in.failure != nil {
		return in, err
	}
	if err := h.gatherClusters(&in); err != nil {
		return in, err
	}
	if err := h.gatherUnlabelled(&in); err != nil {
		return in, err
	}
	found, err := reconcile.Optional(h.app.Contents.Cache().Get(content.ID(in.manifestHash)))
	if err != nil {
		return in, err
	}
	in.contentThere = found != nil && found.DeletionTimestamp == nil
	return in, nil
}

// gatherClusters finds the clusters the Bundle may go to, in its workspace and in those it is mapped to.
func (h *handler) gatherClusters(in *input) error {
	for _, workspace := range in.reach.Namespaces {
		clusters, err := h.clustersFor(in.bundle, workspace)
		if err != nil {
			return err
		}
		groups, err := h.app.ClusterGroups.Cache().List(workspace, labels.Everything())
		if err != nil {
			return err
		}
		if clusters, err = h.placed(clusters); err != nil {
			return err
		}
		in.clusters, in.groups = append(in.clusters, clusters...), append(in.groups, groups...)
	}
	in.unreachable = map[types.NamespacedName]bool{}
	for _, cluster := range in.clusters {
		if !isOfAgent(in.bundle) && h.app.Liveness.Stale(keyOf(cluster)) {
			in.unreachable[keyOf(cluster)] = true
		}
	}
	return nil
}

// placed takes the namespace off the Clusters whose namespace was made for another Cluster: nothing is put there for them.
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

// clustersFor are those of a workspace that the Bundle may go to. An agent's Bundle is for the one that it is called after
// and that its target names: with thousands of clusters, each join would look at all of them otherwise.
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

// isOfAgent says whether a Bundle has a Cluster's agent. It is no rollout, and may be what a silent agent needs.
func isOfAgent(bundle *fleet.Bundle) bool {
	return bundle.Annotations[fleet.AnnotationSetID] == names.AgentBundleSet
}

// unsupported is why a Bundle that another implementation delivers is not delivered here. A limit that it has not from
// its spec would be lost with the next change.
func unsupported(bundle *fleet.Bundle, existing []*fleet.BundleDeployment) error {
	if err := targeting.CheckName(bundle.Name); err != nil {
		return err
	}
	switch {
	case bundle.Spec.HelmOpOptions != nil:
		return errHelmOp
	case bundle.Spec.ContentsID != "":
		return errOCIStorage
	case bundle.Spec.AllowedTargetNamespaceSelector == nil && bundle.Labels[fleet.LabelRepoName] != "" && slices.ContainsFunc(existing, isLimited):
		return errLimited
	default:
		return nil
	}
}

func isLimited(bd *fleet.BundleDeployment) bool {
	return bd.Spec.Options.AllowedTargetNamespaceSelector != nil || bd.Spec.StagedOptions.AllowedTargetNamespaceSelector != nil
}

// withValues is a copy of the Bundle with the values of its Secret, if it has one.
func (h *handler) withValues(ctx context.Context, bundle *fleet.Bundle) (with *fleet.Bundle, failure, err error) {
	if bundle.Spec.ValuesHash == "" {
		return bundle, nil, nil
	}
	h.awaited.begin(bundle, h.app.Clock())
	secret, err := reconcile.Optional(h.app.Kube.CoreV1().Secrets(bundle.Namespace).Get(ctx, bundle.Name, metav1.GetOptions{}))
	if err != nil {
		return bundle, nil, fmt.Errorf("reading the values secret: %w", err)
	}
	if secret == nil || secret.Type != fleet.SecretTypeBundleValues {
		return bundle, errNoValues, nil
	}
	with, failure = rulesdelivery.InjectValues(bundle, secret.Data)
	if failure != nil {
		return bundle, failure, nil
	}
	return with, nil, nil
}
