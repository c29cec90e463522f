package targeting

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fleet-hub/fleet/internal/rules/targeting/targetingtest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// takingAll is a Bundle that takes all it can from a cluster.
func takingAll() *fleet.Bundle {
	return targetingtest.Bundle(targetingtest.Targets(targetingtest.Everywhere()), func(b *fleet.Bundle) {
		b.Spec.Helm = &fleet.HelmOptions{Values: &fleet.GenericMap{Data: map[string]any{
			"name": "${ .ClusterName }", "label": "global.fleet.clusterLabels.env", "values": "${ toJson .ClusterValues }",
			"annotations": "${ toJson .ClusterAnnotations }", "labels": "${ toJson .ClusterLabels }",
		}}}
	})
}

// Targets with different deployment IDs have different fingerprints. The reverse need not hold.
func TestFingerprint_DistinguishesDeploymentIDs(t *testing.T) {
	labelled := func(key, value string) func(*fleet.Cluster) {
		return func(c *fleet.Cluster) {
			if c.Labels == nil {
				c.Labels = map[string]string{}
			}
			c.Labels[key] = value
		}
	}
	tests := map[string]struct {
		change func(*fleet.Cluster)
		same   bool
	}{
		"nothing":                            {func(*fleet.Cluster) {}, true},
		"a heartbeat":                        {func(c *fleet.Cluster) { c.Status.Agent.Namespace, c.ResourceVersion = "x", "8" }, true},
		"a summary":                          {func(c *fleet.Cluster) { c.Status.Summary.Ready = 4 }, true},
		"a label's value":                    {labelled("env", "test"), false},
		"another label":                      {labelled("more", "one"), false},
		"an annotation":                      {func(c *fleet.Cluster) { c.Annotations = map[string]string{"a": "b"} }, false},
		"template values":                    {func(c *fleet.Cluster) { c.Spec.TemplateValues = &fleet.GenericMap{Data: map[string]any{"a": "b"}} }, false},
		"a key that was a value":             {func(c *fleet.Cluster) { c.Labels = map[string]string{"prod": "env"} }, false},
		"another cluster's name":             {func(c *fleet.Cluster) { c.Name = "other" }, false},
		"the same name in another workspace": {func(c *fleet.Cluster) { c.Namespace = "other" }, false},
		"no labels":                          {func(c *fleet.Cluster) { c.Labels = nil }, false},
		"a label as an annotation":           {func(c *fleet.Cluster) { c.Labels, c.Annotations = nil, map[string]string{"env": "prod"} }, false},
		"an active customisation":            {labelled("custom", "true"), false},
	}
	of := func(t *testing.T, c *fleet.Cluster) Target {
		t.Helper()
		s, err := NewSelection(takingAll())
		if err != nil {
			t.Fatal(err)
		}
		found := s.Targets("s-1", []*fleet.Cluster{c}, NewGroups(nil), nil)
		if len(found) != 1 || found[0].Err != nil || found[0].Fingerprint == 0 {
			t.Fatalf("targets %+v", found)
		}
		return found[0]
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			changed := targetingtest.Cluster("one", labelled("env", "prod"))
			before := of(t, targetingtest.Cluster("one", labelled("env", "prod")))
			test.change(changed)
			after := of(t, changed)
			if same := before.Fingerprint == after.Fingerprint; same != test.same {
				t.Errorf("the same fingerprint: %t", same)
			}
			if before.Fingerprint == after.Fingerprint && before.DeploymentID != after.DeploymentID {
				t.Error("a fingerprint stands for two deployment IDs")
			}
		})
	}
}

func TestFingerprint_DistinguishesChosenTargets(t *testing.T) {
	b := targetingtest.Bundle(targetingtest.Targets(fleet.BundleTarget{ClusterGroup: "a"}, fleet.BundleTarget{ClusterGroup: "b"}))
	s, err := NewSelection(b)
	if err != nil {
		t.Fatal(err)
	}
	c := targetingtest.Cluster("one")
	seen := map[Fingerprint]bool{}
	for i := range b.Spec.Targets {
		seen[s.fingerprint(c, chosen{overlays: []*fleet.BundleTarget{&b.Spec.Targets[i]}})] = true
	}
	seen[s.fingerprint(c, chosen{overlays: []*fleet.BundleTarget{&b.Spec.Targets[1], &b.Spec.Targets[0]}})] = true
	seen[s.fingerprint(c, chosen{})] = true
	if len(seen) != 4 {
		t.Errorf("%d fingerprints of four choices", len(seen))
	}
}

func TestKnownDeploymentID_CompletedTargetIsTheSame(t *testing.T) {
	s, err := NewSelection(takingAll())
	if err != nil {
		t.Fatal(err)
	}
	clusters := []*fleet.Cluster{targetingtest.Cluster("b", func(c *fleet.Cluster) { c.Labels = map[string]string{"n": "b"} }), targetingtest.Cluster("a")}
	want := s.Targets("s-1", clusters, NewGroups(nil), nil)
	ids := map[string]string{}
	for _, target := range want {
		ids[target.Cluster.Name] = target.DeploymentID
	}
	asked := 0
	got := s.Targets("s-1", clusters, NewGroups(nil), func(c *fleet.Cluster, as Fingerprint) (string, bool) {
		asked++
		for _, target := range want {
			if target.Cluster == c && target.Fingerprint != as {
				t.Errorf("%s has another fingerprint", c.Name)
			}
		}
		return ids[c.Name], true
	})
	if asked != 2 || len(got) != 2 {
		t.Fatalf("%d asked about, %d found", asked, len(got))
	}
	for i, target := range got {
		if target.Options.Helm != nil || target.DeploymentID != want[i].DeploymentID {
			t.Errorf("not as known: %+v", target)
		}
		complete, err := target.Complete()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want[i], complete, cmp.FilterPath(func(p cmp.Path) bool { return p.String() == "Pending" }, cmp.Ignore())); diff != "" {
			t.Errorf("completed (-want +got):\n%s", diff)
		}
	}
}

func TestKnownDeploymentID_CompleteReturnsTheError(t *testing.T) {
	broken := takingAll()
	broken.Spec.Helm.Values.Data["name"] = "${ .Nothing }"
	s, err := NewSelection(broken)
	if err != nil {
		t.Fatal(err)
	}
	clusters := []*fleet.Cluster{targetingtest.Cluster("one", func(c *fleet.Cluster) { c.Labels = map[string]string{"n": "1"} })}
	plain := s.Targets("s-1", clusters, NewGroups(nil), nil)
	known := s.Targets("s-1", clusters, NewGroups(nil), func(*fleet.Cluster, Fingerprint) (string, bool) { return "s-1:a", true })
	_, err = known[0].Complete()
	if err == nil || plain[0].Err == nil || err.Error() != plain[0].Err.Error() {
		t.Errorf("got %v, want %v", err, plain[0].Err)
	}
	if _, again := plain[0].Complete(); again == nil {
		t.Error("an error was lost")
	}
}
