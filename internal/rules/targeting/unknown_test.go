package targeting

import (
	"slices"
	"testing"

	"github.com/fleet-hub/fleet/internal/rules/targeting/targetingtest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func both(group string, key, value string) fleet.BundleTarget {
	return targetingtest.InGroup(group, func(t *fleet.BundleTarget) { t.ClusterGroupSelector = targetingtest.Selector(key, value) })
}

func TestUnknownGroups(t *testing.T) {
	prod, dev := targetingtest.Group("prod", "env", "prod"), targetingtest.Group("dev", "env", "dev")
	tests := map[string]struct {
		bundle *fleet.Bundle
		want   []string
	}{
		"no group is named":        {targetingtest.Bundle(targetingtest.Targets(targetingtest.Everywhere())), nil},
		"all groups exist":         {targetingtest.Bundle(targetingtest.Targets(targetingtest.InGroup("prod"), targetingtest.InGroup("dev"))), nil},
		"one group does not exist": {targetingtest.Bundle(targetingtest.Targets(targetingtest.InGroup("prod"), targetingtest.InGroup("test"))), []string{"spec.targets[1]: clusterGroup test"}},
		"a target with a name":     {targetingtest.Bundle(targetingtest.Targets(targetingtest.InGroup("test", func(t *fleet.BundleTarget) { t.Name = "tests" }))), []string{"spec.targets[0] (tests): clusterGroup test"}},
		"a restriction":            {targetingtest.Bundle(targetingtest.Targets(targetingtest.Everywhere()), targetingtest.Restrictions(fleet.BundleTargetRestriction{ClusterGroup: "test"})), []string{"spec.targetRestrictions[0]: clusterGroup test"}},
		"a customisation":          {targetingtest.Bundle(targetingtest.Targets(targetingtest.InGroup("x"), targetingtest.Everywhere()), targetingtest.Restrictions(fleet.BundleTargetRestriction{ClusterGroup: "prod"})), []string{"spec.targets[0]: clusterGroup x"}},
		"one that is named twice":  {targetingtest.Bundle(targetingtest.Targets(targetingtest.InGroup("x"), targetingtest.InGroup("x"))), []string{"spec.targets[0]: clusterGroup x", "spec.targets[1]: clusterGroup x"}},
		"a selector of groups":     {targetingtest.Bundle(targetingtest.Targets(fleet.BundleTarget{ClusterGroupSelector: targetingtest.Selector("a", "b")})), nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			selection, err := NewSelection(test.bundle)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, ref := range selection.UnknownGroups([]*fleet.ClusterGroup{prod, dev}) {
				got = append(got, ref.String())
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("unknown = %q, want %q", got, test.want)
			}
		})
	}
}

func TestPicksIf(t *testing.T) {
	prod := targetingtest.Group("prod", "env", "prod")
	tests := map[string]struct {
		bundle  *fleet.Bundle
		cluster *fleet.Cluster
		want    bool
	}{
		"missing group: any cluster may be in it":           {targetingtest.Bundle(targetingtest.Targets(targetingtest.InGroup("gone"))), targetingtest.Cluster("east"), true},
		"missing group: also a cluster of other groups":     {targetingtest.Bundle(targetingtest.Targets(targetingtest.InGroup("gone"))), targetingtest.Cluster("east", targetingtest.Labelled("env", "prod")), true},
		"missing group, selected by labels too":             {targetingtest.Bundle(targetingtest.Targets(both("gone", "tier", "1"))), targetingtest.Cluster("east"), true},
		"missing group, other criteria exclude the cluster": {targetingtest.Bundle(targetingtest.Targets(targetingtest.InGroup("gone", func(t *fleet.BundleTarget) { t.ClusterName = "west" }))), targetingtest.Cluster("east"), false},
		"existing group, cluster is not a member":           {targetingtest.Bundle(targetingtest.Targets(targetingtest.InGroup("prod"), targetingtest.InGroup("gone", targetingtest.DoNotDeploy))), targetingtest.Cluster("east"), false},
		"existing group, cluster is a member":               {targetingtest.Bundle(targetingtest.Targets(targetingtest.InGroup("prod"), targetingtest.InGroup("gone"))), targetingtest.Cluster("east", targetingtest.Labelled("env", "prod")), true},
		"restriction to the missing group":                  {targetingtest.Bundle(targetingtest.Targets(targetingtest.Everywhere()), targetingtest.Restrictions(fleet.BundleTargetRestriction{ClusterGroup: "gone"})), targetingtest.Cluster("east"), true},
		"restriction to another group":                      {targetingtest.Bundle(targetingtest.Targets(targetingtest.InGroup("gone")), targetingtest.Restrictions(fleet.BundleTargetRestriction{ClusterGroup: "prod"})), targetingtest.Cluster("east"), false},
		"a target excludes the missing group":               {targetingtest.Bundle(targetingtest.Targets(targetingtest.InGroup("gone", targetingtest.DoNotDeploy))), targetingtest.Cluster("east"), false},
		"another missing group is excluded":                 {targetingtest.Bundle(targetingtest.Targets(targetingtest.InGroup("other", targetingtest.DoNotDeploy), targetingtest.InGroup("gone"))), targetingtest.Cluster("east"), true},
		"a customisation excludes another missing group":    {targetingtest.Bundle(targetingtest.Targets(targetingtest.InGroup("other", targetingtest.DoNotDeploy), targetingtest.InGroup("gone")), targetingtest.Restrictions(fleet.BundleTargetRestriction{ClusterGroup: "gone"})), targetingtest.Cluster("east"), true},
		"a target and a customisation name two missing groups": {targetingtest.Bundle(targetingtest.Targets(
			targetingtest.InGroup("other"), targetingtest.Everywhere(targetingtest.DoNotDeploy), targetingtest.InGroup("gone")),
			targetingtest.Restrictions(fleet.BundleTargetRestriction{ClusterGroup: "gone"})), targetingtest.Cluster("east"), true},
		"the missing group itself is excluded before": {targetingtest.Bundle(targetingtest.Targets(targetingtest.InGroup("gone", targetingtest.DoNotDeploy), targetingtest.InGroup("gone"))), targetingtest.Cluster("east"), false},
		"Bundle of an agent: only its own cluster":    {agentOf("west", func(b *fleet.Bundle) { b.Spec.Targets = []fleet.BundleTarget{targetingtest.InGroup("gone")} }), targetingtest.Cluster("east"), false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			selection, err := NewSelection(test.bundle)
			if err != nil {
				t.Fatal(err)
			}
			groups := []*fleet.ClusterGroup{prod}
			got := selection.PicksIf(test.cluster, NewGroups(groups), selection.UnknownGroups(groups))
			if got != test.want {
				t.Errorf("PicksIf = %v, want %v", got, test.want)
			}
		})
	}
}

func TestUnknownClusters(t *testing.T) {
	to := func(name string, modifiers ...func(*fleet.BundleTarget)) func(*fleet.Bundle) {
		target := fleet.BundleTarget{ClusterName: name}
		for _, modify := range modifiers {
			modify(&target)
		}
		return targetingtest.Targets(target)
	}
	east := targetingtest.Cluster("c-123", targetingtest.Labelled(fleet.LabelClusterDisplayName, "east"))
	for name, test := range map[string]struct {
		bundle *fleet.Bundle
		want   []string
	}{
		"names of both kinds exist":          {targetingtest.Bundle(to("c-123"), to("east")), nil},
		"a name is misspelt":                 {targetingtest.Bundle(to("east"), to("eats")), []string{"spec.targets[1]: clusterName eats"}},
		"a target excludes it":               {targetingtest.Bundle(to("west", targetingtest.DoNotDeploy)), nil},
		"a customisation names it":           {targetingtest.Bundle(to("west"), to("east"), targetingtest.Restrictions(fleet.BundleTargetRestriction{ClusterName: "east"})), nil},
		"other criteria of a target exclude": {targetingtest.Bundle(to("east", func(t *fleet.BundleTarget) { t.ClusterGroup = "none" })), nil},
		"an agent's Bundle":                  {agentOf("west", to("west")), nil},
	} {
		t.Run(name, func(t *testing.T) {
			selection, err := NewSelection(test.bundle)
			if err != nil {
				t.Fatal(err)
			}
			if got := selection.UnknownClusters([]*fleet.Cluster{east}); !slices.Equal(got, test.want) {
				t.Errorf("unknown = %q, want %q", got, test.want)
			}
		})
	}
}
