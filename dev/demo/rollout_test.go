package main

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/internal/rules/targeting"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// written returns a BundleDeployment of the cluster: told is the manifest ID in its spec, applied the one in its
// status.
func written(cluster, told, applied string) *fleet.BundleDeployment {
	bd := &fleet.BundleDeployment{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{
		fleet.LabelCluster: cluster, fleet.LabelBundleName: chartName,
	}}}
	bd.Spec.DeploymentID, bd.Spec.StagedDeploymentID = told+":h", told+":h"
	bd.Status.AppliedDeploymentID, bd.Status.Ready, bd.Status.NonModified = applied+":h", true, true
	return bd
}

func TestStory_ReportsPartitionsAndDetectsWrongOrder(t *testing.T) {
	other := written(east, "new", "new")
	other.Labels[fleet.LabelBundleName] = "other"
	tests := map[string]struct {
		states []*fleet.BundleDeployment
		want   []string
		wrong  error
		over   bool
	}{
		"partitions in order: rollout succeeds": {
			[]*fleet.BundleDeployment{
				written(east, "old", "old"), written(west, "old", "old"), written(east, "new", "old"),
				written(east, "new", "new"), written(west, "new", "old"), written(west, "new", "new"),
			},
			[]string{
				"partition dev: east gets the change", "partition dev: 1 of 1 clusters ready",
				"partition prod: west gets the change", "partition prod: 1 of 1 clusters ready",
			}, nil, true,
		},
		"second partition too early: rollout is wrong": {
			[]*fleet.BundleDeployment{written(east, "new", "old"), written(west, "new", "old")},
			[]string{"partition dev: east gets the change", "partition prod: west gets the change"}, errEarly, true,
		},
		"one cluster not ready: rollout continues": {
			[]*fleet.BundleDeployment{written(east, "new", "new"), written(east, "new", "new"), other, written("unknown", "new", "new")},
			[]string{"partition dev: east gets the change", "partition dev: 1 of 1 clusters ready"}, nil, false,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := newStory("new", []string{"dev", "prod"}, map[string]string{east: "dev", west: "prod"})
			var got []string
			for _, bd := range test.states {
				got = append(got, s.see(bd)...)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("lines differ (-want +got):\n%s", diff)
			}
			if !errors.Is(s.wrong, test.wrong) || s.over() != test.over {
				t.Errorf("wrong %v and over %v, want %v and %v", s.wrong, s.over(), test.wrong, test.over)
			}
		})
	}
}

// TestByGroup_CustomisesOnlyEast checks the greeting of each cluster after the customisation.
func TestByGroup_CustomisesOnlyEast(t *testing.T) {
	bundle := chartBundle(framework.Workspace, "0.1.0")
	bundle.Spec.Targets, bundle.Spec.TargetRestrictions = byGroup(), []fleet.BundleTargetRestriction{{ClusterGroup: members}}
	group := &fleet.ClusterGroup{ObjectMeta: metav1.ObjectMeta{Namespace: framework.Workspace, Name: members}}
	group.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "env", Operator: metav1.LabelSelectorOpExists}}}
	var clusters []*fleet.Cluster
	for name, env := range map[string]string{east: "dev", west: "prod"} {
		clusters = append(clusters, &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: framework.Workspace, Name: name, Labels: map[string]string{"env": env}}})
	}
	selection, err := targeting.NewSelection(bundle)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]any{}
	for _, target := range selection.Targets("s-1", clusters, targeting.NewGroups([]*fleet.ClusterGroup{group}), nil) {
		got[target.Cluster.Name] = target.Options.Helm.Values.Data["greeting"]
	}
	if diff := cmp.Diff(map[string]any{east: customised, west: common}, got); diff != "" {
		t.Errorf("greetings differ (-want +got):\n%s", diff)
	}
}
