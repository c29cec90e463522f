package metrics

import (
	"cmp"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/rules/state"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// kind describes the series of each object of a kind: one for each value, and one for each state.
type kind[T metav1.Object] struct {
	// prefix is the prefix of each name, such as "fleet_bundle_".
	prefix string
	// labels are the names in the order of labelsOf, without the state.
	labels   []string
	labelsOf func(T) []string
	values   []value[T]
	states   []string
	stateOf  func(T) string
	// other is the state that is counted if an object's state is not in states.
	other string
	// stateHelp is the help text of the metric <prefix>state.
	stateHelp string
}

type value[T any] struct {
	name, help string
	of         func(T) int
}

func (k kind[T]) definitions() []Definition {
	labels := append(append([]string{}, k.labels...), stateLabel)
	var all []Definition
	for _, v := range k.values {
		all = append(all, Definition{Name: k.prefix + v.name, Type: Gauge, Labels: labels, Help: v.help})
	}
	return append(all, Definition{Name: k.prefix + stateLabel, Type: Gauge, Labels: labels, Help: k.stateHelp})
}

func stateDefinitions() []Definition {
	return slices.Concat(bundles().definitions(), deployments().definitions(), clusters().definitions(), groups().definitions())
}

// deploymentStates lists the states of a BundleDeployment. A Bundle has the worst state of its BundleDeployments.
func deploymentStates() []string {
	return []string{
		string(fleet.Ready), string(fleet.NotReady), string(fleet.Pending), string(fleet.OutOfSync),
		string(fleet.Modified), string(fleet.WaitApplied), string(fleet.ErrApplied),
	}
}

func bundles() kind[*fleet.Bundle] {
	count := func(name, help string, of func(*fleet.BundleSummary) int) value[*fleet.Bundle] {
		return value[*fleet.Bundle]{name, help, func(b *fleet.Bundle) int { return of(&b.Status.Summary) }}
	}
	return kind[*fleet.Bundle]{
		prefix: "fleet_bundle_", labels: []string{"name", "namespace", "commit", "repo", "generation"},
		labelsOf: func(b *fleet.Bundle) []string {
			return []string{b.Name, b.Namespace, b.Labels[fleet.LabelCommit], b.Labels[fleet.LabelRepoName], generation(b)}
		},
		values: []value[*fleet.Bundle]{
			count("desired_ready", "Deployments of the bundle, existing or planned", func(s *fleet.BundleSummary) int { return s.DesiredReady }),
			count("ready", "Deployments of the bundle that are ready", func(s *fleet.BundleSummary) int { return s.Ready }),
			count("not_ready", "Deployments of the bundle with a resource that is not ready, or that failed permanently", func(s *fleet.BundleSummary) int { return s.NotReady }),
			count("pending", "Deployments of the bundle that wait in the rollout", func(s *fleet.BundleSummary) int { return s.Pending }),
			count("out_of_sync", "Deployments of the bundle that the rollout has not reached yet", func(s *fleet.BundleSummary) int { return s.OutOfSync }),
			count("modified", "Deployments of the bundle with a resource that was modified after it was applied", func(s *fleet.BundleSummary) int { return s.Modified }),
			count("wait_applied", "Deployments of the bundle that the agent has not applied yet", func(s *fleet.BundleSummary) int { return s.WaitApplied }),
			count("err_applied", "Deployments of the bundle that failed and are retried; those that failed permanently are not ready", func(s *fleet.BundleSummary) int { return s.ErrApplied }),
		},
		states: deploymentStates(), stateHelp: "1 for the worst state of the bundle's deployments, else 0; NotReady also if the bundle itself has an error or was not processed yet",
		stateOf: func(b *fleet.Bundle) string {
			return cmp.Or(b.Status.Display.State, unlisted(b.Status.Conditions, string(fleet.NotReady)))
		},
	}
}

func deployments() kind[*fleet.BundleDeployment] {
	return kind[*fleet.BundleDeployment]{
		prefix: "fleet_bundledeployment_",
		labels: []string{"name", "namespace", "cluster_name", "cluster_namespace", "repo", "commit", "bundle", "bundle_namespace", "generation"},
		labelsOf: func(d *fleet.BundleDeployment) []string {
			return []string{
				d.Name, d.Namespace, d.Labels[fleet.LabelCluster], d.Labels[fleet.LabelClusterNamespace], d.Labels[fleet.LabelRepoName],
				d.Labels[fleet.LabelCommit], d.Labels[fleet.LabelBundleName], d.Labels[fleet.LabelBundleNamespace], generation(d),
			}
		},
		states: deploymentStates(), stateHelp: "1 for the state of one bundle on one cluster, else 0",
		stateOf: func(d *fleet.BundleDeployment) string { return string(state.Of(d)) },
	}
}

func clusters() kind[*fleet.Cluster] {
	k := kind[*fleet.Cluster]{
		prefix: "fleet_cluster_", labels: []string{"name", "namespace", "cluster_name", "cluster_display_name", "generation"},
		labelsOf: func(c *fleet.Cluster) []string {
			return []string{c.Name, c.Namespace, c.Labels[fleet.LabelManagementClusterName], c.Labels[fleet.LabelClusterDisplayName], generation(c)}
		},
		values: []value[*fleet.Cluster]{
			{"desired_ready_git_repos", "GitRepos that deploy to the cluster", func(c *fleet.Cluster) int { return c.Status.DesiredReadyGitRepos }},
			{"ready_git_repos", "GitRepos whose deployments to the cluster are ready", func(c *fleet.Cluster) int { return c.Status.ReadyGitRepos }},
			{"desired_ready_helm_ops", "HelmOps that deploy to the cluster", func(c *fleet.Cluster) int { return c.Status.DesiredReadyHelmOps }},
			{"ready_helm_ops", "HelmOps whose deployments to the cluster are ready", func(c *fleet.Cluster) int { return c.Status.ReadyHelmOps }},
		},
		states: []string{string(fleet.NotReady), string(fleet.Ready), state.WaitCheckIn}, other: string(fleet.NotReady),
		stateHelp: "1 for the state of the cluster, else 0: Ready if all its bundles are ready; WaitCheckIn before the first heartbeat of its agent and while heartbeats are missing; otherwise NotReady",
		stateOf: func(c *fleet.Cluster) string {
			return cmp.Or(c.Status.Display.State, unlisted(c.Status.Conditions, state.WaitCheckIn))
		},
	}
	k.values = append(k.values, resources("resources_count_", "desiredready", "of the cluster", func(c *fleet.Cluster) *fleet.ResourceCounts { return &c.Status.ResourceCounts })...)
	return k
}

func groups() kind[*fleet.ClusterGroup] {
	k := kind[*fleet.ClusterGroup]{
		prefix: "fleet_cluster_group_", labels: []string{"name", "namespace", "generation"},
		labelsOf: func(g *fleet.ClusterGroup) []string { return []string{g.Name, g.Namespace, generation(g)} },
		values: []value[*fleet.ClusterGroup]{
			{"bundle_desired_ready", "Deployments to the clusters of the group", func(g *fleet.ClusterGroup) int { return g.Status.Summary.DesiredReady }},
			{"bundle_ready", "Deployments to the clusters of the group that are ready", func(g *fleet.ClusterGroup) int { return g.Status.Summary.Ready }},
			{"cluster_count", "Clusters of the group", func(g *fleet.ClusterGroup) int { return g.Status.ClusterCount }},
			{"non_ready_cluster_count", "Clusters of the group with a bundle that is not ready", func(g *fleet.ClusterGroup) int { return g.Status.NonReadyClusterCount }},
		},
		states: []string{string(fleet.NotReady), string(fleet.Ready)}, other: string(fleet.NotReady),
		stateHelp: "1 for the state of the group, else 0: Ready if all bundles of its clusters are ready and their agents report, otherwise NotReady",
		stateOf:   stateOfGroup,
	}
	k.values = append(k.values, resources("resource_count_", "desired_ready", "of the group's clusters", func(g *fleet.ClusterGroup) *fleet.ResourceCounts { return &g.Status.ResourceCounts })...)
	return k
}

// stateOfGroup returns the state of a group. A cluster with a silent agent is not ready, although the group's summary and
// Ready condition count its last report, as in Rancher Fleet.
func stateOfGroup(g *fleet.ClusterGroup) string {
	if g.Status.Display.State == "" && g.Status.NonReadyClusterCount > 0 {
		return string(fleet.NotReady)
	}
	return cmp.Or(g.Status.Display.State, unlisted(g.Status.Conditions, string(fleet.NotReady)))
}

// unlisted returns the state of an object whose summary lists nothing, so that only its Ready condition tells whether it is
// ready. unknown is the state without that condition.
func unlisted(list conditionList, unknown string) string {
	switch ready := conditions.Get(list, conditions.Ready); {
	case ready == nil:
		return unknown
	case ready.Status == corev1.ConditionTrue:
		return string(fleet.Ready)
	default:
		return string(fleet.NotReady)
	}
}

// resources returns the counts of deployed resources. The name of the total differs between kinds.
func resources[T any](prefix, all, whose string, of func(T) *fleet.ResourceCounts) []value[T] {
	count := func(name, help string, field func(*fleet.ResourceCounts) int) value[T] {
		return value[T]{prefix + name, "Deployed resources " + whose + help, func(o T) int { return field(of(o)) }}
	}
	return []value[T]{
		count(all, "", func(c *fleet.ResourceCounts) int { return c.DesiredReady }),
		count("missing", " that are missing", func(c *fleet.ResourceCounts) int { return c.Missing }),
		count("modified", " that were changed", func(c *fleet.ResourceCounts) int { return c.Modified }),
		count("notready", " that are not ready", func(c *fleet.ResourceCounts) int { return c.NotReady }),
		count("orphaned", " that should not be there", func(c *fleet.ResourceCounts) int { return c.Orphaned }),
		count("ready", " that are ready", func(c *fleet.ResourceCounts) int { return c.Ready }),
		count("unknown", " in an unknown state", func(c *fleet.ResourceCounts) int { return c.Unknown }),
		count("waitapplied", " that are not applied yet", func(c *fleet.ResourceCounts) int { return c.WaitApplied }),
	}
}

func generation(o metav1.Object) string { return strconv.FormatInt(o.GetGeneration(), 10) }
