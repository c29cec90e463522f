package targetingtest

import (
	"encoding/json"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Cluster returns a Cluster in workspace "ws" that has a namespace.
func Cluster(name string, modifiers ...func(*fleet.Cluster)) *fleet.Cluster {
	c := &fleet.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: name},
		Status:     fleet.ClusterStatus{Namespace: "cluster-ws-" + name},
	}
	for _, modify := range modifiers {
		modify(c)
	}
	return c
}

func Labelled(pairs ...string) func(*fleet.Cluster) {
	return func(c *fleet.Cluster) { c.Labels = Merged(c.Labels, pairs) }
}

func annotated(pairs ...string) func(*fleet.Cluster) {
	return func(c *fleet.Cluster) { c.Annotations = Merged(c.Annotations, pairs) }
}

func Merged(in map[string]string, pairs []string) map[string]string {
	if in == nil {
		in = map[string]string{}
	}
	for i := 0; i < len(pairs); i += 2 {
		in[pairs[i]] = pairs[i+1]
	}
	return in
}

// Group returns a ClusterGroup that selects clusters by one label.
func Group(name, key, value string, modifiers ...func(*fleet.ClusterGroup)) *fleet.ClusterGroup {
	g := &fleet.ClusterGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: name},
		Spec:       fleet.ClusterGroupSpec{Selector: Selector(key, value)},
	}
	for _, modify := range modifiers {
		modify(g)
	}
	return g
}

func GroupLabelled(pairs ...string) func(*fleet.ClusterGroup) {
	return func(g *fleet.ClusterGroup) { g.Labels = Merged(g.Labels, pairs) }
}

func Selector(pairs ...string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: Merged(nil, pairs)}
}

// Unparsable returns a selector that the API server accepts but that cannot be parsed.
func Unparsable() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Resembles"}}}
}

// Bundle returns the Bundle ws/web.
func Bundle(modifiers ...func(*fleet.Bundle)) *fleet.Bundle {
	b := &fleet.Bundle{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "web"}}
	for _, modify := range modifiers {
		modify(b)
	}
	return b
}

func Targets(targets ...fleet.BundleTarget) func(*fleet.Bundle) {
	return func(b *fleet.Bundle) { b.Spec.Targets = append(b.Spec.Targets, targets...) }
}

func Restrictions(restrictions ...fleet.BundleTargetRestriction) func(*fleet.Bundle) {
	return func(b *fleet.Bundle) { b.Spec.TargetRestrictions = restrictions }
}

func AllMatches(b *fleet.Bundle) {
	b.Spec.TargetCustomizationMode = fleet.TargetCustomizationAllMatches
}

// Everywhere returns a target that selects all clusters.
func Everywhere(modifiers ...func(*fleet.BundleTarget)) fleet.BundleTarget {
	target := fleet.BundleTarget{ClusterSelector: &metav1.LabelSelector{}}
	for _, modify := range modifiers {
		modify(&target)
	}
	return target
}

func In(name string, modifiers ...func(*fleet.BundleTarget)) fleet.BundleTarget {
	target := Everywhere(modifiers...)
	target.ClusterName, target.ClusterSelector = name, nil
	return target
}

func InGroup(name string, modifiers ...func(*fleet.BundleTarget)) fleet.BundleTarget {
	target := Everywhere(modifiers...)
	target.ClusterGroup, target.ClusterSelector = name, nil
	return target
}

func DoNotDeploy(t *fleet.BundleTarget) { t.DoNotDeploy = true }

func NamespaceLabel(key, value string) func(*fleet.BundleTarget) {
	return func(t *fleet.BundleTarget) { t.NamespaceLabels = map[string]string{key: value} }
}

func Setting(key string, value any) func(*fleet.BundleTarget) {
	return func(t *fleet.BundleTarget) { t.Helm = Helm(key, value) }
}

func Helm(key string, value any) *fleet.HelmOptions {
	return &fleet.HelmOptions{Values: &fleet.GenericMap{Data: map[string]any{key: value}}}
}

func Options(t testing.TB, text string) fleet.BundleDeploymentOptions {
	t.Helper()
	var out fleet.BundleDeploymentOptions
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// Templated returns a Cluster with one label of a user, one of Fleet and one that templates do not see, and with
// similar annotations.
func Templated(t testing.TB, templateValues string) *fleet.Cluster {
	t.Helper()
	c := Cluster("east",
		Labelled("env", "dev", "fleet.cattle.io/cluster", "east", "management.cattle.io/cluster-display-name", "East", "objectset.rio.cattle.io/hash", "0", "kubectl.kubernetes.io/x", "y"),
		annotated("note", "n", "fleet.cattle.io/secret", "s", "kubectl.kubernetes.io/last-applied-configuration", "l"),
	)
	if templateValues != "" {
		c.Spec.TemplateValues = &fleet.GenericMap{}
		if err := json.Unmarshal([]byte(templateValues), c.Spec.TemplateValues); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

func Key(o metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
}
