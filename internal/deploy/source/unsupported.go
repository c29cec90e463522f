package source

import fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"

// Unsupported returns the feature of a BundleDeployment that this agent does not support, "" if it supports all.
func Unsupported(bd *fleet.BundleDeployment) string {
	switch {
	case bd.Spec.HelmChartOptions != nil:
		return "charts that the agent has to download (HelmOps) are not supported by this agent"
	case bd.Spec.OCIContents:
		return "contents in an OCI registry are not supported by this agent"
	}
	return ""
}
