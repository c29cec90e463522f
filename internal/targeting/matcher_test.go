package targeting

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func TestMatch(t *testing.T) {
	east := cluster("c-123", labelled("env", "dev", fleet.LabelClusterDisplayName, "East"))
	dev := group("dev", "env", "dev", groupLabelled("tier", "low"))
	all := group("all", "env", "dev", groupLabelled("tier", "high"))
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
		"an empty selector matches everything":            {Criteria{ClusterSelector: selector()}, nil, true},
		"a selector that holds":                           {Criteria{ClusterSelector: selector("env", "dev")}, nil, true},
		"a selector that does not":                        {Criteria{ClusterSelector: selector("env", "prod")}, nil, false},
		"name and selector must both hold":                {Criteria{ClusterName: "c-123", ClusterSelector: selector("env", "prod")}, nil, false},
		"a group the cluster is in":                       {Criteria{ClusterGroup: "dev"}, []*fleet.ClusterGroup{all, dev}, true},
		"a group the cluster is not in":                   {Criteria{ClusterGroup: "prod"}, []*fleet.ClusterGroup{dev}, false},
		"a group, while the cluster is in none":           {Criteria{ClusterGroup: "dev"}, nil, false},
		"a group by its labels":                           {Criteria{ClusterGroupSelector: selector("tier", "low")}, []*fleet.ClusterGroup{all, dev}, true},
		"no group has the labels":                         {Criteria{ClusterGroupSelector: selector("tier", "none")}, []*fleet.ClusterGroup{all, dev}, false},
		"an empty group selector matches without a group": {Criteria{ClusterGroupSelector: selector()}, nil, true},
		"one group must satisfy both name and labels":     {Criteria{ClusterGroup: "dev", ClusterGroupSelector: selector("tier", "high")}, []*fleet.ClusterGroup{all, dev}, false},
		"all four hold": {
			Criteria{ClusterName: "East", ClusterSelector: selector("env", "dev"), ClusterGroup: "dev", ClusterGroupSelector: selector("tier", "low")},
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

func TestSelectorsThatDoNotParse(t *testing.T) {
	tests := map[string]struct {
		in   *fleet.Bundle
		want string
	}{
		"of a target": {
			bundle(targets(everywhere(), fleet.BundleTarget{Name: "prod", ClusterSelector: unparsable()})),
			`target 1 (prod): clusterSelector: invalid label selector: "Resembles" is not a valid label selector operator`,
		},
		"of a target's groups": {
			bundle(targets(fleet.BundleTarget{ClusterGroupSelector: unparsable()})),
			`target 0: clusterGroupSelector: invalid label selector: "Resembles" is not a valid label selector operator`,
		},
		"of a restriction": {
			bundle(restrictions(fleet.BundleTargetRestriction{Name: "r", ClusterSelector: unparsable()})),
			`target restriction 0 (r): clusterSelector: invalid label selector: "Resembles" is not a valid label selector operator`,
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
	elsewhere := group("elsewhere", "env", "dev", func(g *fleet.ClusterGroup) { g.Namespace = "other" })
	broken := group("broken", "", "", func(g *fleet.ClusterGroup) { g.Spec.Selector = unparsable() })
	without := group("without", "", "", func(g *fleet.ClusterGroup) { g.Spec.Selector = nil })
	all := group("all", "", "", func(g *fleet.ClusterGroup) { g.Spec.Selector = &metav1.LabelSelector{} })
	dev := group("dev", "env", "dev")
	groups := NewGroups([]*fleet.ClusterGroup{elsewhere, broken, without, all, dev})
	tests := map[string]struct {
		in   *fleet.Cluster
		want []string
	}{
		"those of its workspace that select it":         {cluster("east", labelled("env", "dev")), []string{"all", "dev"}},
		"an empty selector selects a cluster like this": {cluster("east"), []string{"all"}},
		"none of another workspace":                     {cluster("east", func(c *fleet.Cluster) { c.Namespace = "third" }), nil},
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
