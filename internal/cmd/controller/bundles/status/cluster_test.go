package status

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/rules/supervision"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func TestSetClusterStatus(t *testing.T) {
	broken := deployment("one", func(bd *fleet.BundleDeployment) { bd.Status.Ready = false })
	condition := func(kind string, status corev1.ConditionStatus, reason, message string) genericcondition.GenericCondition {
		return genericcondition.GenericCondition{Type: kind, Status: status, Reason: reason, Message: message, LastUpdateTime: "2026-11-21T08:00:00Z"}
	}
	ready := condition("Ready", "True", "", "")
	notReady := condition("Ready", "False", "", "NotReady(1) [Bundle web]")
	said := func(stage supervision.Reporting, imported bool) genericcondition.GenericCondition {
		cluster := &fleet.Cluster{}
		if imported {
			cluster.Spec.KubeConfigSecret = "kubeconfig"
		}
		c := supervision.ReportingCondition(stage, cluster)
		return condition(c.Type, c.Status, c.Reason, c.Message)
	}
	tests := map[string]struct {
		reported    bool
		reporting   supervision.Reporting
		deployments []*fleet.BundleDeployment
		want        []genericcondition.GenericCondition
		display     fleet.ClusterDisplay
	}{
		"agent is awaited": {
			false, supervision.ReportingAwaited, nil,
			[]genericcondition.GenericCondition{ready, said(supervision.ReportingAwaited, true)}, fleet.ClusterDisplay{ReadyBundles: "0/0", State: "WaitCheckIn"},
		},
		"agent is missing: Ready depends on the Bundles": {
			false, supervision.ReportingMissing, nil,
			[]genericcondition.GenericCondition{ready, said(supervision.ReportingMissing, true)}, fleet.ClusterDisplay{ReadyBundles: "0/0", State: "WaitCheckIn"},
		},
		"agent reports": {
			true, supervision.ReportingHeard, []*fleet.BundleDeployment{deployment("one")},
			[]genericcondition.GenericCondition{ready, said(supervision.ReportingHeard, true)}, fleet.ClusterDisplay{ReadyBundles: "1/1"},
		},
		"agent reports a problem": {
			true, supervision.ReportingHeard, []*fleet.BundleDeployment{broken},
			[]genericcondition.GenericCondition{notReady, said(supervision.ReportingHeard, true)}, fleet.ClusterDisplay{ReadyBundles: "0/1", State: "NotReady"},
		},
		"agent is silent: not ready": {
			true, supervision.ReportingSilent, []*fleet.BundleDeployment{deployment("one")},
			[]genericcondition.GenericCondition{condition("Ready", "False", "AgentNotReporting", supervision.SilentMessage), said(supervision.ReportingSilent, true)},
			fleet.ClusterDisplay{ReadyBundles: "1/1", State: "WaitCheckIn"},
		},
		"agent is silent: its last problem is not the state": {
			true, supervision.ReportingSilent, []*fleet.BundleDeployment{broken},
			[]genericcondition.GenericCondition{condition("Ready", "False", "AgentNotReporting", supervision.SilentMessage), said(supervision.ReportingSilent, true)},
			fleet.ClusterDisplay{ReadyBundles: "0/1", State: "WaitCheckIn"},
		},
		"no agent is expected: no condition": {
			true, supervision.ReportingUnexpected, []*fleet.BundleDeployment{deployment("one")},
			[]genericcondition.GenericCondition{ready}, fleet.ClusterDisplay{ReadyBundles: "1/1"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			cluster := &fleet.Cluster{Spec: fleet.ClusterSpec{KubeConfigSecret: "kubeconfig"}}
			if test.reported {
				cluster.Status.Agent.LastSeen = metav1.NewTime(now)
			}
			in := clusterInput{deployments: test.deployments, reporting: test.reporting, now: now}
			setClusterStatus(cluster, in)
			if diff := cmp.Diff(test.want, cluster.Status.Conditions); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.display, cluster.Status.Display); diff != "" {
				t.Errorf("display (-want +got):\n%s", diff)
			}
			before := cluster.DeepCopy()
			in.now = now.Add(time.Hour)
			setClusterStatus(cluster, in)
			if diff := cmp.Diff(before, cluster); diff != "" {
				t.Errorf("told again it changes:\n%s", diff)
			}
		})
	}
}

// Each stage is reached from each other one. The result is the same as without a former stage.
func TestReportingCondition_DoesNotDependOnFormerStages(t *testing.T) {
	stages := []supervision.Reporting{
		supervision.ReportingUnexpected, supervision.ReportingAwaited, supervision.ReportingMissing, supervision.ReportingHeard, supervision.ReportingSilent,
	}
	tell := func(cluster *fleet.Cluster, stage supervision.Reporting) {
		setClusterStatus(cluster, clusterInput{deployments: []*fleet.BundleDeployment{deployment("one")}, reporting: stage, now: now})
	}
	other := genericcondition.GenericCondition{Type: "Processed", Status: "True"}
	for _, from := range stages {
		for _, to := range stages {
			t.Run(string(from)+" to "+string(to), func(t *testing.T) {
				want := &fleet.Cluster{Status: fleet.ClusterStatus{Conditions: []genericcondition.GenericCondition{other}}}
				got := want.DeepCopy()
				tell(want, to)
				tell(got, from)
				tell(got, to)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
		}
	}
}

func TestUntilJoined(t *testing.T) {
	made := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	tests := map[string]struct {
		after time.Duration
		heard bool
		want  time.Duration
	}{
		"just created":                     {0, false, joining},
		"a moment later":                   {1500 * time.Millisecond, false, joining - 1500*time.Millisecond},
		"after its first report":           {0, true, 0},
		"agent does not join":              {joining, false, 0},
		"long after":                       {time.Hour, false, joining - time.Hour},
		"created by a clock that is ahead": {-time.Millisecond, false, 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			cluster := &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(made)}}
			if test.heard {
				cluster.Status.Agent.LastSeen = metav1.NewTime(made)
			}
			if got := untilJoined(cluster, made.Add(test.after)); got != test.want {
				t.Errorf("waits %v, want %v", got, test.want)
			}
		})
	}
}

func TestClusterMatters(t *testing.T) {
	cluster := func(change func(*fleet.Cluster)) *fleet.Cluster {
		c := &fleet.Cluster{}
		c.Labels, c.Status.Agent.LastSeen = map[string]string{"a": "b"}, metav1.NewTime(time.Unix(1, 0))
		change(c)
		return c
	}
	older := cluster(func(*fleet.Cluster) {})
	for name, test := range map[string]struct {
		older  *fleet.Cluster
		change func(*fleet.Cluster)
		want   bool
	}{
		"a new one":               {nil, func(*fleet.Cluster) {}, true},
		"nothing":                 {older, func(*fleet.Cluster) {}, false},
		"a label":                 {older, func(c *fleet.Cluster) { c.Labels["a"] = "c" }, false},
		"another heartbeat":       {older, func(c *fleet.Cluster) { c.Status.Agent.LastSeen = metav1.NewTime(time.Unix(2, 0)) }, false},
		"no heartbeat yet":        {older, func(c *fleet.Cluster) { c.Status.Agent.LastSeen = metav1.Time{} }, true},
		"object of another shard": {older, func(c *fleet.Cluster) { c.Labels[fleet.LabelShardRef] = "s" }, true},
		"its namespace":           {older, func(c *fleet.Cluster) { c.Status.Namespace = "n" }, true},
		"its counts":              {older, func(c *fleet.Cluster) { c.Status.Summary.Ready = 1 }, true},
		"its condition":           {older, func(c *fleet.Cluster) { c.Status.Display.State = "x" }, true},
		"fewer resources":         {older, func(c *fleet.Cluster) { c.Status.ResourceCounts.Ready = 1 }, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := clusterMatters(test.older, cluster(test.change)); got != test.want {
				t.Errorf("matters: %v", got)
			}
		})
	}
}
