package hub

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/fleet-hub/fleet/internal/cmd/cli/doctor/check"
	"github.com/fleet-hub/fleet/internal/cmd/cli/remedy"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/rules/capi"
	clusterrules "github.com/fleet-hub/fleet/internal/rules/clusters"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// kubeconfigChecks returns the checks of kubeconfigs.
func kubeconfigChecks() []check.Check[*Facts] {
	return []check.Check[*Facts]{
		{ID: "hub-kubeconfigs-exist", Needs: sources(SourceClusters, SourceKubeconfigs), Judge: checkKubeconfigsExist},
		{ID: "hub-kubeconfigs-valid", Needs: sources(SourceConfig, SourceClusters, SourceKubeconfigs), Judge: checkKubeconfigsValid},
		{ID: "hub-kubeconfigs-expiry", Needs: sources(SourceClusters, SourceKubeconfigs), Judge: checkKubeconfigsExpiry},
		{ID: "hub-kubeconfigs-accepted", Needs: sources(SourceClusters), Judge: checkKubeconfigsAccepted},
	}
}

// Imported returns the Clusters whose agents the hub installs.
func (f *Facts) Imported() []*fleet.Cluster {
	return slices.DeleteFunc(slices.Clone(f.Clusters), func(c *fleet.Cluster) bool {
		return c.Spec.KubeConfigSecret == "" || c.DeletionTimestamp != nil
	})
}

func checkKubeconfigsExist(f *Facts) (rows []check.Row) {
	for _, cluster := range f.Imported() {
		if !f.Kubeconfigs[cluster].Exists {
			rows = check.Group(rows, "", check.Fail(check.OfFleet("Cluster", cluster), fmt.Sprintf("Secret %s, or its key %q, does not exist", clusterrules.KubeconfigSecret(cluster), protocol.KubeconfigValueKey),
				remedy.OfCluster(cluster, conditions.ReasonKubeconfigMissing)))
		}
	}
	return rows
}

// checkKubeconfigsValid finds kubeconfigs that the hub refuses. The configuration says which addresses it allows, so without one,
// as after an uninstallation of the chart, none is judged.
func checkKubeconfigsValid(f *Facts) (rows []check.Row) {
	if !f.Config.Exists {
		return nil
	}
	for _, cluster := range f.Imported() {
		if err := f.Kubeconfigs[cluster].Err; err != nil {
			rows = check.Group(rows, err.Error(), check.Fail(check.OfFleet("Cluster", cluster), fmt.Sprintf("Secret %s: %v", clusterrules.KubeconfigSecret(cluster), err), check.KubeconfigFix(cluster, err)))
		}
	}
	return rows
}

func checkKubeconfigsExpiry(f *Facts) (rows []check.Row) {
	for _, cluster := range f.Imported() {
		expires := f.Kubeconfigs[cluster].Expires
		left := expires.Sub(f.Now)
		fix := remedy.OfCluster(cluster, conditions.ReasonKubeconfigExpired)
		switch {
		case expires.IsZero():
		case left <= 0:
			rows = check.Group(rows, "expired", check.Fail(check.OfFleet("Cluster", cluster), fmt.Sprintf("the credential in Secret %s expired on %s",
				clusterrules.KubeconfigSecret(cluster), expires.UTC().Format(time.DateOnly)), fix))
		case left < check.CredentialWarning && !capi.HasProvidersKubeconfig(cluster): // condition FollowsClusterAPI warns of that one
			rows = check.Group(rows, "soon", check.Warn(check.OfFleet("Cluster", cluster), fmt.Sprintf("the credential in Secret %s expires in %s", clusterrules.KubeconfigSecret(cluster), duration.HumanDuration(left)), fix))
		}
	}
	return rows
}

// refusedReasons returns the reasons for which a kubeconfig is refused, by the hub or by the cluster.
func refusedReasons() []string {
	return []string{
		conditions.ReasonKubeconfigInvalid, conditions.ReasonKubeconfigRefused, conditions.ReasonKubeconfigNamespaceRefused, conditions.ReasonDownstreamAnswerRefused,
		conditions.ReasonDownstreamCertificateExpired, conditions.ReasonDownstreamUnreachable, conditions.ReasonDownstreamUnauthorized, conditions.ReasonDownstreamForbidden,
		conditions.ReasonTLSUntrusted, conditions.ReasonTargetIsHub,
	}
}

func checkKubeconfigsAccepted(f *Facts) (rows []check.Row) {
	for _, cluster := range f.Imported() {
		condition := conditions.Get(cluster.Status.Conditions, conditions.Imported)
		if condition == nil || !conditions.IsTrouble(*condition) || !slices.Contains(refusedReasons(), condition.Reason) {
			continue
		}
		cause := condition.Reason + ": " + condition.Message
		fix := cmp.Or(remedy.OfCluster(cluster, condition.Reason), remedy.OfCluster(cluster, conditions.ReasonKubeconfigRefused))
		if condition.Reason == conditions.ReasonKubeconfigNamespaceRefused && fix != "" {
			cause = fmt.Sprintf("%s: run the fix only if workspace %s may control the cluster of this kubeconfig. %s", condition.Reason, cluster.Namespace, condition.Message)
			if allowed := f.Kubeconfigs[cluster].Allowed; allowed != "" {
				fix = strings.TrimSuffix(fix, remedy.Quote(annotation.AllowedWorkspaces+"="+cluster.Namespace)) +
					"--overwrite " + remedy.Quote(annotation.AllowedWorkspaces+"="+allowed+","+cluster.Namespace)
			}
		}
		rows = check.Group(rows, condition.Reason, check.Fail(check.OfFleet("Cluster", cluster), cause, fix))
	}
	return rows
}
