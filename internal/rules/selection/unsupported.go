package selection

import (
	"errors"
	"slices"

	"github.com/fleet-hub/fleet/internal/rules/targeting"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Errors that prevent a Bundle from being deployed anywhere, independent of its targets.
var (
	errOCIStorage = errors.New("contentsId: resources in an OCI registry are not supported; put them into spec.resources")
	errHelmOp     = errors.New("helmOpOptions: charts fetched by the agents are not supported; put the chart into spec.resources")
	errLimited    = errors.New("a GitRepoRestriction has limited where this Bundle may be deployed, but GitRepoRestrictions are not supported here: put the allowedTargetNamespaceSelector of its BundleDeployments into its spec, or remove its label " + fleet.LabelRepoName + " to deploy it without a limit")
)

// Unsupported returns why a Bundle that Rancher Fleet would deploy is not deployed here. A namespace limit that only
// the existing BundleDeployments have, and not the spec, would be lost with the next change.
func Unsupported(bundle *fleet.Bundle, existing []*fleet.BundleDeployment) error {
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
