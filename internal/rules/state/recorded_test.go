package state

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fleet-hub/fleet/e2e/framework/recorded"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

func ready(t *testing.T, bd *fleet.BundleDeployment) string {
	t.Helper()
	condition := conditions.Get(bd.Status.Conditions, conditions.Ready)
	if condition == nil {
		t.Fatalf("%s/%s has no condition Ready", bd.Namespace, bd.Name)
	}
	return condition.Message
}

func TestRecordedDeployments_HaveTheRecordedDisplay(t *testing.T) {
	for _, bd := range recorded.Objects[fleet.BundleDeployment](t, "bundledeployments") {
		if diff := cmp.Diff(bd.Status.Display, Display(bd)); diff != "" {
			t.Errorf("display of %s/%s (-want +got):\n%s", bd.Namespace, bd.Name, diff)
		}
		var texts []string
		for _, n := range bd.Status.NonReadyStatus {
			texts = append(texts, NonReadyText(n))
		}
		if got := strings.Join(texts, "; "); got != ready(t, bd) {
			t.Errorf("resources of %s/%s = %q, want %q", bd.Namespace, bd.Name, got, ready(t, bd))
		}
	}
}

func TestRecordedBundles_HaveTheRecordedSummary(t *testing.T) {
	deployments := recorded.Objects[fleet.BundleDeployment](t, "bundledeployments")
	for _, b := range recorded.Objects[fleet.Bundle](t, "bundles") {
		var entries []Entry
		for _, bd := range deployments {
			if bd.Labels[fleet.LabelBundleName] == b.Name && bd.Labels[fleet.LabelBundleNamespace] == b.Namespace {
				entries = append(entries, EntryOf(bd.Labels[fleet.LabelClusterNamespace]+"/"+bd.Labels[fleet.LabelCluster], bd, bd.Spec.StagedDeploymentID))
			}
		}
		summary := Summarize(entries)
		if diff := cmp.Diff(b.Status.Summary, summary); diff != "" {
			t.Errorf("summary of %s (-want +got):\n%s", b.Name, diff)
		}
		want := *conditions.Get(b.Status.Conditions, conditions.Ready)
		want.LastUpdateTime = ""
		if diff := cmp.Diff(want, ReadyCondition(summary, KindCluster)); diff != "" {
			t.Errorf("condition Ready of %s (-want +got):\n%s", b.Name, diff)
		}
		if got := (fleet.BundleDisplay{ReadyClusters: ReadyText(summary), State: WorstState(summary)}); got != b.Status.Display {
			t.Errorf("display of %s = %+v, want %+v", b.Name, got, b.Status.Display)
		}
	}
}

func TestRecordedClusters_HaveTheRecordedSummary(t *testing.T) {
	deployments := recorded.Objects[fleet.BundleDeployment](t, "bundledeployments")
	for _, c := range recorded.Objects[fleet.Cluster](t, "clusters") {
		var entries []Entry
		var counts []fleet.ResourceCounts
		for _, bd := range deployments {
			if bd.Namespace == c.Status.Namespace {
				entries = append(entries, EntryOf(bd.Name, bd, bd.Spec.DeploymentID))
				counts = append(counts, bd.Status.ResourceCounts)
			}
		}
		summary := Summarize(entries)
		if diff := cmp.Diff(c.Status.Summary, summary); diff != "" {
			t.Errorf("summary of %s (-want +got):\n%s", c.Name, diff)
		}
		if diff := cmp.Diff(c.Status.ResourceCounts, SumCounts(counts...)); diff != "" {
			t.Errorf("resource counts of %s (-want +got):\n%s", c.Name, diff)
		}
		want := *conditions.Get(c.Status.Conditions, conditions.Ready)
		want.LastUpdateTime = ""
		if diff := cmp.Diff(want, ReadyCondition(summary, KindBundle)); diff != "" {
			t.Errorf("condition Ready of %s (-want +got):\n%s", c.Name, diff)
		}
		if got := ReadyText(summary); got != c.Status.Display.ReadyBundles {
			t.Errorf("ready bundles of %s = %s, want %s", c.Name, got, c.Status.Display.ReadyBundles)
		}
	}
}
