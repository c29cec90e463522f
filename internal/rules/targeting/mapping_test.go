package targeting

import (
	"errors"
	"fmt"
	"math/rand"
	"testing"

	"github.com/google/go-cmp/cmp"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/targeting/targetingtest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

// mapping is of workspace "ws", unless it is moved.
func mapping(name string, bundles, namespaces *metav1.LabelSelector, modifiers ...func(*fleet.BundleNamespaceMapping)) *fleet.BundleNamespaceMapping {
	m := &fleet.BundleNamespaceMapping{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: name}, BundleSelector: bundles, NamespaceSelector: namespaces,
	}
	for _, modify := range modifiers {
		modify(m)
	}
	return m
}

func namespace(name string, pairs ...string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: targetingtest.Merged(nil, pairs)}}
}

func bundleLabelled(pairs ...string) func(*fleet.Bundle) {
	return func(b *fleet.Bundle) { b.Labels = targetingtest.Merged(b.Labels, pairs) }
}

func ofAgent(b *fleet.Bundle) {
	b.Annotations = map[string]string{fleet.AnnotationSetID: names.AgentBundleSet}
}

const resembles = `invalid label selector: "Resembles" is not a valid label selector operator`

// reachInWords is a Reach that can be compared.
type reachInWords struct {
	Namespaces []string
	Unknown    string
	Refused    []string
}

func inWords(r Reach) reachInWords {
	out := reachInWords{Namespaces: r.Namespaces, Refused: r.Refused}
	if r.Unknown != nil {
		out.Unknown = r.Unknown.Error()
	}
	return out
}

func TestReach(t *testing.T) {
	tiers := []*corev1.Namespace{namespace("ws"), namespace("gold-1", "tier", "gold"), namespace("gold-0", "tier", "gold"), namespace("plain")}
	everything, gold := targetingtest.Selector(), targetingtest.Selector("tier", "gold")
	elsewhere := func(m *fleet.BundleNamespaceMapping) { m.Namespace = "other" }
	tests := map[string]struct {
		bundle   *fleet.Bundle
		mappings []*fleet.BundleNamespaceMapping
		want     reachInWords
	}{
		"no mapping: only its own workspace": {targetingtest.Bundle(), nil, reachInWords{Namespaces: []string{"ws"}}},
		"mapping: all namespaces that it selects": {
			targetingtest.Bundle(bundleLabelled("team", "a")), []*fleet.BundleNamespaceMapping{mapping("m", targetingtest.Selector("team", "a"), gold)},
			reachInWords{Namespaces: []string{"gold-0", "gold-1", "ws"}},
		},
		"mapping does not select the Bundle: only its own workspace": {
			targetingtest.Bundle(bundleLabelled("team", "b")), []*fleet.BundleNamespaceMapping{mapping("m", targetingtest.Selector("team", "a"), gold)},
			reachInWords{Namespaces: []string{"ws"}},
		},
		"a mapping of another workspace is ignored": {
			targetingtest.Bundle(), []*fleet.BundleNamespaceMapping{mapping("m", everything, everything, elsewhere)},
			reachInWords{Namespaces: []string{"ws"}},
		},
		"empty selectors: everything, each namespace once": {
			targetingtest.Bundle(), []*fleet.BundleNamespaceMapping{mapping("m", everything, everything), mapping("n", everything, gold)},
			reachInWords{Namespaces: []string{"gold-0", "gold-1", "plain", "ws"}},
		},
		"several mappings: union": {
			targetingtest.Bundle(), []*fleet.BundleNamespaceMapping{mapping("m", everything, gold), mapping("n", everything, targetingtest.Selector("no", "such"))},
			reachInWords{Namespaces: []string{"gold-0", "gold-1", "ws"}},
		},
		"no selector of Bundles: no effect": {
			targetingtest.Bundle(), []*fleet.BundleNamespaceMapping{mapping("m", nil, everything)}, reachInWords{Namespaces: []string{"ws"}},
		},
		"no selector of namespaces: no effect": {
			targetingtest.Bundle(), []*fleet.BundleNamespaceMapping{mapping("m", everything, nil)}, reachInWords{Namespaces: []string{"ws"}},
		},
		"one selector is missing, the other is invalid: no effect": {
			targetingtest.Bundle(), []*fleet.BundleNamespaceMapping{mapping("m", targetingtest.Unparsable(), nil)}, reachInWords{Namespaces: []string{"ws"}},
		},
		"Bundle of an agent: only its own workspace": {
			targetingtest.Bundle(ofAgent), []*fleet.BundleNamespaceMapping{mapping("m", everything, everything), mapping("n", targetingtest.Unparsable(), everything)},
			reachInWords{Namespaces: []string{"ws"}},
		},
		"invalid selector of namespaces: other mappings still count": {
			targetingtest.Bundle(), []*fleet.BundleNamespaceMapping{mapping("m", everything, targetingtest.Unparsable()), mapping("n", everything, gold)},
			reachInWords{Namespaces: []string{"gold-0", "gold-1", "ws"}, Unknown: "BundleNamespaceMapping m: namespaceSelector: " + resembles},
		},
		"invalid selector of namespaces, Bundle is not selected: no effect": {
			targetingtest.Bundle(), []*fleet.BundleNamespaceMapping{mapping("m", targetingtest.Selector("team", "a"), targetingtest.Unparsable())},
			reachInWords{Namespaces: []string{"ws"}},
		},
		"invalid selector of Bundles: any Bundle may be meant": {
			targetingtest.Bundle(), []*fleet.BundleNamespaceMapping{mapping("m", targetingtest.Unparsable(), gold)},
			reachInWords{Namespaces: []string{"ws"}, Unknown: "BundleNamespaceMapping m: bundleSelector: " + resembles},
		},
		"several invalid selectors: the first by name is reported": {
			targetingtest.Bundle(), []*fleet.BundleNamespaceMapping{mapping("n", targetingtest.Unparsable(), gold), mapping("m", targetingtest.Unparsable(), targetingtest.Unparsable())},
			reachInWords{Namespaces: []string{"ws"}, Unknown: "BundleNamespaceMapping m: bundleSelector: " + resembles},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			random := rand.New(rand.NewSource(5))
			namespaces := append([]*corev1.Namespace(nil), tiers...)
			for range 10 { // in any order
				random.Shuffle(len(namespaces), func(i, j int) { namespaces[i], namespaces[j] = namespaces[j], namespaces[i] })
				random.Shuffle(len(test.mappings), func(i, j int) {
					test.mappings[i], test.mappings[j] = test.mappings[j], test.mappings[i]
				})
				var mappings []Mapping
				for _, m := range test.mappings {
					mappings = append(mappings, NewMapping(m))
				}
				reach := NewReach(test.bundle, mappings, namespaces)
				if diff := cmp.Diff(test.want, inWords(reach)); diff != "" {
					t.Fatalf("reach (-want +got):\n%s", diff)
				}
				if (reach.Unknown != nil) != errors.Is(reach.Unknown, ErrSelector) {
					t.Errorf("error = %v, want %v", reach.Unknown, ErrSelector)
				}
			}
		})
	}
}

func TestReach_WorkspacesMayRefuseMappings(t *testing.T) {
	accepting := func(namespace *corev1.Namespace, list string) *corev1.Namespace {
		namespace.Annotations = map[string]string{annotation.AcceptBundlesFrom: list}
		return namespace
	}
	tests := map[string]struct {
		list     string
		accepted bool
	}{
		"its list is empty: refused":                   {"", false},
		"its list is none: refused":                    {"none", false},
		"its list is none, with spaces: refused":       {" none ", false},
		"its list has another workspace: refused":      {"other", false},
		"its list has a longer name: refused":          {"ws-2,aws", false},
		"its list has the workspace: accepted":         {"ws", true},
		"its list has the workspace, too: accepted":    {"other, ws ,third", true},
		"its list has all":                             {"*", true},
		"its list has the workspace beside empty ones": {",ws,,", true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			namespaces := []*corev1.Namespace{accepting(namespace("ws"), "none"), accepting(namespace("away"), test.list), namespace("open")}
			want := reachInWords{Namespaces: []string{"away", "open", "ws"}}
			if !test.accepted {
				want = reachInWords{Namespaces: []string{"open", "ws"}, Refused: []string{"away"}}
			}
			reach := NewReach(targetingtest.Bundle(), []Mapping{NewMapping(mapping("m", targetingtest.Selector(), targetingtest.Selector()))}, namespaces)
			if diff := cmp.Diff(want, inWords(reach)); diff != "" {
				t.Errorf("reach (-want +got):\n%s", diff)
			}
			if reach.Excludes("away") == test.accepted || reach.Excludes("open") || reach.Excludes("ws") {
				t.Errorf("excluded: away %v, open %v, ws %v", reach.Excludes("away"), reach.Excludes("open"), reach.Excludes("ws"))
			}
		})
	}
}

func TestReachKnows(t *testing.T) {
	reach := Reach{Namespaces: []string{"a", "c", "e"}}
	for namespace, want := range map[string]bool{"a": true, "b": false, "c": true, "e": true, "f": false, "": false} {
		if got := reach.Knows(namespace); got != want {
			t.Errorf("Knows(%q) = %v, want %v", namespace, got, want)
		}
	}
}

func TestMapping_ErrNamesTheProblem(t *testing.T) {
	tests := map[string]struct {
		in     *fleet.BundleNamespaceMapping
		want   string
		broken bool
	}{
		"valid":                                 {mapping("m", targetingtest.Selector(), targetingtest.Selector("a", "b")), "<nil>", false},
		"no selector of Bundles":                {mapping("m", nil, targetingtest.Selector()), "BundleNamespaceMapping m: " + ErrMappingIncomplete.Error(), false},
		"no selector of namespaces":             {mapping("m", targetingtest.Selector(), nil), "BundleNamespaceMapping m: " + ErrMappingIncomplete.Error(), false},
		"the selector of Bundles":               {mapping("m", targetingtest.Unparsable(), targetingtest.Selector()), "BundleNamespaceMapping m: bundleSelector: " + resembles, true},
		"the selector of namespaces":            {mapping("m", targetingtest.Selector(), targetingtest.Unparsable()), "BundleNamespaceMapping m: namespaceSelector: " + resembles, true},
		"both selectors: the first is reported": {mapping("m", targetingtest.Unparsable(), targetingtest.Unparsable()), "BundleNamespaceMapping m: bundleSelector: " + resembles, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := NewMapping(test.in)
			if text := fmt.Sprint(got.Err()); text != test.want {
				t.Errorf("error = %s, want %s", text, test.want)
			}
			if got.Broken() != test.broken {
				t.Errorf("broken = %v, want %v", got.Broken(), test.broken)
			}
			if got.Workspace() != "ws" {
				t.Errorf("workspace = %q", got.Workspace())
			}
			if leads := got.LeadsTo(namespace("x", "a", "b")); leads != (test.want == "<nil>") {
				t.Errorf("it leads to a namespace: %v", leads)
			}
		})
	}
}
