package hub

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/cli/clusters"
	"github.com/fleet-hub/fleet/internal/cmd/cli/doctor/check"
	"github.com/fleet-hub/fleet/internal/cmd/cli/remedy"
	"github.com/fleet-hub/fleet/internal/cut"
	clusterrules "github.com/fleet-hub/fleet/internal/rules/clusters"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

const (
	// waitingPatience is how long a Cluster may wait for its first heartbeat.
	waitingPatience = time.Hour
	// deletingPatience is how long the deletion of an object may take.
	deletingPatience = 10 * time.Minute
)

// clusterChecks returns the checks of Clusters and ClusterGroups.
func clusterChecks() []check.Check[*Facts] {
	return []check.Check[*Facts]{
		{ID: "hub-clusters-conditions", Needs: sources(SourceClusters), Judge: checkConditions},
		{ID: "hub-clusters-silent", Needs: sources(SourceClusters), Judge: checkSilent},
		{ID: "hub-clusters-waiting", Needs: sources(SourceClusters), Judge: checkWaiting},
		{ID: "hub-clusters-deleting", Needs: sources(SourceClusters), Judge: checkDeleting},
		{ID: "hub-client-ids", Needs: sources(SourceClusters), Judge: checkClientIDs},
		{ID: "hub-cluster-namespaces", Needs: sources(SourceClusters, SourceNamespaces), Judge: checkNamespaces},
		{ID: "hub-agent-versions", Needs: sources(SourceClusters, SourceConfig), Judge: checkAgentVersions},
		{ID: "hub-clustergroups", Needs: sources(SourceClusters, SourceGroups), Judge: checkGroups},
	}
}

// coveredReasons returns the reasons of Clusters that have a check of their own.
func coveredReasons() []string {
	return append([]string{conditions.ReasonAgentNotReporting, conditions.ReasonClientIDAmbiguous, conditions.ReasonKubeconfigMissing, conditions.ReasonKubeconfigExpired}, refusedReasons()...)
}

func checkConditions(f *Facts) (rows []check.Row) {
	for _, cluster := range f.Clusters {
		seen := map[string]bool{}
		for _, condition := range cluster.Status.Conditions {
			if !conditions.IsTrouble(condition) || seen[condition.Reason] || slices.Contains(coveredReasons(), condition.Reason) {
				continue
			}
			seen[condition.Reason] = true
			rows = check.Group(rows, condition.Reason, check.ClusterCondition(cluster, condition))
		}
	}
	return rows
}

func checkSilent(f *Facts) (rows []check.Row) {
	for _, cluster := range f.Clusters {
		summary := clusters.Summarize(cluster)
		if summary.State != clusters.Silent {
			continue
		}
		cause := "the agent was deployed and has never reported"
		if seen := cluster.Status.Agent.LastSeen; !seen.IsZero() {
			cause = "the agent has not reported since " + seen.UTC().Format(time.RFC3339)
		}
		rows = check.Group(rows, summary.Reason, check.Fail(check.OfFleet("Cluster", cluster), cause, remedy.OfCluster(cluster, conditions.ReasonAgentNotReporting)))
	}
	return rows
}

func checkWaiting(f *Facts) (rows []check.Row) {
	for _, cluster := range f.Clusters {
		if clusters.Summarize(cluster).State != clusters.Waiting || !f.older(cluster, waitingPatience) || clusterrules.ManagedElsewhere(cluster) {
			continue
		}
		if cluster.Spec.KubeConfigSecret != "" {
			rows = check.Group(rows, "imported", check.Warn(check.OfFleet("Cluster", cluster), "the hub has not installed the agent yet", remedy.Describe("clusters", cluster.Namespace, cluster.Name)))
			continue
		}
		rows = check.Group(rows, "", check.Warn(check.OfFleet("Cluster", cluster), "no agent has joined since the Cluster was created", remedy.Join(cluster, f.Tokens)))
	}
	return rows
}

func checkDeleting(f *Facts) (rows []check.Row) {
	for _, cluster := range f.Clusters {
		if at := cluster.DeletionTimestamp; at != nil && f.Now.Sub(at.Time) > deletingPatience {
			rows = check.Group(rows, "", check.Fail(check.OfFleet("Cluster", cluster), fmt.Sprintf("the Cluster was deleted at %s, but finalizers remain: %s",
				at.UTC().Format(time.RFC3339), cut.Names(cluster.Finalizers, maxNamed)), remedy.Describe("clusters", cluster.Namespace, cluster.Name)))
		}
	}
	return rows
}

func checkClientIDs(f *Facts) (rows []check.Row) {
	type key struct{ workspace, id string }
	sharing := map[key][]*fleet.Cluster{}
	for _, cluster := range f.Clusters {
		if id := cluster.Spec.ClientID; id != "" && cluster.DeletionTimestamp == nil {
			sharing[key{cluster.Namespace, id}] = append(sharing[key{cluster.Namespace, id}], cluster)
		}
	}
	for _, cluster := range f.Clusters { // not the map, whose order is random
		all := sharing[key{cluster.Namespace, cluster.Spec.ClientID}]
		first := clusterrules.FirstOf(all)
		if len(all) < 2 || cluster == first || cluster.DeletionTimestamp != nil {
			continue
		}
		// The UID is a client ID that no other Cluster has.
		fix := remedy.Patch("clusters", cluster, map[string]any{"spec": map[string]any{"clientID": cluster.UID}})
		rows = check.Group(rows, first.Namespace+"/"+first.Name, check.Fail(check.OfFleet("Cluster", cluster), fmt.Sprintf(
			"the Cluster has the same client ID as Cluster %s/%s, which is older: agents with this client ID belong to the older one", first.Namespace, first.Name), fix))
	}
	return rows
}

func checkNamespaces(f *Facts) (rows []check.Row) {
	found := map[string]*metav1.PartialObjectMetadata{}
	for _, namespace := range f.Namespaces {
		found[namespace.Name] = namespace
	}
	for _, cluster := range f.Clusters {
		name := clusterrules.NamespaceOf(cluster)
		namespace := found[name]
		if cluster.DeletionTimestamp != nil || clusterrules.ManagedElsewhere(cluster) {
			continue
		}
		switch {
		case namespace == nil && f.older(cluster, check.CreationPatience):
			rows = check.Group(rows, "missing", check.Fail(check.OfFleet("Cluster", cluster), fmt.Sprintf("the Cluster's namespace %s does not exist: nothing is deployed there", name),
				remedy.Command("kubectl", "logs", "-n", f.System, "deployment/fleet-controller")))
		case namespace != nil && namespace.DeletionTimestamp != nil && f.Now.Sub(namespace.DeletionTimestamp.Time) > check.CreationPatience:
			rows = check.Group(rows, "deleting", check.Fail(check.OfFleet("Cluster", cluster), fmt.Sprintf("the Cluster's namespace %s is being deleted: look for objects with finalizers in it", name),
				remedy.Command("kubectl", "describe", "namespace", name)))
		}
	}
	return rows
}

func checkAgentVersions(f *Facts) (rows []check.Row) {
	for _, cluster := range f.Clusters {
		for _, row := range check.OldAgent(cluster, f.Config.Version, f.Config.Config, remedy.Target{Context: cluster.Name}) {
			rows = check.Group(rows, cluster.Status.Agent.AgentVersion, row)
		}
	}
	return rows
}

func checkGroups(f *Facts) (rows []check.Row) {
	for _, group := range f.Groups {
		target := check.OfFleet("ClusterGroup", group)
		selector, err := metav1.LabelSelectorAsSelector(group.Spec.Selector)
		switch {
		case err != nil:
			rows = check.Group(rows, "invalid", check.Fail(target, fmt.Sprintf("the selector is invalid: %v", err),
				remedy.Command("kubectl", "edit", "clustergroups.fleet.cattle.io", "-n", group.Namespace, group.Name)))
		case !f.selects(selector, group.Namespace):
			rows = check.Group(rows, "empty", check.Warn(target, "the ClusterGroup selects no Cluster: "+orNone(selector), labelCommand(group)))
		}
	}
	return rows
}

func orNone(selector labels.Selector) string {
	if selector.Empty() {
		return "there is no Cluster in its workspace"
	}
	return "no Cluster matches " + cmp.Or(selector.String(), "an empty selector")
}

// labelCommand returns the command that adds a Cluster to a group. Its reader chooses the Cluster.
func labelCommand(group *fleet.ClusterGroup) string {
	words := []string{"kubectl", "label", "clusters.fleet.cattle.io", "-n", group.Namespace, "CLUSTER"}
	if group.Spec.Selector == nil || len(group.Spec.Selector.MatchLabels) == 0 {
		return remedy.Command("kubectl", "get", "clusters.fleet.cattle.io", "-n", group.Namespace, "--show-labels")
	}
	for _, key := range slices.Sorted(maps.Keys(group.Spec.Selector.MatchLabels)) {
		words = append(words, key+"="+group.Spec.Selector.MatchLabels[key])
	}
	return remedy.Command(words...)
}

func (f *Facts) selects(selector labels.Selector, namespace string) bool {
	return slices.ContainsFunc(f.Clusters, func(c *fleet.Cluster) bool {
		return c.Namespace == namespace && selector.Matches(labels.Set(c.Labels))
	})
}

// namesOf returns the names of objects as a set.
func namesOf[T metav1.Object](objects []T) map[types.NamespacedName]bool {
	known := map[types.NamespacedName]bool{}
	for _, object := range objects {
		known[types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}] = true
	}
	return known
}
