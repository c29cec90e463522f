package targeting

import (
	"errors"
	"fmt"
	"math/rand"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/fleet-hub/fleet/internal/rules/targeting/targetingtest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func brokenGroup(name string, modifiers ...func(*fleet.ClusterGroup)) *fleet.ClusterGroup {
	modifiers = append(modifiers, func(g *fleet.ClusterGroup) { g.Spec.Selector = targetingtest.Unparsable() })
	return targetingtest.Group(name, "", "", modifiers...)
}

func TestBrokenGroup_ClusterIsUndecidedIfItMatters(t *testing.T) {
	prod := targetingtest.Group("prod", "env", "prod")
	tests := map[string]struct {
		bundle *fleet.Bundle
		groups []*fleet.ClusterGroup
		want   string
	}{
		"no group is broken": {targetingtest.Bundle(targetingtest.Targets(targetingtest.InGroup("prod"))), []*fleet.ClusterGroup{prod}, "<nil>"},
		"no target selects groups": {
			targetingtest.Bundle(targetingtest.Targets(targetingtest.Everywhere())), []*fleet.ClusterGroup{brokenGroup("dev")}, "<nil>",
		},
		"another group is broken": {
			targetingtest.Bundle(targetingtest.Targets(targetingtest.InGroup("prod"))), []*fleet.ClusterGroup{prod, brokenGroup("dev")}, "<nil>",
		},
		"the selected group is broken": {
			targetingtest.Bundle(targetingtest.Targets(targetingtest.InGroup("dev"))), []*fleet.ClusterGroup{prod, brokenGroup("dev")}, "ClusterGroup dev: selector: " + resembles,
		},
		"a broken group has the selected labels": {
			targetingtest.Bundle(targetingtest.Targets(fleet.BundleTarget{ClusterGroupSelector: targetingtest.Selector("tier", "low")})),
			[]*fleet.ClusterGroup{brokenGroup("dev", targetingtest.GroupLabelled("tier", "low"))}, "ClusterGroup dev: selector: " + resembles,
		},
		"a broken group has other labels": {
			targetingtest.Bundle(targetingtest.Targets(fleet.BundleTarget{ClusterGroupSelector: targetingtest.Selector("tier", "low")})),
			[]*fleet.ClusterGroup{brokenGroup("dev", targetingtest.GroupLabelled("tier", "high"))}, "<nil>",
		},
		"an earlier target selects the cluster": {
			targetingtest.Bundle(targetingtest.Targets(targetingtest.In("east"), targetingtest.InGroup("dev"))), []*fleet.ClusterGroup{brokenGroup("dev")}, "<nil>",
		},
		"a later target has other options": {
			targetingtest.Bundle(targetingtest.Targets(targetingtest.InGroup("dev"), targetingtest.In("east"))), []*fleet.ClusterGroup{brokenGroup("dev")}, "ClusterGroup dev: selector: " + resembles,
		},
		"a customisation for the broken group": {
			targetingtest.Bundle(targetingtest.Targets(targetingtest.InGroup("dev", targetingtest.Setting("a", 1)), targetingtest.Everywhere()), targetingtest.Restrictions(fleet.BundleTargetRestriction{ClusterSelector: targetingtest.Selector()})),
			[]*fleet.ClusterGroup{brokenGroup("dev")}, "ClusterGroup dev: selector: " + resembles,
		},
		"an earlier customisation matches anyway": {
			targetingtest.Bundle(targetingtest.Targets(targetingtest.In("east", targetingtest.Setting("a", 0)), targetingtest.InGroup("dev", targetingtest.Setting("a", 1)), targetingtest.Everywhere()), targetingtest.Restrictions(fleet.BundleTargetRestriction{ClusterSelector: targetingtest.Selector()})),
			[]*fleet.ClusterGroup{brokenGroup("dev")}, "<nil>",
		},
		"a restriction to the broken group": {
			targetingtest.Bundle(targetingtest.Targets(targetingtest.Everywhere()), targetingtest.Restrictions(fleet.BundleTargetRestriction{ClusterGroup: "dev"})),
			[]*fleet.ClusterGroup{brokenGroup("dev")}, "ClusterGroup dev: selector: " + resembles,
		},
		"an exclusion of the broken group": {
			targetingtest.Bundle(targetingtest.Targets(targetingtest.InGroup("dev", targetingtest.DoNotDeploy), targetingtest.Everywhere())), []*fleet.ClusterGroup{brokenGroup("dev")}, "ClusterGroup dev: selector: " + resembles,
		},
		"the cluster is excluded anyway": {
			targetingtest.Bundle(targetingtest.Targets(targetingtest.In("east", targetingtest.DoNotDeploy), targetingtest.InGroup("dev"))), []*fleet.ClusterGroup{brokenGroup("dev")}, "<nil>",
		},
		"a broken group of another workspace does not matter": {
			targetingtest.Bundle(targetingtest.Targets(targetingtest.InGroup("dev"))),
			[]*fleet.ClusterGroup{brokenGroup("dev", func(g *fleet.ClusterGroup) { g.Namespace = "other" })}, "<nil>",
		},
		"several broken groups matter: the first by name is reported": {
			targetingtest.Bundle(targetingtest.Targets(fleet.BundleTarget{ClusterGroupSelector: targetingtest.Selector("tier", "low")})),
			[]*fleet.ClusterGroup{brokenGroup("z", targetingtest.GroupLabelled("tier", "low")), brokenGroup("a"), brokenGroup("m", targetingtest.GroupLabelled("tier", "low"))},
			"ClusterGroup m: selector: " + resembles,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			selection, err := NewSelection(test.bundle)
			if err != nil {
				t.Fatal(err)
			}
			east := targetingtest.Cluster("east", targetingtest.Labelled("env", "dev"))
			err = selection.Undecided(east, NewGroups(test.groups))
			if got := fmt.Sprint(err); got != test.want {
				t.Errorf("undecided because of %s, want %s", got, test.want)
			}
			if err == nil {
				return
			}
			if !errors.Is(err, ErrSelector) {
				t.Errorf("error = %v, want %v", err, ErrSelector)
			}
			if !selection.Picks(east, NewGroups(test.groups)) {
				t.Error("who asks which Bundles a cluster matters to is not told of this one")
			}
		})
	}
}

// The result is the same whichever subset of the broken groups the cluster belongs to.
func TestDecidedCluster_DoesNotDependOnBrokenGroups(t *testing.T) {
	random := rand.New(rand.NewSource(7))
	tiers := []string{"low", "mid", "high"}
	var decided, undecided int
	for range 5000 {
		b := randomBundle(random, tiers)
		selection, err := NewSelection(b)
		if err != nil {
			t.Fatal(err)
		}
		east := targetingtest.Cluster("c0", targetingtest.Labelled("env", "prod"))
		healthy := []*fleet.ClusterGroup{targetingtest.Group("g0", "env", "prod", targetingtest.GroupLabelled("tier", tiers[random.Intn(3)]))}[:random.Intn(2)]
		var broken []*fleet.ClusterGroup
		for i := range 1 + random.Intn(3) {
			broken = append(broken, brokenGroup(fmt.Sprint("g", i+1), targetingtest.GroupLabelled("tier", tiers[random.Intn(3)])))
		}
		if selection.Undecided(east, NewGroups(slices.Concat(healthy, broken))) != nil {
			undecided++
			continue
		}
		decided++
		want, wanted := selection.choose(east, NewGroups(healthy).Of(east))
		for subset := range 1 << len(broken) {
			members := slices.Clone(healthy)
			for i, g := range broken {
				if subset&(1<<i) != 0 {
					repaired := g.DeepCopy()
					repaired.Spec.Selector = &metav1.LabelSelector{}
					members = append(members, repaired)
				}
			}
			got, picked := selection.choose(east, NewGroups(members).Of(east))
			if picked != wanted || !slices.Equal(want.overlays, got.overlays) {
				t.Fatalf("decided, but in groups %b the outcome is another: %v, %+v, want %v, %+v\nof %+v", subset, picked, got, wanted, want, b.Spec)
			}
		}
	}
	if decided < 500 || undecided < 500 {
		t.Errorf("%d decided, %d undecided: the Bundles are too much alike", decided, undecided)
	}
}

func randomBundle(random *rand.Rand, tiers []string) *fleet.Bundle {
	criterion := func() (group string, selects *metav1.LabelSelector, clusters *metav1.LabelSelector) {
		switch random.Intn(5) {
		case 0:
			return fmt.Sprint("g", random.Intn(4)), nil, nil
		case 1:
			return "", targetingtest.Selector("tier", tiers[random.Intn(3)]), nil
		case 2:
			return fmt.Sprint("g", random.Intn(4)), targetingtest.Selector("tier", tiers[random.Intn(3)]), nil
		case 3:
			return "", nil, targetingtest.Selector("env", []string{"prod", "dev"}[random.Intn(2)])
		default:
			return "", &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: "tier", Operator: metav1.LabelSelectorOpNotIn, Values: []string{tiers[random.Intn(3)]}},
			}}, nil
		}
	}
	b := targetingtest.Bundle()
	if random.Intn(2) == 0 {
		targetingtest.AllMatches(b)
	}
	for range random.Intn(3) {
		var r fleet.BundleTargetRestriction
		r.ClusterGroup, r.ClusterGroupSelector, r.ClusterSelector = criterion()
		b.Spec.TargetRestrictions = append(b.Spec.TargetRestrictions, r)
	}
	for i := range 1 + random.Intn(4) {
		target := fleet.BundleTarget{DoNotDeploy: random.Intn(4) == 0}
		target.ClusterGroup, target.ClusterGroupSelector, target.ClusterSelector = criterion()
		targetingtest.Setting("from", i)(&target)
		b.Spec.Targets = append(b.Spec.Targets, target)
	}
	return b
}

func TestGroupSelector(t *testing.T) {
	tests := map[string]struct {
		in    *fleet.ClusterGroup
		picks bool
		err   string
	}{
		"a selector that matches":        {targetingtest.Group("g", "env", "dev"), true, "<nil>"},
		"a selector that does not match": {targetingtest.Group("g", "env", "prod"), false, "<nil>"},
		"an empty selector":              {targetingtest.Group("g", "", "", func(g *fleet.ClusterGroup) { g.Spec.Selector = targetingtest.Selector() }), true, "<nil>"},
		"none":                           {targetingtest.Group("g", "", "", func(g *fleet.ClusterGroup) { g.Spec.Selector = nil }), false, "<nil>"},
		"an unknown operator":            {brokenGroup("g"), false, "ClusterGroup g: selector: " + resembles},
		"a value with a blank": {
			targetingtest.Group("g", "env", "a b"), false,
			`ClusterGroup g: selector: invalid label selector: values[0][env]: Invalid value: "a b": a valid label must be an empty string or consist of alphanumeric characters, ` +
				`'-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')`,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			selector, err := GroupSelector(test.in)
			if got := fmt.Sprint(err); got != test.err {
				t.Errorf("error = %s, want %s", got, test.err)
			}
			if got := selector.Matches(labels.Set{"env": "dev"}); got != test.picks {
				t.Errorf("picks = %v, want %v", got, test.picks)
			}
		})
	}
}
