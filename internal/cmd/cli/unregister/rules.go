package unregister

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
	"github.com/fleet-hub/fleet/internal/cmd/cli/output"
	"github.com/fleet-hub/fleet/internal/cmd/cli/remedy"
	"github.com/fleet-hub/fleet/internal/cut"
	"github.com/fleet-hub/fleet/internal/kube/foreign"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/capi"
	"github.com/fleet-hub/fleet/internal/rules/clusters"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// maxNamed is how many workloads are named.
const maxNamed = 10

// decide returns why nothing can be deleted, or nil.
func decide(f hubFound, c clusterFound) error {
	switch {
	case f.cluster != nil && clusters.IsLocal(f.cluster, f.config.Bootstrap):
		return exit.Errorf(exit.Refused, "Cluster %s is the hub's own, and the hub would create it again", f.fullName()).With(
			"to remove only its agent: helm upgrade -n cattle-fleet-system fleet charts/fleet --reset-then-reuse-values --set bootstrap.localAgentDisabled=true",
			"to remove the hub: docs/uninstall.md#the-hub")
	case f.cluster != nil && clusters.ManagedElsewhere(f.cluster):
		return exit.Errorf(exit.Refused, "another manager owns Cluster %s: delete it there", f.fullName()).Because(conditions.ReasonClusterManagedElsewhere).
			With("if it is to be deleted here: " + remedy.Command("kubectl", "label", "clusters.fleet.cattle.io", "-n", f.workspace, f.name, fleet.LabelClusterManagement+"-"))
	case createdAgain(f):
		return exit.Errorf(exit.Refused, "the hub has created Cluster %s for the clusters.%s of the same name, and would create it again", f.fullName(), capi.Group).With(
			"exclude it first with capi.clusterSelector or capi.namespaceSelector of the chart fleet (docs/capi.md#turn-it-on), and run the command again",
			"to delete the cluster with its machines: "+remedy.Command("kubectl", "delete", "clusters."+capi.Group, "-n", f.workspace, f.name))
	}
	if problem := c.problem(f); problem != nil {
		return problem
	}
	if f.gone() && c.gone() {
		return exit.Errorf(exit.Failed, "Cluster %s does not exist", f.fullName()).With("fleet clusters -A")
	}
	return nil
}

// createdAgain reports whether the hub follows a Cluster of Cluster API, so that it would create this Cluster again. One that is
// not selected, paused or moved has annotation CAPIKept. One that does not exist is not followed.
func createdAgain(f hubFound) bool {
	return f.config.CAPI.Enabled && capi.IsMarked(f.cluster) && f.cluster.DeletionTimestamp == nil && f.cluster.Annotations[annotation.CAPIKept] == "" && !f.capiGone
}

// checkWorkloads returns why nothing is deleted although it could be, or nil: the Cluster has workloads that are not to be kept, or
// the user may not see them.
func checkWorkloads(f hubFound, c clusterFound, keepWorkloads bool) error {
	if len(f.workloads) == 0 && !f.hidden || keepWorkloads || f.cluster.DeletionTimestamp != nil {
		return nil
	}
	keep := []string{"fleet", "unregister", f.name, "-n", f.workspace, "--keep-workloads"}
	if c.context != "" {
		keep = append(keep, "--cluster-context", c.context)
	}
	if c.keepAgent {
		keep = append(keep, "--keep-agent")
	}
	leave := "to leave them on the cluster: " + remedy.Command(keep...)
	if f.hidden {
		return exit.Errorf(exit.Refused, "you may not see the workloads of Cluster %s (BundleDeployments of namespace %s)", f.fullName(), clusters.NamespaceOf(f.cluster)).
			With(leave, "otherwise ask a user who may list them to run the command")
	}
	return exit.Errorf(exit.Refused, "Cluster %s has %s: %s", f.fullName(), output.Count(len(f.workloads), "workload"), cut.Names(f.workloads, maxNamed)).With(
		"to uninstall them, let these Bundles no longer target the cluster, and wait until this prints none: "+
			remedy.Command("kubectl", "get", "bundledeployments.fleet.cattle.io", "-n", clusters.NamespaceOf(f.cluster),
				"-l", fleet.LabelBundleName+"!="+names.AgentBundle(f.name)),
		leave)
}

// removeAgent returns the commands that remove the agent later.
func removeAgent(f hubFound) []string {
	return []string{
		remedy.Command("fleet", "unregister", f.name, "-n", f.workspace, "--cluster-context", "CONTEXT"),
		"without access to the hub: docs/uninstall.md#an-agent",
	}
}

// agent is an agent on the cluster.
type agent struct {
	namespace string
	// marked means that an earlier run has begun to remove it for this Cluster. markedAs is the hash of the account that the
	// agent had, or empty.
	marked   bool
	markedAs string
	// identity is that of Secret fleet-agent, or nil. server and account are the address of its hub and the UID of its
	// account there.
	identity        *protocol.Identity
	server, account string
	// bootstrap is that of Secret fleet-agent-bootstrap, or nil.
	bootstrap *protocol.Bootstrap
	// hubUID is the UID of the hub that has installed the agent, or empty.
	hubUID types.UID
	// clientID is the client ID of the agent.
	clientID string
	// release means that it is a Helm release.
	release bool
	// objects are those that exist.
	objects []ref
	// keeps is why its namespace is not deleted with it, or empty.
	keeps string
}

// target is the Cluster whose agent is to be removed.
type target struct {
	workspace, name string
	// clientID is empty if the Cluster no longer exists.
	clientID string
	// hubUID identifies the hub. urls are its addresses, and accounts the UIDs of the accounts of the cluster.
	hubUID   types.UID
	urls     []string
	accounts []string
}

// whose describes the Cluster of an agent. It is empty if that is the target.
func whose(a agent, t target) string {
	switch {
	case a.hubUID != "" && a.hubUID != t.hubUID:
		return "the agent of another hub"
	case a.identity != nil:
		return whoseIdentity(a, t)
	case a.marked:
		return whoseMark(a, t)
	case t.clientID != "" && a.clientID == t.clientID:
		return ""
	case a.bootstrap != nil && a.bootstrap.ClusterNamespace == t.workspace && a.bootstrap.TokenName == names.ImportToken(t.name) && a.hubUID == t.hubUID:
		return ""
	}
	return "an agent that has not registered as this Cluster"
}

// whoseMark is whose for an agent that an earlier run has marked, and that has no identity. It may have been replaced by an agent
// that registers at another hub.
func whoseMark(a agent, t target) string {
	if a.bootstrap == nil || t.isAt(a.bootstrap.APIServerURL, a.bootstrap.ClusterNamespace) {
		return ""
	}
	return "an agent that registers at another hub, " + short(a.bootstrap.APIServerURL)
}

// whoseIdentity is whose for an agent with an identity. Another hub may have a Cluster with the same name, so the name alone
// proves nothing.
func whoseIdentity(a agent, t target) string {
	if a.marked && a.markedAs != "" && a.markedAs == accountHash(a.account) {
		return ""
	}
	name := a.identity.ClusterNamespace + "/" + a.identity.ClusterName
	if name != t.workspace+"/"+t.name {
		return "the agent of Cluster " + short(name)
	}
	if a.hubUID != "" || t.clientID != "" && a.clientID == t.clientID {
		return ""
	}
	if slices.Contains(t.accounts, a.account) || t.isAt(a.server, t.workspace) {
		return ""
	}
	return "the agent of a Cluster with the same name of another hub, " + short(a.server)
}

// isAt reports whether an address is one of the hub, and a workspace that of the Cluster.
func (t target) isAt(server, workspace string) bool {
	return workspace == t.workspace && slices.ContainsFunc(t.urls, func(url string) bool {
		return url != "" && strings.TrimSuffix(url, "/") == strings.TrimSuffix(server, "/")
	})
}

// short returns a text of the cluster in one line and bounded.
func short(text string) string { return foreign.Excerpt(text, 300) }

// accountHash returns a short hash of the UID of an agent's account, or an empty text for an agent without one.
func accountHash(account string) string {
	if account == "" {
		return ""
	}
	return names.SetHash("unregister account/"+account, names.Owner{})[:16]
}

// clusterFound is what the cluster of --cluster-context has. The zero value means that there is no such cluster.
type clusterFound struct {
	context string
	// keepAgent means that the agents stay on the cluster.
	keepAgent bool
	// isHub means that it is the hub's own cluster.
	isHub bool
	// agents are those of this Cluster. foreign describes the others.
	agents  []agent
	foreign []string
	account []part
	// mark is the value of the label on the namespace of an agent that is being removed.
	mark string
}

// gone reports whether the cluster has nothing of this Cluster.
func (c clusterFound) gone() bool { return len(c.agents) == 0 && len(c.account) == 0 }

// problem returns why the cluster is not that of the Cluster, or nil.
func (c clusterFound) problem(f hubFound) error {
	switch {
	case c.isHub:
		return exit.Errorf(exit.Refused, "context %s points to the hub's own cluster", c.context).Because(conditions.ReasonTargetIsHub).
			With("select the cluster with --cluster-context: kubectl config get-contexts")
	case len(c.agents) > 0 || len(c.foreign) == 0:
		return nil
	}
	failure := &exit.Error{Code: exit.Refused}
	for _, other := range c.foreign {
		failure.Problems = append(failure.Problems, fmt.Errorf("context %s does not point to the cluster of Cluster %s: %s", c.context, f.fullName(), output.Line(other)))
	}
	return failure.With("select the cluster with --cluster-context: kubectl config get-contexts",
		"to delete only the Cluster on the hub: "+remedy.Command("fleet", "unregister", f.name, "-n", f.workspace))
}
