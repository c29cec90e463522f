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

// Errors that prevent a Bundle from being deployed anywhere, independent of its targets.
var (
	errOCIStorage = errors.New("contentsId: resources in an OCI registry are not supported; put them into spec.resources")
	errHelmOp     = errors.New("helmOpOptions: charts fetched by the agents are not supported; put the chart into spec.resources")
	errLimited    = errors.New("a GitRepoRestriction has limited where this Bundle may be deployed, but GitRepoRestrictions are not supported here: put the allowedTargetNamespaceSelector of its BundleDeployments into its spec, or remove its label " + fleet.LabelRepoName + " to deploy it without a limit")
	errNoValues   = errors.New("spec.valuesHash: the Secret of the Bundle's name with its values (type " + fleet.SecretTypeBundleValues +
		") is missing; apply the Bundle again together with its values")
)

// input is all that is known about a Bundle.
type input struct {
	// bundle includes the values from its Secret, if it has one.
	bundle *fleet.Bundle
	// manifestHash is the hash of the Bundle's own resources. contentThere means that the Content exists.
	manifestHash string
	contentThere bool
	// reach are the workspaces of the clusters. clusters and groups are the Clusters and ClusterGroups in them.
	reach    targeting.Reach
	clusters []*fleet.Cluster
	groups   []*fleet.ClusterGroup
	// unreachable are the clusters whose agents do not report.
	unreachable map[types.NamespacedName]bool
	// existing are the Bundle's BundleDeployments as last seen. inDoubt are the namespaces of those that may have been
	// promoted.
	existing []*fleet.BundleDeployment
	inDoubt  map[string]bool
	// left are the namespaces in which a write of this pass failed. The value is true if it is unknown whether the
	// write was applied.
	left map[string]bool
	// values are the values from the Secrets of staged BundleDeployments, by namespace. Only these Secrets record
	// which values an agent runs with. secretHolds reports whether a Secret is known to hold the values of a hash.
	values      map[string]*rulesdelivery.Values
	secretHolds func(uid types.UID, hash string) bool
	// settled holds the results of earlier passes.
	settled *settled
	// circle is a message about a Bundle that depends on itself, or empty.
	circle string
	// failure is the reason why the Bundle cannot be used at all.
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
		return in, nil //nolint:nilerr // the Bundle's status reports it
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

// unsupported returns why a Bundle that Rancher Fleet would deploy is not deployed here. A namespace limit that only
// the existing BundleDeployments have, and not the spec, would be lost with the next change.
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

// withValues returns a copy of the Bundle with the values of its Secret, if it has one.
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
