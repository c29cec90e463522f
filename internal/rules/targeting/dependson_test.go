package targeting

import (
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/fleet-hub/fleet/internal/rules/targeting/targetingtest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// depending is a Bundle by name, with what it depends on by name.
func depending(name string, on ...string) *fleet.Bundle {
	b := targetingtest.Bundle(func(b *fleet.Bundle) { b.Name = name })
	for _, other := range on {
		b.Spec.DependsOn = append(b.Spec.DependsOn, fleet.BundleRef{Name: other})
	}
	return b
}

func TestCircle(t *testing.T) {
	bySelector := func(name string, selector *metav1.LabelSelector) *fleet.Bundle {
		b := depending(name)
		b.Spec.DependsOn = []fleet.BundleRef{{Selector: selector}}
		return b
	}
	accepting := depending("a", "b")
	accepting.Spec.DependsOn[0].AcceptedStates = []fleet.BundleState{fleet.Ready, fleet.WaitApplied}
	modified := depending("a", "b")
	modified.Spec.DependsOn[0].AcceptedStates = []fleet.BundleState{fleet.Ready, fleet.Modified}
	teamed := depending("a", "b")
	teamed.Labels = map[string]string{"team": "x", "objectset.rio.cattle.io/hash": "h"}
	nothing := depending("a")
	nothing.Spec.DependsOn = []fleet.BundleRef{{}}

	tests := map[string]struct {
		all  []*fleet.Bundle // the first is asked about
		want []string
	}{
		"nothing to depend on":     {[]*fleet.Bundle{depending("a")}, nil},
		"a chain":                  {[]*fleet.Bundle{depending("a", "b"), depending("b", "c"), depending("c")}, nil},
		"itself":                   {[]*fleet.Bundle{depending("a", "a")}, []string{"a"}},
		"one another":              {[]*fleet.Bundle{depending("a", "b"), depending("b", "a")}, []string{"a", "b"}},
		"around three":             {[]*fleet.Bundle{depending("a", "b"), depending("b", "c"), depending("c", "a")}, []string{"a", "b", "c"}},
		"the shortest of two ways": {[]*fleet.Bundle{depending("a", "b", "c"), depending("b", "d"), depending("c", "a"), depending("d", "a")}, []string{"a", "c"}},
		"depending on a cycle without being part of it": {[]*fleet.Bundle{depending("a", "b"), depending("b", "c"), depending("c", "b")}, nil},
		"a missing dependency":                          {[]*fleet.Bundle{depending("a", "b")}, nil},
		"by selector":                                   {[]*fleet.Bundle{teamed, bySelector("b", targetingtest.Selector("team", "x"))}, []string{"a", "b"}},
		"by the label with its name":                    {[]*fleet.Bundle{depending("a", "b"), bySelector("b", targetingtest.Selector("fleet.cattle.io/bundle-name", "a"))}, []string{"a", "b"}},
		"labels that BundleDeployments lack":            {[]*fleet.Bundle{teamed, bySelector("b", targetingtest.Selector("objectset.rio.cattle.io/hash", "h"))}, nil},
		"a selector that does not parse":                {[]*fleet.Bundle{depending("a", "b"), bySelector("b", targetingtest.Unparsable())}, nil},
		"an empty reference":                            {[]*fleet.Bundle{nothing}, nil},
		"accepted states: not deployed":                 {[]*fleet.Bundle{accepting, depending("b", "a")}, nil},
		"accepted states: modified":                     {[]*fleet.Bundle{modified, depending("b", "a")}, []string{"a", "b"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := Circle(test.all[0], test.all); !slices.Equal(got, test.want) {
				t.Errorf("circle = %q, want %q", got, test.want)
			}
		})
	}
}

func TestCircle_GivesUpWhereItWouldTakeTooLong(t *testing.T) {
	const bundles, references = 20, 20_000
	var all []*fleet.Bundle
	for i := range bundles {
		b := depending(fmt.Sprintf("b%d", i), fmt.Sprintf("b%d", (i+1)%bundles))
		slow := slices.Repeat([]fleet.BundleRef{{Selector: targetingtest.Selector("team", "none")}}, references)
		b.Spec.DependsOn = append(slow, b.Spec.DependsOn...)
		all = append(all, b)
	}
	s := &search{all: all, byName: map[string]*fleet.Bundle{}, labels: map[string]labels.Set{}, left: maxSteps}
	s.dependencies(all[0])
	if s.left >= 0 || s.left < -100 {
		t.Errorf("%d steps are left: want none, and no more steps than allowed", s.left)
	}
	if got := Circle(all[0], all); got != nil {
		t.Errorf("circle = %q: want none", got)
	}
}

func TestCircle_AlongAWholeWorkspace(t *testing.T) {
	const bundles = 5000
	var all []*fleet.Bundle
	for i := range bundles {
		all = append(all, depending(fmt.Sprintf("b%d", i), fmt.Sprintf("b%d", (i+1)%bundles)))
	}
	if got := Circle(all[0], all); len(got) != bundles || got[0] != "b0" || got[bundles-1] != all[bundles-1].Name {
		t.Errorf("a cycle of %d Bundles: want %d", len(got), bundles)
	}
}

func TestCheckName(t *testing.T) {
	long := func(n int) string { return string(slices.Repeat([]byte("a"), n)) }
	for n, fails := range map[int]bool{1: false, 53: false, 54: false, 63: false, 64: true, 253: true} {
		if err := CheckName(long(n)); (err != nil) != fails {
			t.Errorf("a name of %d characters: %v", n, err)
		}
	}
	got := targetsOf(t, targetingtest.Bundle(targetingtest.Targets(targetingtest.Everywhere())), []*fleet.Cluster{targetingtest.Cluster(long(64)), targetingtest.Cluster("east")})
	if len(got) != 2 || got[0].Err == nil || got[1].Err != nil {
		t.Errorf("targets = %+v, want an error for the first alone", got)
	}
}
