package target

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/cmd/cli/access"
	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
	"github.com/fleet-hub/fleet/internal/rules/content"
	"github.com/fleet-hub/fleet/internal/rules/delivery"
	"github.com/fleet-hub/fleet/internal/rules/selection"
	"github.com/fleet-hub/fleet/internal/rules/targeting"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// gather reads what decides where the hub deploys a Bundle.
func gather(ctx context.Context, hub *access.Cluster, bundle *fleet.Bundle) (in selection.Input, err error) {
	in = newInput(bundle)
	if in.Failure != nil {
		return in, nil //nolint:nilerr // decide returns it
	}
	if in.Bundle, err = withValues(ctx, hub, bundle); err != nil {
		return in, err
	}
	if in.Reach, err = reachOf(ctx, hub, bundle); err != nil {
		return in, err
	}
	for _, workspace := range in.Reach.Namespaces {
		clusters, err := access.All(ctx, hub.Clusters(workspace), "Clusters", workspace)
		if err != nil {
			return in, err
		}
		groups, err := access.All(ctx, hub.ClusterGroups(workspace), "ClusterGroups", workspace)
		if err != nil {
			return in, err
		}
		in.Clusters = append(in.Clusters, clusters...)
		in.Groups.Add(targeting.NewGroups(groups))
	}
	return in, nil
}

// newInput returns the input that only depends on the Bundle.
func newInput(bundle *fleet.Bundle) selection.Input {
	return selection.Input{
		Bundle: bundle, ManifestHash: content.Manifest{Resources: bundle.Spec.Resources}.SHA256(),
		Failure: selection.Unsupported(bundle, nil), Reach: targeting.NewReach(bundle, nil, nil),
		Known: func(*fleet.Cluster, targeting.Fingerprint) (string, bool) { return "", false },
	}
}

// withValues returns the Bundle with the values of its Secret, if only the hub has them.
func withValues(ctx context.Context, hub *access.Cluster, bundle *fleet.Bundle) (*fleet.Bundle, error) {
	if bundle.Spec.ValuesHash == "" || hasValues(bundle) {
		return bundle, nil
	}
	name := bundle.Namespace + "/" + bundle.Name
	secret, err := hub.Core.CoreV1().Secrets(bundle.Namespace).Get(ctx, bundle.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), err == nil && secret.Type != fleet.SecretTypeBundleValues:
		return nil, exit.Errorf(exit.Failed, "Secret %s of type %s with the values of the Bundle (spec.valuesHash) does not exist",
			name, fleet.SecretTypeBundleValues).With("to print Bundles with their values: fleet apply -o - BUNDLE_NAME PATH")
	case err != nil:
		return nil, access.Explain("reading Secret "+name+" with the values of the Bundle", err)
	}
	with, err := delivery.InjectValues(bundle, secret.Data)
	if err != nil {
		return nil, fmt.Errorf("reading Secret %s with the values of the Bundle: %w", name, err)
	}
	return with, nil
}

// hasValues reports whether the Bundle itself contains values.
func hasValues(bundle *fleet.Bundle) bool {
	set := func(options *fleet.BundleDeploymentOptions) bool {
		return options.Helm != nil && options.Helm.Values != nil
	}
	return set(&bundle.Spec.BundleDeploymentOptions) || slices.ContainsFunc(bundle.Spec.Targets, func(target fleet.BundleTarget) bool {
		return set(&target.BundleDeploymentOptions)
	})
}

// reachOf returns the workspaces in which the hub looks for clusters. It reads the namespaces only if a mapping selects
// the Bundle, because that needs a right for all of them.
func reachOf(ctx context.Context, hub *access.Cluster, bundle *fleet.Bundle) (targeting.Reach, error) {
	listed, err := access.All(ctx, hub.Mappings(bundle.Namespace), "BundleNamespaceMappings", bundle.Namespace)
	if err != nil {
		return targeting.Reach{}, err
	}
	var mappings []targeting.Mapping
	for _, mapping := range listed {
		if made := targeting.NewMapping(mapping); made.Takes(bundle) {
			mappings = append(mappings, made)
		}
	}
	if len(mappings) == 0 {
		return targeting.NewReach(bundle, nil, nil), nil
	}
	all, err := hub.Core.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	if err != nil {
		return targeting.Reach{}, access.Explain("listing Namespaces, because a BundleNamespaceMapping selects the Bundle", err)
	}
	namespaces := make([]*corev1.Namespace, len(all.Items))
	for i := range all.Items {
		namespaces[i] = &all.Items[i]
	}
	return targeting.NewReach(bundle, mappings, namespaces), nil
}
