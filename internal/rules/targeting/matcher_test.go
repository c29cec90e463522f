package targeting

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/rules/targeting/targetingtest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func TestMatch(t *testing.T) {
	east := targetingtest.Cluster("c-123", targetingtest.Labelled("env", "dev", fleet.LabelClusterDisplayName, "East"))
	dev := targetingtest.Group("dev", "env", "dev", targetingtest.GroupLabelled("tier", "low"))
	all := targetingtest.Group("all", "env", "dev", targetingtest.GroupLabelled("tier", "high"))
	tests := map[string]struct {
		criteria Criteria
		groups   []*fleet.ClusterGroup
		want     bool
	}{
		"no criteria match nothing":                   {Criteria{}, nil, false},
		"no criteria match nothing in a group either": {Criteria{}, []*fleet.ClusterGroup{dev}, false},
		"the name":                                        {Criteria{ClusterName: "c-123"}, nil, true},
		"the name for people":                             {Criteria{ClusterName: "East"}, nil, true},
		"names are compared exactly":                      {Criteria{ClusterName: "east"}, nil, false},
		"an empty selector matches everything":            {Criteria{ClusterSelector: targetingtest.Selector()}, nil, true},
		"a selector that holds":                           {Criteria{ClusterSelector: targetingtest.Selector("env", "dev")}, nil, true},
		"a selector that does not":                        {Criteria{ClusterSelector: targetingtest.Selector("env", "prod")}, nil, false},
		"name and selector must both hold":                {Criteria{ClusterName: "c-123", ClusterSelector: targetingtest.Selector("env", "prod")}, nil, false},
		"a group the cluster is in":                       {Criteria{ClusterGroup: "dev"}, []*fleet.ClusterGroup{all, dev}, true},
		"a group the cluster is not in":                   {Criteria{ClusterGroup: "prod"}, []*fleet.ClusterGroup{dev}, false},
		"a group, while the cluster is in none":           {Criteria{ClusterGroup: "dev"}, nil, false},
		"a group by its labels":                           {Criteria{ClusterGroupSelector: targetingtest.Selector("tier", "low")}, []*fleet.ClusterGroup{all, dev}, true},
		"no group has the labels":                         {Criteria{ClusterGroupSelector: targetingtest.Selector("tier", "none")}, []*fleet.ClusterGroup{all, dev}, false},
		"an empty group selector matches without a group": {Criteria{ClusterGroupSelector: targetingtest.Selector()}, nil, true},
		"one group must satisfy both name and labels":     {Criteria{ClusterGroup: "dev", ClusterGroupSelector: targetingtest.Selector("tier", "high")}, []*fleet.ClusterGroup{all, dev}, false},
		"all four hold": {
			Criteria{ClusterName: "East", ClusterSelector: targetingtest.Selector("env", "dev"), ClusterGroup: "dev", ClusterGroupSelector: targetingtest.Selector("tier", "low")},
			[]*fleet.ClusterGroup{all, dev}, true,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			matcher, err := NewMatcher(test.criteria)
			if err != nil {
				t.Fatal(err)
			}
			if got := matcher.Match(east, test.groups); got != test.want {
				t.Errorf("match = %v, want %v", got, test.want)
			}
		})
	}
}

func TestInvalidSelector_ErrorNamesIt(t *testing.T) {
	tests := map[string]struct {
		in   *fleet.Bundle
		want string
	}{
		"of a target": {
			targetingtest.Bundle(targetingtest.Targets(targetingtest.Everywhere(), fleet.BundleTarget{Name: "prod", ClusterSelector: targetingtest.Unparsable()})),
			`spec.targets[1] (prod): clusterSelector: invalid label selector: "Resembles" is not a valid label selector operator`,
		},
		"of a target's groups": {
			targetingtest.Bundle(targetingtest.Targets(fleet.BundleTarget{ClusterGroupSelector: targetingtest.Unparsable()})),
			`spec.targets[0]: clusterGroupSelector: invalid label selector: "Resembles" is not a valid label selector operator`,
		},
		"of a restriction": {
			targetingtest.Bundle(targetingtest.Restrictions(fleet.BundleTargetRestriction{Name: "r", ClusterSelector: targetingtest.Unparsable()})),
			`spec.targetRestrictions[0] (r): clusterSelector: invalid label selector: "Resembles" is not a valid label selector operator`,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := NewSelection(test.in)
			if !errors.Is(err, ErrSelector) {
				t.Fatalf("error = %v, want %v", err, ErrSelector)
			}
			if err.Error() != test.want {
				t.Errorf("error = %q, want %q", err, test.want)
			}
		})
	}
}

func TestGroups(t *testing.T) {
	elsewhere := targetingtest.Group("elsewhere", "env", "dev", func(g *fleet.ClusterGroup) { g.Namespace = "other" })
	broken := targetingtest.Group("broken", "", "", func(g *fleet.ClusterGroup) { g.Spec.Selector = targetingtest.Unparsable() })
	without := targetingtest.Group("without", "", "", func(g *fleet.ClusterGroup) { g.Spec.Selector = nil })
	all := targetingtest.Group("all", "", "", func(g *fleet.ClusterGroup) { g.Spec.Selector = &metav1.LabelSelector{} })
	dev := targetingtest.Group("dev", "env", "dev")
	groups := NewGroups([]*fleet.ClusterGroup{elsewhere, broken, without, all, dev})
	tests := map[string]struct {
		in   *fleet.Cluster
		want []string
	}{
		"those of its workspace that select it":         {targetingtest.Cluster("east", targetingtest.Labelled("env", "dev")), []string{"all", "dev"}},
		"an empty selector selects a cluster like this": {targetingtest.Cluster("east"), []string{"all"}},
		"none of another workspace":                     {targetingtest.Cluster("east", func(c *fleet.Cluster) { c.Namespace = "third" }), nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, g := range groups.Of(test.in) {
				got = append(got, g.Name)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("groups (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAddedGroups_AreThoseOfAllWorkspaces(t *testing.T) {
	var all Groups
	for _, workspace := range []string{"a", "b"} {
		good, broken := &fleet.ClusterGroup{}, &fleet.ClusterGroup{}
		good.Namespace, good.Name, good.Spec.Selector = workspace, "good", &metav1.LabelSelector{}
		broken.Namespace, broken.Name, broken.Spec.Selector = workspace, "broken", &metav1.LabelSelector{MatchLabels: map[string]string{"a": "not valid"}}
		of := NewGroups([]*fleet.ClusterGroup{good, broken})
		all.Add(of)
		if got := len(of.In("a", "b")); got != 2 {
			t.Errorf("the groups of workspace %s have become %d", workspace, got)
		}
	}
	var got []string
	for _, group := range all.In("a", "b", "none") {
		got = append(got, group.Namespace+"/"+group.Name)
	}
	if want := []string{"a/good", "a/broken", "b/good", "b/broken"}; !slices.Equal(got, want) {
		t.Errorf("groups %v, want %v", got, want)
	}
	cluster := &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "b", Name: "k"}}
	if got := all.Names(cluster); !slices.Equal(got, []string{"good", "broken"}) {
		t.Errorf("the cluster is in %v", got)
	}
}
