package target

import (
	"errors"
	"fmt"
	"slices"

	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
	"github.com/fleet-hub/fleet/internal/rules/content"
	"github.com/fleet-hub/fleet/internal/rules/delivery"
	"github.com/fleet-hub/fleet/internal/rules/rollout"
	"github.com/fleet-hub/fleet/internal/rules/selection"
	"github.com/fleet-hub/fleet/internal/rules/targeting"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// maxFailures is the maximum number of failures that an error lists.
const maxFailures = 10

// result is what to print.
type result struct {
	// objects are the Content and the BundleDeployments, inputs the matched Clusters and ClusterGroups.
	objects, inputs []any
	warnings        []string
}

// decide returns what the hub would deploy if the rollout had no limits. The error lists the clusters for which that
// cannot be computed; the result has the others.
func decide(in selection.Input) (result, error) {
	selected := selection.Decide(in)
	outcome := selected.Outcome
	if outcome.Failure != "" {
		return result{}, errors.New(outcome.Failure)
	}
	out := result{objects: []any{content.Object(content.Manifest{Resources: in.Bundle.Spec.Resources})}}
	for _, warning := range []string{outcome.Blocked, outcome.Unknown, outcome.Absent, outcome.Refused} {
		if warning != "" {
			out.warnings = append(out.warnings, warning)
		}
	}
	if len(selected.Targets) == 0 {
		out.warnings = append(out.warnings, fmt.Sprintf("Bundle %s/%s has no target among %d Clusters", in.Bundle.Namespace, in.Bundle.Name, len(in.Clusters)))
	}
	out.inputs = inputs(selected.Targets, in.Groups, in.Reach.Namespaces)
	var failures []error
	for _, target := range selected.Targets {
		if target.Cluster.Status.Namespace == "" {
			out.warnings = append(out.warnings, fmt.Sprintf("Cluster %s/%s has no namespace yet (status.namespace), so that nothing is deployed there now",
				target.Cluster.Namespace, target.Cluster.Name))
			continue
		}
		deployment, err := deploymentOf(in.Bundle, target)
		if err != nil {
			failures = append(failures, errors.New(selection.TargetingError+err.Error()))
			continue
		}
		out.objects = append(out.objects, deployment)
	}
	return out, joined(failures)
}

// joined returns an error that lists the first failures, or nil.
func joined(failures []error) error {
	if len(failures) == 0 {
		return nil
	}
	problems := failures[:min(len(failures), maxFailures)]
	if more := len(failures) - len(problems); more > 0 {
		problems = append(slices.Clip(problems), fmt.Errorf("and %d more clusters", more))
	}
	return &exit.Error{Code: exit.Failed, Problems: problems}
}

// deploymentOf returns the BundleDeployment of a target as the hub would create it, with the values in it and without
// what only matters on the hub.
func deploymentOf(bundle *fleet.Bundle, target targeting.Target) (*fleet.BundleDeployment, error) {
	target, err := target.Complete()
	if err != nil {
		return nil, err
	}
	made, err := delivery.Decide(delivery.Input{Bundle: bundle, Target: target, Action: rollout.Promote})
	if err == nil {
		err = made.Values.Check()
	}
	if err != nil {
		return nil, fmt.Errorf("cluster %s in namespace %s: %w", target.Cluster.Name, target.Cluster.Namespace, err)
	}
	deployment := made.Deployment
	deployment.Finalizers, deployment.Annotations = nil, nil
	delete(deployment.Labels, fleet.LabelContentName)
	deployment.Spec.Options, deployment.Spec.StagedOptions, deployment.Spec.ValuesHash = target.Options, *target.Options.DeepCopy(), ""
	return deployment, nil
}

// inputs returns the Clusters of the targets and the ClusterGroups that they are in.
func inputs(targets []targeting.Target, groups targeting.Groups, workspaces []string) (out []any) {
	matched := map[*fleet.ClusterGroup]bool{}
	for _, target := range targets {
		cluster := target.Cluster.DeepCopy()
		cluster.APIVersion, cluster.Kind, cluster.ManagedFields = fleet.SchemeGroupVersion.String(), "Cluster", nil
		out = append(out, cluster)
		for _, group := range groups.Of(target.Cluster) {
			matched[group] = true
		}
	}
	for _, group := range groups.In(workspaces...) {
		if matched[group] {
			group = group.DeepCopy()
			group.APIVersion, group.Kind, group.ManagedFields = fleet.SchemeGroupVersion.String(), "ClusterGroup", nil
			out = append(out, group)
		}
	}
	return out
}
