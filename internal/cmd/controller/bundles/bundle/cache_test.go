package bundle

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	rulesdelivery "github.com/fleet-hub/fleet/internal/rules/delivery"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// withName takes its values from each cluster.
func withName(b *fleet.Bundle) {
	everywhere(b)
	b.UID = "u-web"
	b.Spec.Helm = &fleet.HelmOptions{Values: &fleet.GenericMap{Data: map[string]any{"name": "${ .ClusterName }"}}}
}

// looked is one pass over a Bundle: the namespaces that are written, and those whose options were worked out.
type looked struct{ written, made []string }

// look makes a pass, with what earlier ones have found out.
func look(t *testing.T, in input) (p looked, out writes) {
	t.Helper()
	selected := in.selected()
	for _, target := range selected.Targets {
		if target.Options.Helm != nil {
			p.made = append(p.made, target.Cluster.Status.Namespace)
		}
	}
	out = newRound(in, selected).writes()
	for _, w := range slices.Concat(out.first, out.others) {
		p.written = append(p.written, w.Deployment.Namespace)
	}
	if len(out.outcome.Targets) != len(selected.Targets) {
		t.Errorf("%d of %d targets are told of", len(out.outcome.Targets), len(selected.Targets))
	}
	for _, target := range out.outcome.Targets {
		if target.DeploymentID == "" {
			t.Errorf("%s has no deployment ID", target.Namespace)
		}
	}
	return p, out
}

// written are the BundleDeployments of a plan as the API server would have them.
func written(out writes) (all []*fleet.BundleDeployment) {
	for _, w := range slices.Concat(out.first, out.others) {
		bd := w.Deployment.DeepCopy()
		bd.UID, bd.Generation = types.UID("u-"+bd.Namespace), 1
		all = append(all, bd)
	}
	return all
}

func (p looked) String() string {
	return strings.Join(p.made, ",") + " worked out, " + strings.Join(p.written, ",") + " written"
}

// certain reports that the Secret holds the values.
func certain(types.UID) bool { return true }

// settledWorld is a Bundle on three clusters where nothing is owed, and everybody knows.
func settledWorld(t *testing.T) input {
	t.Helper()
	in := input{bundle: bundle(withName), cache: newCache(), secretHolds: certain, contentThere: true}
	for _, name := range []string{"one", "three", "two"} {
		in.clusters = append(in.clusters, cluster(name, func(c *fleet.Cluster) { c.UID = types.UID("u-" + name) }))
	}
	first, out := look(t, in)
	if first.String() != "c-one,c-three,c-two worked out, c-one,c-three,c-two written" {
		t.Fatalf("the first pass: %s", first)
	}
	in.existing = written(out)
	if second, _ := look(t, in); second.String() != " worked out,  written" {
		t.Fatalf("the second pass: %s", second)
	}
	return in
}

func TestSettledTarget_IsSkipped(t *testing.T) {
	newBundle := func(in *input, change func(*fleet.Bundle)) {
		b := in.bundle.DeepCopy()
		change(b)
		in.bundle = b
	}
	changed := func(in *input, change func(*fleet.Cluster)) {
		c := in.clusters[2].DeepCopy()
		change(c)
		in.clusters = append(slices.Clone(in.clusters[:2]), c)
	}
	edited := func(in *input, change func(*fleet.BundleDeployment)) {
		bd := in.existing[2].DeepCopy()
		change(bd)
		in.existing = append(slices.Clone(in.existing[:2]), bd)
	}
	tests := map[string]struct {
		change func(*input)
		want   string
	}{
		"nothing":     {func(*input) {}, " worked out,  written"},
		"a heartbeat": {func(in *input) { changed(in, func(c *fleet.Cluster) { c.Status.Agent.LastSeen = gone }) }, " worked out,  written"},
		"a report": {func(in *input) {
			edited(in, func(bd *fleet.BundleDeployment) { bd.Status.Ready, bd.ResourceVersion = true, "9" })
		}, " worked out,  written"},
		"an unused label of a cluster":         {func(in *input) { changed(in, func(c *fleet.Cluster) { c.Labels["more"] = "1" }) }, "c-two worked out,  written"},
		"a display name that is in the values": {func(in *input) { changed(in, func(c *fleet.Cluster) { c.Name = "zwei" }) }, "c-two worked out, c-two written"},
		"a cluster's pause":                    {func(in *input) { changed(in, pausedCluster) }, " worked out, c-two written"},
		"a Schedule":                           {func(in *input) { changed(in, func(c *fleet.Cluster) { c.Status.Scheduled = true }) }, " worked out, c-two written"},
		"a spec edited by another client": {func(in *input) {
			edited(in, func(bd *fleet.BundleDeployment) { bd.Generation, bd.Spec.Options.KeepResources = 2, true })
		}, " worked out, c-two written"},
		"a label edited by another client": {func(in *input) {
			edited(in, func(bd *fleet.BundleDeployment) { bd.Labels["more"] = "1" })
		}, " worked out, c-two written"},
		"a deployment deleted by another client": {func(in *input) { in.existing = in.existing[:2] }, " worked out, c-two written"},
		"a Secret that must be checked": {func(in *input) {
			doubted := in.existing[2].UID
			in.secretHolds = func(uid types.UID) bool { return uid != doubted }
		}, " worked out, c-two written"},
		"a label of the Bundle": {func(in *input) {
			newBundle(in, func(b *fleet.Bundle) { b.Labels = map[string]string{"team": "a"} })
		}, " worked out, c-one,c-three,c-two written"},
		"the Bundle's spec": {func(in *input) {
			newBundle(in, func(b *fleet.Bundle) { b.Generation, b.Spec.DefaultNamespace = 4, "other" })
		}, "c-one,c-three,c-two worked out, c-one,c-three,c-two written"},
		"a cluster was removed": {func(in *input) { in.clusters = in.clusters[:2] }, " worked out,  written"},
		"another cluster": {func(in *input) {
			in.clusters = append(slices.Clone(in.clusters), cluster("xy", func(c *fleet.Cluster) { c.UID = "u-xy" }))
		}, "c-xy worked out, c-xy written"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			in := settledWorld(t)
			test.change(&in)
			got, out := look(t, in)
			if got.String() != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
			// What it writes is what a process that knows nothing writes.
			fresh := in
			fresh.cache = nil
			_, all := look(t, fresh)
			for _, w := range slices.Concat(all.first, all.others) {
				said := slices.ContainsFunc(slices.Concat(out.first, out.others), func(o write) bool { return rulesdelivery.Same(o.Deployment, w.Deployment) })
				if done := w.existing != nil && rulesdelivery.Same(w.existing, w.Deployment); !done && !said {
					t.Errorf("%s is not as it should be, and is not written", w.Deployment.Namespace)
				}
			}
		})
	}
}

func TestFormerTarget_IsForgotten(t *testing.T) {
	in := settledWorld(t)
	of := func() map[types.UID]result { return in.cache.of(in.bundle).targets }
	if len(of()) != 3 {
		t.Fatalf("%d are remembered", len(of()))
	}
	in.clusters = in.clusters[:1]
	look(t, in)
	if _, there := of()["u-one"]; len(of()) != 1 || !there {
		t.Errorf("these are remembered: %v", of())
	}
	in.cache.forget(in.bundle.UID)
	if len(of()) != 0 {
		t.Errorf("these are remembered of a Bundle that is gone: %v", of())
	}
}

// A rollout to a thousand clusters has many rounds, and each reporting cluster causes a pass.
func BenchmarkPassWithoutChanges(b *testing.B) {
	in := input{bundle: bundle(withName), cache: newCache(), secretHolds: certain, contentThere: true}
	for i := range 1000 {
		name := "c" + strings.Repeat("x", i%7) + string(rune('a'+i%26)) + strings.Repeat("y", i/26)
		in.clusters = append(in.clusters, cluster(name, func(c *fleet.Cluster) { c.UID = types.UID(name) }))
	}
	for range 25 {
		for _, bd := range written(firstRound(in)) {
			if !slices.ContainsFunc(in.existing, func(e *fleet.BundleDeployment) bool { return e.Namespace == bd.Namespace }) {
				in.existing = append(in.existing, bd)
			}
		}
	}
	if len(in.existing) != 1000 {
		b.Fatal(len(in.existing))
	}
	for b.Loop() {
		firstRound(in)
	}
}
