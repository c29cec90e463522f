package bundle

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/hubtest"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/content"
	"github.com/fleet-hub/fleet/internal/rules/rollout"
	"github.com/fleet-hub/fleet/internal/rules/selection"
	"github.com/fleet-hub/fleet/internal/rules/targeting"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

var gone = metav1.NewTime(time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC))

func cluster(name string, modifiers ...func(*fleet.Cluster)) *fleet.Cluster {
	c := &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: name, Labels: map[string]string{"n": name}}}
	c.Status.Namespace = "c-" + name
	for _, modify := range modifiers {
		modify(c)
	}
	return c
}

func leaving(c *fleet.Cluster)       { c.DeletionTimestamp = &gone }
func pausedCluster(c *fleet.Cluster) { c.Spec.Paused = true }
func withoutPlace(c *fleet.Cluster)  { c.Status.Namespace = "" }
func pausedBundle(b *fleet.Bundle)   { b.Spec.Paused = true }
func ofAgent(b *fleet.Bundle) {
	b.Annotations = map[string]string{fleet.AnnotationSetID: names.AgentBundleSet}
}
func everywhere(b *fleet.Bundle) {
	b.Spec.Targets = []fleet.BundleTarget{{ClusterSelector: &metav1.LabelSelector{}}}
}
func onlyOne(b *fleet.Bundle)                { b.Spec.Targets = []fleet.BundleTarget{{ClusterName: "one"}} }
func deleted(bd *fleet.BundleDeployment)     { bd.DeletionTimestamp = &gone }
func offSchedule(bd *fleet.BundleDeployment) { bd.Spec.OffSchedule = true }
func scheduled(active bool) func(*fleet.Cluster) {
	return func(c *fleet.Cluster) { c.Status.Scheduled, c.Status.ActiveSchedule = true, active }
}

func bundle(modifiers ...func(*fleet.Bundle)) *fleet.Bundle {
	b := &fleet.Bundle{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "web", Generation: 3}}
	for _, modify := range modifiers {
		modify(b)
	}
	return b
}

func broken(b *fleet.Bundle) {
	b.Spec.Targets = []fleet.BundleTarget{{ClusterSelector: &metav1.LabelSelector{
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Resembles"}},
	}}}
}

func existing(cluster string, modifiers ...func(*fleet.BundleDeployment)) *fleet.BundleDeployment {
	bd := &fleet.BundleDeployment{ObjectMeta: metav1.ObjectMeta{
		Namespace: "c-" + cluster, Name: "web", UID: types.UID("u-" + cluster),
		Labels: map[string]string{fleet.LabelCluster: cluster, fleet.LabelClusterNamespace: "ws"},
	}}
	for _, modify := range modifiers {
		modify(bd)
	}
	return bd
}

// told describes a plan as text.
type told struct {
	Writes, Orphans []string
	Content         bool
	Outcome         selection.Outcome
}

// firstRound returns the writes of the first round of a pass.
func firstRound(in input) writes { return newRound(in, in.selected()).writes() }

// inWords leaves out what only the rollout is about.
func inWords(out writes) told {
	in := told{Content: out.createContent, Outcome: out.outcome}
	in.Outcome.Rollout, in.Outcome.Targets = rollout.Layout{}, nil
	for _, target := range out.outcome.Targets {
		target.DeploymentID, target.Partitions = "", nil
		in.Outcome.Targets = append(in.Outcome.Targets, target)
	}
	for _, w := range append(slices.Clone(out.first), out.others...) {
		text := "create "
		if w.existing != nil {
			text = "update "
		}
		text += w.Deployment.Namespace
		if w.Deployment.Spec.DeploymentID == "" {
			text += " staged"
		}
		in.Writes = append(in.Writes, text)
	}
	for _, bd := range out.orphans {
		in.Orphans = append(in.Orphans, bd.Namespace)
	}
	return in
}

func TestDecide(t *testing.T) {
	manifest := content.Manifest{}.SHA256()
	outcome := func(targets ...selection.Target) selection.Outcome {
		return selection.Outcome{Generation: 3, ManifestHash: manifest, Targets: targets}
	}
	target := func(name string) selection.Target {
		return selection.Target{Cluster: types.NamespacedName{Namespace: "ws", Name: name}, Namespace: "c-" + name}
	}
	paused := func(name string) selection.Target {
		t := target(name)
		t.Paused = true
		return t
	}
	failing := func(name, failure string) selection.Target {
		t := target(name)
		t.Failure = failure
		return t
	}
	template := func(b *fleet.Bundle) {
		everywhere(b)
		b.Spec.Helm = &fleet.HelmOptions{Values: &fleet.GenericMap{Data: map[string]any{"a": `${ if eq .ClusterName "one" }${ fail "no" }${ end }`}}}
	}
	tests := map[string]struct {
		in   input
		want told
	}{
		"no clusters: nothing is written": {input{bundle: bundle(everywhere)}, told{Outcome: outcome()}},
		"new Content: written before the first deployment": {
			input{bundle: bundle(everywhere), clusters: []*fleet.Cluster{cluster("one")}},
			told{Writes: []string{"create c-one"}, Content: true, Outcome: outcome(target("one"))},
		},
		"existing Content: not written again": {
			input{bundle: bundle(everywhere), contentThere: true, clusters: []*fleet.Cluster{cluster("one")}, existing: []*fleet.BundleDeployment{existing("one")}},
			told{Writes: []string{"update c-one"}, Outcome: outcome(target("one"))},
		},
		"cluster without a namespace: waits": {
			input{bundle: bundle(everywhere), contentThere: true, clusters: []*fleet.Cluster{cluster("one", withoutPlace)}},
			told{Outcome: outcome(selection.Target{Cluster: types.NamespacedName{Namespace: "ws", Name: "one"}})},
		},
		"cluster without a namespace keeps its deployment": {
			input{bundle: bundle(everywhere), contentThere: true, clusters: []*fleet.Cluster{cluster("one", withoutPlace), cluster("two")},
				existing: []*fleet.BundleDeployment{existing("one"), existing("two")}},
			told{Writes: []string{"update c-two"}, Outcome: outcome(selection.Target{Cluster: types.NamespacedName{Namespace: "ws", Name: "one"}}, target("two"))},
		},
		"cluster without a namespace that is no target keeps its deployment": {
			input{bundle: bundle(onlyOne), contentThere: true, clusters: []*fleet.Cluster{cluster("one"), cluster("two", withoutPlace)},
				existing: []*fleet.BundleDeployment{existing("one"), existing("two")}},
			told{Writes: []string{"update c-one"}, Outcome: outcome(target("one"))},
		},
		"deployment of no target: orphan": {
			input{bundle: bundle(onlyOne), contentThere: true, clusters: []*fleet.Cluster{cluster("one"), cluster("two")},
				existing: []*fleet.BundleDeployment{existing("one"), existing("two"), existing("unknown")}},
			told{Writes: []string{"update c-one"}, Orphans: []string{"c-two", "c-unknown"}, Outcome: outcome(target("one"))},
		},
		"a BundleDeployment that is being deleted: is not an orphan and not written": {
			input{bundle: bundle(onlyOne), contentThere: true, clusters: []*fleet.Cluster{cluster("one")},
				existing: []*fleet.BundleDeployment{existing("one", deleted), existing("two", deleted)}},
			told{Outcome: outcome(target("one"))},
		},
		"held by a Schedule: not an orphan": {
			input{bundle: bundle(onlyOne), contentThere: true, clusters: []*fleet.Cluster{cluster("one"), cluster("two", scheduled(false))},
				existing: []*fleet.BundleDeployment{existing("one"), existing("two", offSchedule)}},
			told{Writes: []string{"update c-one"}, Outcome: outcome(target("one"))},
		},
		"held by a Schedule, BundleDeployment is not marked: not an orphan": {
			input{bundle: bundle(onlyOne), contentThere: true, clusters: []*fleet.Cluster{cluster("one"), cluster("two", scheduled(false))},
				existing: []*fleet.BundleDeployment{existing("one"), existing("two")}},
			told{Writes: []string{"update c-one"}, Outcome: outcome(target("one"))},
		},
		"Schedule is active: orphan": {
			input{bundle: bundle(onlyOne), contentThere: true, clusters: []*fleet.Cluster{cluster("one"), cluster("two", scheduled(true))},
				existing: []*fleet.BundleDeployment{existing("one"), existing("two", offSchedule)}},
			told{Writes: []string{"update c-one"}, Orphans: []string{"c-two"}, Outcome: outcome(target("one"))},
		},
		"Schedule was deleted: orphan": {
			input{bundle: bundle(onlyOne), contentThere: true, clusters: []*fleet.Cluster{cluster("one"), cluster("two")},
				existing: []*fleet.BundleDeployment{existing("one"), existing("two", offSchedule)}},
			told{Writes: []string{"update c-one"}, Orphans: []string{"c-two"}, Outcome: outcome(target("one"))},
		},
		"paused cluster that is no longer a target: stays": {
			input{bundle: bundle(onlyOne), contentThere: true, clusters: []*fleet.Cluster{cluster("one"), cluster("two", pausedCluster)},
				existing: []*fleet.BundleDeployment{existing("one"), existing("two")}},
			told{Writes: []string{"update c-one"}, Outcome: outcome(target("one"))},
		},
		"paused Bundle whose targets changed: stays": {
			input{bundle: bundle(onlyOne, pausedBundle), contentThere: true, clusters: []*fleet.Cluster{cluster("one"), cluster("two")},
				existing: []*fleet.BundleDeployment{existing("one"), existing("two")}},
			told{Writes: []string{"update c-one staged"}, Outcome: outcome(paused("one"))},
		},
		"paused Bundle of an agent that is no longer managed: orphan": {
			input{bundle: bundle(onlyOne, pausedBundle, ofAgent), contentThere: true, clusters: []*fleet.Cluster{cluster("one")},
				existing: []*fleet.BundleDeployment{existing("one")}},
			told{Orphans: []string{"c-one"}, Outcome: outcome()},
		},
		"paused Bundle, Cluster is gone: orphan": {
			input{bundle: bundle(onlyOne, pausedBundle), contentThere: true, clusters: []*fleet.Cluster{cluster("one")},
				existing: []*fleet.BundleDeployment{existing("one"), existing("two")}},
			told{Writes: []string{"update c-one staged"}, Orphans: []string{"c-two"}, Outcome: outcome(paused("one"))},
		},
		"paused cluster has another namespace now: orphan in the former one": {
			input{bundle: bundle(onlyOne), contentThere: true, clusters: []*fleet.Cluster{cluster("one"), cluster("two", pausedCluster)},
				existing: []*fleet.BundleDeployment{existing("one"), existing("two", func(bd *fleet.BundleDeployment) { bd.Namespace = "c-former" })}},
			told{Writes: []string{"update c-one"}, Orphans: []string{"c-former"}, Outcome: outcome(target("one"))},
		},
		"cluster is being deleted: unchanged": {
			input{bundle: bundle(everywhere), contentThere: true, clusters: []*fleet.Cluster{cluster("one", leaving), cluster("two")},
				existing: []*fleet.BundleDeployment{existing("one")}},
			told{Writes: []string{"create c-two"}, Outcome: outcome(target("two"))},
		},
		"error of one cluster: its deployment stays, others continue": {
			input{bundle: bundle(template), contentThere: true, clusters: []*fleet.Cluster{cluster("one"), cluster("two")},
				existing: []*fleet.BundleDeployment{existing("one")}},
			told{Writes: []string{"create c-two"}, Outcome: outcome(failing("one",
				`targeting error: cluster one in namespace ws: helm.values: template: values:1:35: executing "values" at <fail "no">: error calling fail: no`),
				target("two"))},
		},
		"paused cluster: staged": {
			input{bundle: bundle(everywhere), contentThere: true, clusters: []*fleet.Cluster{cluster("one", pausedCluster)}},
			told{Writes: []string{"create c-one staged"}, Outcome: outcome(paused("one"))},
		},
		"invalid selector: nothing is written": {
			input{bundle: bundle(broken), clusters: []*fleet.Cluster{cluster("one")}, existing: []*fleet.BundleDeployment{existing("one")}},
			told{Outcome: selection.Outcome{Generation: 3, ManifestHash: manifest, FailureReason: "Error",
				Failure: `targeting error: spec.targets[0]: clusterSelector: invalid label selector: "Resembles" is not a valid label selector operator`}},
		},
		"unsupported Bundle: nothing is written": {
			input{bundle: bundle(everywhere), failure: errors.New("because"), clusters: []*fleet.Cluster{cluster("one")}, existing: []*fleet.BundleDeployment{existing("two")}},
			told{Outcome: selection.Outcome{Generation: 3, ManifestHash: manifest, FailureReason: "Error", Failure: "targeting error: because"}},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			test.in.manifestHash = manifest
			got := inWords(firstRound(test.in))
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCache(t *testing.T) {
	c := newCache()
	b := bundle(everywhere)
	b.UID = "u"
	hash := manifestHash(b)
	if want := (content.Manifest{}).SHA256(); hash != want {
		t.Errorf("hash = %s, want %s", hash, want)
	}
	if !c.selection(b).Picks(cluster("one"), targeting.Groups{}) {
		t.Error("the selection does not pick")
	}
	// The same generation is not looked at again.
	same := b.DeepCopy()
	same.Spec.Resources, same.Spec.Targets = []fleet.BundleResource{{Name: "x"}}, nil
	if !c.selection(same).Picks(cluster("one"), targeting.Groups{}) {
		t.Error("the same generation was worked out again")
	}
	newer := same.DeepCopy()
	newer.Generation++
	broken(newer)
	if manifestHash(newer) == hash || c.selection(newer) != nil {
		t.Error("a newer generation was not worked out")
	}
	c.forget("u")
	if manifestHash(b) != hash {
		t.Error("a forgotten Bundle has another hash")
	}
	if c.isWaiting(web) {
		t.Error("a Bundle waits from the beginning")
	}
	if c.setWaiting(web, true); !c.isWaiting(web) || c.isWaiting(types.NamespacedName{Name: "other"}) {
		t.Error("not the Bundle that waits")
	}
	if c.setWaiting(web, false); c.isWaiting(web) || len(c.waiting) > 0 {
		t.Error("a Bundle still waits")
	}
}

// The cache holds only the hash of a Bundle's resources.
func TestContent_HasTheResourcesOfTheHash(t *testing.T) {
	resources := []fleet.BundleResource{{Name: "a.yaml", Content: "a: 1"}}
	manifest := content.Manifest{Resources: resources}
	for hash, want := range map[string]error{manifest.SHA256(): nil, "of before": errBundleChanged} {
		d := newDelivery(t, bundle(everywhere, func(b *fleet.Bundle) { b.Spec.Resources = resources }), 1)
		cached := bundle(everywhere, func(b *fleet.Bundle) { b.Spec.ResourcesHash = hash })
		if got := manifestHash(cached); got != hash {
			t.Errorf("hash %q, want %q", got, hash)
		}
		if err := d.createContent(cached, hash); !errors.Is(err, want) {
			t.Errorf("error = %v, want %v", err, want)
		}
		if created := hubtest.Get[*fleet.Content](d.hub, "", manifest.ID()) != nil; created != (want == nil) {
			t.Errorf("hash %q: Content created: %t", hash, created)
		}
	}
}

func TestEach(t *testing.T) {
	items := make([]int, 100)
	for i := range items {
		items[i] = i
	}
	squares := make([]int, len(items))
	odd := errors.New("thirteen")
	err := each(newSlots(), atATime, items, func(i int) error {
		squares[i] = i * i
		if i == 13 {
			return odd
		}
		return nil
	})
	if !errors.Is(err, odd) {
		t.Errorf("error = %v, want %v", err, odd)
	}
	for i, square := range squares {
		if square != i*i {
			t.Errorf("item %d was left out", i)
		}
	}
	if err := each(newSlots(), atATime, nil, func(int) error { return odd }); err != nil {
		t.Errorf("error of nothing = %v", err)
	}
}

// Blocked jobs leave workers to others, and a small job does not wait for a large one.
func TestEach_IsFairToSmallJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // in which one can wait until nobody goes on by himself
		s := newSlots()
		step, begun := make(chan struct{}), 0
		var mu sync.Mutex
		var all sync.WaitGroup
		defer all.Wait()
		defer close(step)
		hanging := func() {
			all.Go(func() {
				_ = each(s, atATime, make([]int, 10*atATime), func(int) error { // it has no errors
					mu.Lock()
					begun++
					mu.Unlock()
					<-step
					return nil
				})
			})
		}
		small := func() <-chan struct{} {
			done := make(chan struct{})
			all.Go(func() {
				_ = each(s, atATime, []int{1}, func(int) error { // nor has it
					close(done)
					return nil
				})
			})
			return done
		}
		expect := func(want int) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if begun != want {
				t.Fatalf("%d have begun, want %d", begun, want)
			}
		}
		hanging()
		hanging()
		expect(2 * atATime) // as many as two may have
		<-small()           // though none of them ends
		hanging()
		expect(allAtATime)
		ended := small()
		expect(allAtATime) // and it waits for its turn
		done := 0
		for waiting := true; waiting; synctest.Wait() {
			select {
			case <-ended:
				waiting = false
			default:
				step <- struct{}{}
				done++
			}
		}
		t.Logf("%d went before", done)
		if done > 3 {
			t.Errorf("%d of %d went before", done, 30*atATime)
		}
	})
}
