package bundle

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/hubtest"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// The Bundle of an agent lists only its own cluster. An agent's Bundle that is not valid lists all, like other
// Bundles.
func TestClustersFor(t *testing.T) {
	ofAgent := func(name string, targets ...string) *fleet.Bundle {
		b := bundle()
		b.Name, b.Annotations = name, map[string]string{fleet.AnnotationSetID: names.AgentBundleSet}
		for _, target := range targets {
			b.Spec.Targets = append(b.Spec.Targets, fleet.BundleTarget{ClusterName: target})
		}
		return b
	}
	users := ofAgent(names.AgentBundle("two"), "two")
	users.Annotations = nil
	all := []string{"one", "three", "two"}
	for name, test := range map[string]struct {
		bundle *fleet.Bundle
		want   []string
	}{
		"Bundle of an agent: its cluster":              {ofAgent(names.AgentBundle("two"), "two"), []string{"two"}},
		"a second target names the cluster":            {ofAgent(names.AgentBundle("two"), "one", "two"), []string{"two"}},
		"target names another cluster":                 {ofAgent(names.AgentBundle("two"), "one"), all},
		"target names the cluster by its display name": {ofAgent(names.AgentBundle("two"), "Zwei"), all},
		"no targets": {ofAgent(names.AgentBundle("two")), all},
		"Bundle of a user with the name of an agent's": {users, all},
	} {
		t.Run(name, func(t *testing.T) {
			hub := hubtest.New(t)
			for _, c := range all {
				hub.Put(cluster(c))
			}
			hub.Put(cluster("two", func(c *fleet.Cluster) { c.Namespace = "elsewhere" }))
			h := &handler{app: hub.App}
			found, err := h.clustersFor(test.bundle, cluster("two").Namespace)
			var got []string
			for _, c := range found {
				got = append(got, c.Name)
			}
			slices.Sort(got)
			if diff := cmp.Diff(test.want, got); err != nil || diff != "" {
				t.Errorf("clusters (-want +got), %v:\n%s", err, diff)
			}
		})
	}
}

// A Cluster can be given a name whose computed namespace is that of another Cluster, since long names are cut. Nothing is
// deployed there for it.
func TestNamespaceOfAnotherCluster_GetsNoDeployment(t *testing.T) {
	long := func(c *fleet.Cluster) {
		c.Name = strings.Repeat("a-name-that-is-cut-", 4)
		c.Status.Namespace = names.ClusterNamespace(c.Namespace, c.Name)
	}
	attacker := cluster("x", long)
	for owner, want := range map[string]string{"victim": "", attacker.Name: attacker.Status.Namespace} {
		hub := hubtest.New(t)
		hub.Put(attacker.DeepCopy(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name: attacker.Status.Namespace, Annotations: map[string]string{fleet.AnnotationCluster: owner, fleet.AnnotationClusterNamespace: attacker.Namespace},
		}})
		h := &handler{app: hub.App}
		cached, err := h.clustersFor(bundle(), attacker.Namespace)
		if err != nil {
			t.Fatal(err)
		}
		placed, err := h.placed(slices.Clone(cached))
		if err != nil || len(placed) != 1 || placed[0].Status.Namespace != want {
			t.Errorf("made for %s: %v, %v, want namespace %q", owner, placed, err, want)
		}
		if cached[0].Status.Namespace != attacker.Status.Namespace {
			t.Error("the cache was changed")
		}
	}
}

func TestPass_ParsesLargeSelectorsOfGroupsOnce(t *testing.T) {
	b := bundle(toGroup("prod"))
	d := newDelivery(t, b, 1)
	var values []string
	for i := range 20_000 {
		values = append(values, fmt.Sprintf("%x", i))
	}
	prod := group("prod", &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "env", Operator: metav1.LabelSelectorOpNotIn, Values: values}}})
	prod.UID = "u-prod"
	d.hub.Put(prod)
	got := testing.AllocsPerRun(1, func() {
		in, err := d.gather(t.Context(), b)
		if targets := in.selected().Targets; err != nil || len(targets) != 1 {
			t.Errorf("%d targets, error %v", len(targets), err)
		}
	})
	if got > 2000 {
		t.Errorf("the second pass takes %.0f allocations", got)
	}
}
