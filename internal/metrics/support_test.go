package metrics

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/metrics/metricstest"
	"github.com/fleet-hub/fleet/internal/rules/state"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// exposition is what a scrape answers, by a registry that also compares series with their descriptions.
func exposition(t testing.TB, collectors ...prometheus.Collector) string {
	t.Helper()
	return metricstest.Collect(t, collectors...)
}

// world is what the caches hold. A test changes it and scrapes again.
type world struct {
	now         time.Time
	interval    time.Duration
	bundles     []*fleet.Bundle
	deployments []*fleet.BundleDeployment
	clusters    []*fleet.Cluster
	groups      []*fleet.ClusterGroup
	requests    []*fleet.ClusterRegistration
	tokens      []*fleet.ClusterRegistrationToken
	heartbeats  Heartbeats
	err         error
}

func (w *world) sources() Sources {
	return Sources{
		Bundles:         func() ([]*fleet.Bundle, error) { return w.bundles, w.err },
		Deployments:     func() ([]*fleet.BundleDeployment, error) { return w.deployments, w.err },
		Clusters:        func() ([]*fleet.Cluster, error) { return w.clusters, w.err },
		ClusterGroups:   func() ([]*fleet.ClusterGroup, error) { return w.groups, w.err },
		Registrations:   func() ([]*fleet.ClusterRegistration, error) { return w.requests, w.err },
		Tokens:          func() ([]*fleet.ClusterRegistrationToken, error) { return w.tokens, w.err },
		Heartbeats:      func() Heartbeats { return w.heartbeats },
		Clock:           func() time.Time { return w.now },
		CheckinInterval: func() time.Duration { return w.interval },
	}
}

func meta(namespace, name string, labels ...string) metav1.ObjectMeta {
	m := metav1.ObjectMeta{Namespace: namespace, Name: name, Generation: 3, CreationTimestamp: metav1.NewTime(noon.Add(-time.Hour)), Labels: map[string]string{}}
	for i := 0; i < len(labels); i += 2 {
		m.Labels[labels[i]] = labels[i+1]
	}
	return m
}

func falseCondition(kind, reason string) genericcondition.GenericCondition {
	return genericcondition.GenericCondition{Type: kind, Status: "False", Reason: reason, Message: "said to users"}
}

// ready is the list of conditions of an object that is ready.
func ready() []genericcondition.GenericCondition {
	return []genericcondition.GenericCondition{{Type: conditions.Ready, Status: "True"}}
}

// aWorld is a hub with two clusters, of which one is in trouble.
func aWorld() *world {
	counts := fleet.ResourceCounts{DesiredReady: 36, Ready: 1, WaitApplied: 2, Modified: 3, Orphaned: 4, Missing: 5, Unknown: 6, NotReady: 7}
	return &world{
		now: noon, heartbeats: Heartbeats{Fresh: 1, Never: 1},
		bundles: []*fleet.Bundle{
			{
				ObjectMeta: meta("fleet-default", "guestbook", fleet.LabelRepoName, "repo", fleet.LabelCommit, "c0ffee"),
				Status: fleet.BundleStatus{
					Summary: fleet.BundleSummary{DesiredReady: 28, Ready: 1, NotReady: 2, Pending: 3, OutOfSync: 4, Modified: 5, WaitApplied: 6, ErrApplied: 7},
					Display: fleet.BundleDisplay{State: string(fleet.ErrApplied)},
				},
			},
			{ObjectMeta: meta("fleet-default", "ready"), Status: fleet.BundleStatus{Summary: fleet.BundleSummary{DesiredReady: 1, Ready: 1}, Conditions: ready()}},
		},
		deployments: []*fleet.BundleDeployment{{
			ObjectMeta: meta("cluster-ns", "guestbook", fleet.LabelRepoName, "repo", fleet.LabelCommit, "c0ffee", fleet.LabelCluster, "east",
				fleet.LabelClusterNamespace, "fleet-default", fleet.LabelBundleName, "guestbook", fleet.LabelBundleNamespace, "fleet-default"),
			Spec: fleet.BundleDeploymentSpec{DeploymentID: "s-1:a", StagedDeploymentID: "s-1:a"},
		}},
		clusters: []*fleet.Cluster{
			{
				ObjectMeta: meta("fleet-default", "east", fleet.LabelManagementClusterName, "c-abc", fleet.LabelClusterDisplayName, "East"),
				Status: fleet.ClusterStatus{
					DesiredReadyGitRepos: 4, ReadyGitRepos: 3, DesiredReadyHelmOps: 2, ReadyHelmOps: 1, ResourceCounts: counts,
					Display: fleet.ClusterDisplay{State: string(fleet.Modified)},
					Agent:   fleet.AgentStatus{LastSeen: metav1.NewTime(noon.Add(-10 * time.Minute))},
				},
			},
			{
				ObjectMeta: meta("fleet-default", "new"),
				Status: fleet.ClusterStatus{
					Display:    fleet.ClusterDisplay{State: state.WaitCheckIn},
					Conditions: []genericcondition.GenericCondition{falseCondition(conditions.Imported, conditions.ReasonDownstreamUnreachable)},
				},
			},
		},
		groups: []*fleet.ClusterGroup{{
			ObjectMeta: meta("fleet-default", "all"),
			Status: fleet.ClusterGroupStatus{
				ClusterCount: 2, NonReadyClusterCount: 1, Summary: fleet.BundleSummary{DesiredReady: 9, Ready: 8}, ResourceCounts: counts,
				Display: fleet.ClusterGroupDisplay{State: string(fleet.Modified)},
			},
		}},
		requests: []*fleet.ClusterRegistration{
			aRequest("granted", func(s *fleet.ClusterRegistrationStatus) {
				s.Granted = true
				s.Conditions = []genericcondition.GenericCondition{{Type: conditions.Granted, Status: "True", LastUpdateTime: noon.Add(-2 * 24 * time.Hour).Format(time.RFC3339)}}
			}),
			aRequest("granted-by-others", func(s *fleet.ClusterRegistrationStatus) { s.Granted = true }),
			aRequest("rejected", func(s *fleet.ClusterRegistrationStatus) {
				s.Conditions = []genericcondition.GenericCondition{falseCondition(conditions.Granted, conditions.ReasonClientIDMissing)}
			}),
			aRequest("waiting", func(s *fleet.ClusterRegistrationStatus) {
				s.Conditions = []genericcondition.GenericCondition{falseCondition(conditions.Granted, conditions.ReasonAwaitingNamespace)}
			}),
			aRequest("just-made", func(*fleet.ClusterRegistrationStatus) {}),
		},
	}
}

func aRequest(name string, modify func(*fleet.ClusterRegistrationStatus)) *fleet.ClusterRegistration {
	request := &fleet.ClusterRegistration{ObjectMeta: meta("fleet-default", name)}
	modify(&request.Status)
	return request
}
