package targeting

import (
	"slices"
	"testing"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func both(group string, key, value string) fleet.BundleTarget {
	return inGroup(group, func(t *fleet.BundleTarget) { t.ClusterGroupSelector = selector(key, value) })
}

func TestUnknownGroups(t *testing.T) {
	prod, dev := group("prod", "env", "prod"), group("dev", "env", "dev")
	tests := map[string]struct {
		bundle *fleet.Bundle
		want   []string
	}{
		"no group is named":           {bundle(targets(everywhere())), nil},
		"all are there":               {bundle(targets(inGroup("prod"), inGroup("dev"))), nil},
		"one is not":                  {bundle(targets(inGroup("prod"), inGroup("test"))), []string{"target 1: clusterGroup test"}},
		"a target with a name":        {bundle(targets(inGroup("test", func(t *fleet.BundleTarget) { t.Name = "tests" }))), []string{"target 0 (tests): clusterGroup test"}},
		"a restriction":               {bundle(targets(everywhere()), restrictions(fleet.BundleTargetRestriction{ClusterGroup: "test"})), []string{"target restriction 0: clusterGroup test"}},
		"a customisation":             {bundle(targets(inGroup("x"), everywhere()), restrictions(fleet.BundleTargetRestriction{ClusterGroup: "prod"})), []string{"target 0: clusterGroup x"}},
		"one that is named twice":     {bundle(targets(inGroup("x"), inGroup("x"))), []string{"target 0: clusterGroup x", "target 1: clusterGroup x"}},
		"a selector of groups is not": {bundle(targets(fleet.BundleTarget{ClusterGroupSelector: selector("a", "b")})), nil},
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
	prod := group("prod", "env", "prod")
	tests := map[string]struct {
		bundle  *fleet.Bundle
		cluster *fleet.Cluster
		want    bool
	}{
		"the group could have had any cluster":           {bundle(targets(inGroup("gone"))), cluster("east"), true},
		"also one of other groups":                       {bundle(targets(inGroup("gone"))), cluster("east", labelled("env", "prod")), true},
		"whatever labels the group had":                  {bundle(targets(both("gone", "tier", "1"))), cluster("east"), true},
		"what else is asked for counts":                  {bundle(targets(inGroup("gone", func(t *fleet.BundleTarget) { t.ClusterName = "west" }))), cluster("east"), false},
		"a group that is there has the members it has":   {bundle(targets(inGroup("prod"), inGroup("gone", doNotDeploy))), cluster("east"), false},
		"a group that is there, and its member":          {bundle(targets(inGroup("prod"), inGroup("gone"))), cluster("east", labelled("env", "prod")), true},
		"a restriction to it":                            {bundle(targets(everywhere()), restrictions(fleet.BundleTargetRestriction{ClusterGroup: "gone"})), cluster("east"), true},
		"a restriction to another one":                   {bundle(targets(inGroup("gone")), restrictions(fleet.BundleTargetRestriction{ClusterGroup: "prod"})), cluster("east"), false},
		"it would not be deployed there":                 {bundle(targets(inGroup("gone", doNotDeploy))), cluster("east"), false},
		"an agent's Bundle stays with its cluster alone": {agentOf("west", func(b *fleet.Bundle) { b.Spec.Targets = []fleet.BundleTarget{inGroup("gone")} }), cluster("east"), false},
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
