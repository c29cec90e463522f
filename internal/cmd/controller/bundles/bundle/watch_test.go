package bundle

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/controller/bundles/queue"
	"github.com/fleet-hub/fleet/internal/reconcile"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func TestBundleMatters(t *testing.T) {
	if with := bundle(func(b *fleet.Bundle) { b.Finalizers = []string{fleet.FinalizerBundle} }); !bundleMatters(with, bundle()) {
		t.Error("the loss of the finalizer does not matter")
	}
	tests := map[string]struct {
		change func(*fleet.Bundle)
		want   bool
	}{
		"nothing":            {func(*fleet.Bundle) {}, false},
		"the status":         {func(b *fleet.Bundle) { b.Status.Unavailable = 1 }, false},
		"our finalizer":      {func(b *fleet.Bundle) { b.Finalizers = []string{fleet.FinalizerBundle} }, false},
		"the spec":           {func(b *fleet.Bundle) { b.Generation++ }, true},
		"a label":            {func(b *fleet.Bundle) { b.Labels = map[string]string{"a": "b"} }, true},
		"an annotation":      {func(b *fleet.Bundle) { b.Annotations = map[string]string{"a": "b"} }, true},
		"its deletion":       {func(b *fleet.Bundle) { b.DeletionTimestamp = &metav1.Time{} }, true},
		"a recreated Bundle": {func(b *fleet.Bundle) { b.UID = "other" }, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			older, newer := bundle(), bundle()
			test.change(newer)
			if got := bundleMatters(older, newer); got != test.want {
				t.Errorf("matters = %v, want %v", got, test.want)
			}
		})
	}
}

func TestBundleOfAnEarlierProcess_ComesFirstIfChanged(t *testing.T) {
	observed := func(b *fleet.Bundle) { b.Status.ObservedGeneration = b.Generation }
	tests := map[string]struct {
		modify []func(*fleet.Bundle)
		want   bool
	}{
		"reconciled":    {[]func(*fleet.Bundle){observed}, false},
		"new":           {nil, true},
		"changed since": {[]func(*fleet.Bundle){observed, func(b *fleet.Bundle) { b.Generation++ }}, true},
		"being deleted": {[]func(*fleet.Bundle){observed, func(b *fleet.Bundle) { b.DeletionTimestamp = &metav1.Time{} }}, true},
		"gone":          {[]func(*fleet.Bundle){observed, func(b *fleet.Bundle) { b.Name = "other" }}, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := newDelivery(t, bundle(test.modify...), 0).isChanged(web); got != test.want {
				t.Errorf("first: %v, want %v", got, test.want)
			}
		})
	}
}

func TestChangedLabels_AreRestored(t *testing.T) {
	tests := map[string]func(labels map[string]string){
		"without the Bundle's name":      func(labels map[string]string) { delete(labels, fleet.LabelBundleName) },
		"without the Bundle's workspace": func(labels map[string]string) { delete(labels, fleet.LabelBundleNamespace) },
		"without the Cluster's name":     func(labels map[string]string) { delete(labels, fleet.LabelCluster) },
		"of another Cluster":             func(labels map[string]string) { labels[fleet.LabelCluster] = "another" },
		"of a missing Bundle":            func(labels map[string]string) { labels[fleet.LabelBundleName] = "wbe" },
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			d := newDelivery(t, bundle(everywhere), 1)
			if err := d.pass(t.Context()); err != nil {
				t.Fatal(err)
			}
			d.settle(t)
			whole := d.all(t)[0]
			changed := whole.DeepCopy()
			change(changed.Labels)
			d.hub.Put(changed)
			d.onDeployment(reconcile.Change[*fleet.BundleDeployment]{Old: whole, New: changed})
			if !d.queue.Behind() {
				t.Error("the Bundle was not woken")
			}
			if err := d.pass(t.Context()); err != nil {
				t.Fatal(err)
			}
			now := d.all(t)
			if len(now) != 1 || now[0].UID != whole.UID {
				t.Fatalf("there are %v", now)
			}
			if diff := cmp.Diff(whole.Labels, now[0].Labels); diff != "" {
				t.Errorf("labels (-before +now):\n%s", diff)
			}
			if told, _ := d.outcomes.Get(web); len(told.Targets) != 1 || told.Targets[0].Failure != "" {
				t.Errorf("it says %v", told)
			}
		})
	}
}

// What another client has changed in a BundleDeployment is restored, but not in a race with that client.
func TestEditedDeployment_IsRestoredAfterAWhile(t *testing.T) {
	d := newDelivery(t, bundle(everywhere), 1)
	if err := d.pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.settle(t)
	whole := d.all(t)[0]
	edited := whole.DeepCopy()
	edited.Generation++
	edited.Spec.Options.ForceSyncGeneration = 7
	d.hub.Put(edited)
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		began, passes := time.Now(), []time.Duration{}
		d.queue = queue.New(queue.Options{Name: "test", Workers: 1, Log: d.app.Log}, func(context.Context, types.NamespacedName) error {
			passes = append(passes, time.Since(began))
			return nil
		})
		var running sync.WaitGroup
		running.Go(func() { d.queue.Run(ctx) })
		d.onDeployment(reconcile.Change[*fleet.BundleDeployment]{Old: whole, New: edited})
		<-time.After(time.Minute)
		d.mutations.note(web, edited)
		d.onDeployment(reconcile.Change[*fleet.BundleDeployment]{Old: whole, New: edited}) // our own write
		<-time.After(time.Minute)
		cancel()
		running.Wait()
		if diff := cmp.Diff([]time.Duration{restoreAfter}, passes); diff != "" {
			t.Errorf("passes (-want +got):\n%s", diff)
		}
	})
	if err := d.pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(whole.Spec, d.all(t)[0].Spec); diff != "" {
		t.Errorf("spec (-before +now):\n%s", diff)
	}
}

func TestLabelsOfOtherDeployments_Stay(t *testing.T) {
	d := newDelivery(t, bundle(everywhere), 1)
	theirs := existing(nameOf(0), func(bd *fleet.BundleDeployment) {
		bd.Labels = map[string]string{fleet.LabelCluster: "another", fleet.LabelClusterNamespace: "ws"}
	})
	d.hub.Put(theirs)
	in := input{bundle: bundle(everywhere), clusters: []*fleet.Cluster{cluster(nameOf(0))}}
	if found, err := d.unlabelled(in); err != nil || len(found) != 0 {
		t.Errorf("found %v, error %v", found, err)
	}
}

// A Content may be deleted just before a BundleDeployment names it again.
func TestMissesContent(t *testing.T) {
	naming := func(id string) *fleet.BundleDeployment { return existing("one", at(id, id, id)) }
	tests := map[string]struct {
		older, newer *fleet.BundleDeployment
		want         bool
	}{
		"existing Content":                    {nil, naming("s-there:a"), false},
		"missing Content":                     {nil, naming("s-gone:a"), true},
		"names a missing Content from now on": {naming("s-there:a"), naming("s-gone:a"), true},
		"named the missing Content before":    {naming("s-gone:a"), naming("s-gone:b"), false},
		"staged Content is missing":           {naming("s-there:a"), existing("one", at("s-gone:a", "s-there:a", "s-there:a")), true},
		"names no Content":                    {nil, existing("one"), false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			d := newDelivery(t, bundle(everywhere), 1)
			d.hub.Put(&fleet.Content{ObjectMeta: metav1.ObjectMeta{Name: "s-there"}})
			if got := d.missesContent(test.older, test.newer); got != test.want {
				t.Errorf("misses = %v, want %v", got, test.want)
			}
		})
	}
}

// A pass over many clusters is expensive, and each change of one of them would cause one.
func TestChangesOfManyClusters_ShareAPass(t *testing.T) {
	const clusters = 200
	d := newDelivery(t, bundle(everywhere), clusters)
	if err := d.pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.settle(t)
	passes := func(t *testing.T, change func()) (passes int) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			d.queue = queue.New(queue.Options{Workers: 1, Log: d.app.Log}, func(ctx context.Context, key types.NamespacedName) error {
				passes++
				return d.handle(ctx, key)
			})
			var running sync.WaitGroup
			running.Go(func() { d.queue.Run(ctx) })
			for range 50 {
				change()
				<-time.After(1010 * time.Microsecond) // so that no event comes when a pause ends
			}
			<-time.After(time.Minute)
			cancel()
			running.Wait()
		})
		return passes
	}
	gone := func() {
		d.onDeployment(reconcile.Change[*fleet.BundleDeployment]{Old: deployedIn("k-000")})
	}
	if got := passes(t, gone); got != 3 { // at 0, 32 and 64 ms
		t.Errorf("50 deletions in 50 ms cause %d passes, want 3", got)
	}
	changed := func() { d.onBundle(reconcile.Change[*fleet.Bundle]{New: bundle()}) }
	if got := passes(t, changed); got != 50 {
		t.Errorf("50 changes of the Bundle cause %d passes, want 50", got)
	}
}
