package agent

import (
	"fmt"
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/fleet-hub/fleet/internal/cmd/cli/doctor/check"
	"github.com/fleet-hub/fleet/internal/cmd/cli/leases"
	"github.com/fleet-hub/fleet/internal/protocol/names"
)

// rightsChecks returns the checks of the agent's account, its rights and its Lease.
func rightsChecks() []check.Check[*Facts] {
	return []check.Check[*Facts]{
		{ID: "agent-account", Needs: sources(SourcePlace, SourceAccount), Judge: checkAccount},
		{ID: "agent-rights", Needs: sources(SourcePlace, SourceRights, SourceRole), Judge: checkRights},
		{ID: "agent-lease", Needs: sources(SourceDeployment, SourceLease, SourcePods), Judge: checkLease},
	}
}

// createAccount returns the command that creates the ServiceAccount as the chart does.
func (f *Facts) createAccount() string {
	return f.onCluster("kubectl", "create", "serviceaccount", "-n", f.Namespace, names.Agent) + f.adopt("serviceaccount", "-n", f.Namespace, names.Agent)
}

// adopt returns commands that make an object that was created by hand one of the agent's Helm release. Otherwise the next
// `helm upgrade` refuses it.
func (f *Facts) adopt(resource ...string) string {
	if f.Deployment == nil || f.Deployment.Annotations["meta.helm.sh/release-name"] != names.Agent {
		return ""
	}
	words := func(verb string, marks ...string) string {
		return " && " + f.onCluster("kubectl", slices.Concat([]string{verb}, resource, marks)...)
	}
	return words("annotate", "meta.helm.sh/release-name="+names.Agent, "meta.helm.sh/release-namespace="+f.Namespace) +
		words("label", "app.kubernetes.io/managed-by=Helm")
}

func checkAccount(f *Facts) []check.Row {
	if f.Place == nil || f.HasAccount {
		return nil
	}
	fix := f.createAccount()
	if f.Deployment == nil {
		fix = f.repair()
	} else if len(f.Pods) > 0 {
		fix += " && " + f.restart() // tokens are bound to the UID of the account
	}
	return []check.Row{check.Fail(check.Object{Kind: "ServiceAccount", Namespace: f.Namespace, Name: names.Agent}, "the ServiceAccount does not exist: the agent's pods cannot work", fix)}
}

func checkRights(f *Facts) []check.Row {
	if f.Place == nil || f.HasRights || !f.HasAccount && f.Deployment == nil {
		return nil
	}
	account := fmt.Sprintf("system:serviceaccount:%s:%s", f.Namespace, names.Agent)
	role := check.Object{Kind: "ClusterRole", Group: rbacv1.GroupName, Name: f.Role}
	binding := check.Object{Kind: "ClusterRoleBinding", Group: rbacv1.GroupName, Name: f.Binding}
	bind := f.onCluster("kubectl", "create", "clusterrolebinding", f.Binding, "--clusterrole="+f.Role, "--serviceaccount="+f.Namespace+":"+names.Agent) +
		f.adopt("clusterrolebinding", f.Binding)
	create := f.onCluster("kubectl", "create", "clusterrole", f.Role, "--verb=*", "--resource=*.*", "--non-resource-url=*") + f.adopt("clusterrole", f.Role)
	switch {
	case !f.HasRole && !f.HasBinding:
		return []check.Row{check.Fail(role, fmt.Sprintf("%s lacks the rights of a cluster administrator, because the ClusterRole and its binding do not exist", account), create+" && "+bind)}
	case !f.HasRole:
		return []check.Row{check.Fail(role, fmt.Sprintf("%s lacks the rights of a cluster administrator, because the ClusterRole does not exist", account), create)}
	case !f.HasBinding:
		return []check.Row{check.Fail(binding, fmt.Sprintf("%s lacks the rights of a cluster administrator, because the ClusterRoleBinding does not exist", account), bind)}
	}
	replace := f.onCluster("kubectl", "delete", "clusterrolebinding", f.Binding) + " && " + f.onCluster("kubectl", "delete", "clusterrole", f.Role) + " && " + create + " && " + bind
	return []check.Row{check.Fail(role, fmt.Sprintf("%s lacks the rights of a cluster administrator: the ClusterRole or its binding was changed", account), replace)}
}

func checkLease(f *Facts) []check.Row {
	target := check.Object{Kind: "Lease", Group: coordinationv1.GroupName, Namespace: f.Namespace, Name: names.Agent}
	if f.Deployment == nil || f.Deployment.Status.ReadyReplicas == 0 {
		return nil // check agent-deployment reports it
	}
	if f.Lease == nil {
		return []check.Row{check.Fail(target, "the Lease does not exist although the agent runs: it cannot write it, or has just started", f.logs())}
	}
	lease := leases.Of(f.Lease, f.Now.Add(f.Clock.Offset))
	since := "an unknown time"
	if lease.Renewed != nil {
		since = duration.HumanDuration(max(f.Now.Add(f.Clock.Offset).Sub(lease.Renewed.Time), 0))
	}
	switch {
	case !lease.Active && lease.Holder == "":
		return []check.Row{check.Fail(target, "no pod holds the Lease: no agent works", f.restart())}
	case !lease.Active:
		return []check.Row{check.Fail(target, fmt.Sprintf("%s has not renewed the Lease for %s: no agent works", lease.Holder, since), f.restart())}
	case !f.isHolder(lease.Holder):
		return []check.Row{check.Warn(target, fmt.Sprintf("%s renews the Lease and is not a pod of the Deployment: another agent works in this namespace, or the pod has just ended", lease.Holder),
			f.onCluster("kubectl", "get", "pods", "-n", f.Namespace, "-o", "wide"))}
	}
	return []check.Row{check.Ok(target, fmt.Sprintf("%s, renewed %s ago", lease.Holder, since))}
}

// isHolder reports whether a holder of the Lease is one of the agent's pods. The agent adds a random part to the name of its
// pod. A pod with hostNetwork has the name of its node.
func (f *Facts) isHolder(holder string) bool {
	is := func(name string) bool { return name != "" && (holder == name || strings.HasPrefix(holder, name+"_")) }
	for _, pod := range f.Pods {
		if is(pod.Name) || is(pod.Spec.Hostname) || pod.Spec.HostNetwork && is(pod.Spec.NodeName) {
			return true
		}
	}
	return false
}
