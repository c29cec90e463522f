package deploy

import (
	"time"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// repairPause is how long the agent leaves its own objects alone after it found that they are not as deployed:
// whoever is at them may not be done.
const repairPause = 5 * time.Second

// repairOwn has the agent's own deployment made again when anything of it is not as deployed. Of
// other bundles that is only reported; but an agent lives on its own, and nobody else could bring it back.
func (d *deployer) repairOwn(bd *fleet.BundleDeployment, status *fleet.BundleDeploymentStatus) {
	if !isAgent(bd.Name) || len(status.ModifiedStatus) == 0 || status.AppliedDeploymentID != bd.Spec.DeploymentID || failedForGood(status) {
		return
	}
	status.AppliedDeploymentID = "" // which says on the hub, too, that it is not in place
	d.log.Info("the agent's own objects are not as deployed and will be deployed again", "bundledeployment", d.Namespace+"/"+bd.Name,
		"object", status.ModifiedStatus[0].Kind+" "+status.ModifiedStatus[0].Name)
	d.queue.AddAfter(bd.Name, repairPause)
}
