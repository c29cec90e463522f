package agent

import (
	"fmt"
	"time"

	"helm.sh/helm/v3/pkg/release"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/fleet-hub/fleet/internal/cmd/cli/doctor/check"
	"github.com/fleet-hub/fleet/internal/cmd/cli/remedy"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// pendingPatience is how long an operation of Helm may take.
const pendingPatience = 10 * time.Minute

// releaseChecks returns the checks of the Helm releases of the agent and of Bundles.
func releaseChecks() []check.Check[*Facts] {
	needs := sources(SourceReleases)
	return []check.Check[*Facts]{
		{ID: "agent-releases-pending", Needs: needs, Judge: checkPending},
		{ID: "agent-releases-failed", Needs: needs, Judge: checkFailed},
	}
}

func (r Release) object() check.Object {
	return check.Object{Kind: "Secret", Namespace: r.Namespace, Name: r.Secret}
}

// isOwn reports whether a release is the agent's.
func (f *Facts) isOwn(r Release) bool { return r.Namespace == f.Namespace && r.Name == names.Agent }

func checkPending(f *Facts) (rows []check.Row) {
	for _, r := range f.Releases {
		status, age := release.Status(r.Status), f.Now.Sub(r.Since)
		if !status.IsPending() && status != release.StatusUninstalling || age < pendingPatience {
			continue
		}
		cause := fmt.Sprintf("revision %d of Helm release %s/%s is %s for %s", r.Revision, r.Namespace, r.Name, r.Status, duration.HumanDuration(age))
		if f.isOwn(r) {
			rows = check.Group(rows, "own", check.Fail(r.object(), cause+": helm upgrade of the agent is refused",
				f.onCluster("kubectl", "delete", "secret", "-n", r.Namespace, remedy.NameOr(r.Secret, "NAME"))))
			continue
		}
		rows = check.Group(rows, "bundle", check.Fail(r.object(), cause+": the Bundle is not updated", f.restart()))
	}
	return rows
}

func checkFailed(f *Facts) (rows []check.Row) {
	for _, r := range f.Releases {
		if release.Status(r.Status) != release.StatusFailed {
			continue
		}
		cause := fmt.Sprintf("revision %d of Helm release %s/%s has failed", r.Revision, r.Namespace, r.Name)
		if f.isOwn(r) {
			rows = check.Group(rows, "own", check.Warn(r.object(), cause+": the agent may be incomplete", f.repair()))
			continue
		}
		rows = check.Group(rows, "bundle", check.Warn(r.object(), cause, f.onHub("kubectl", "describe", "bundledeployments."+fleet.GroupName, "-n", remedy.NameOr(f.Credential.ClusterNamespace, "NAMESPACE"))))
	}
	return rows
}
