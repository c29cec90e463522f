package status

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/controller/bundles/queue"
	"github.com/fleet-hub/fleet/internal/reconcile"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

func waits(bd *fleet.BundleDeployment) { bd.Status.AppliedDeploymentID = "" }

func notReady(bd *fleet.BundleDeployment) { bd.Status.Ready = false }

func modified(bd *fleet.BundleDeployment) { bd.Status.NonModified = false }

func notDeployed(bd *fleet.BundleDeployment) {
	bd.Status.Conditions = []genericcondition.GenericCondition{{Type: conditions.Deployed, Status: "False"}}
}

func leaves(bd *fleet.BundleDeployment) {
	now := metav1.Now()
	bd.DeletionTimestamp = &now
}

func outdated(bd *fleet.BundleDeployment) { bd.Spec.DeploymentID = "s-2:b" }

func TestIsOutcome(t *testing.T) {
	d := func(modifiers ...func(*fleet.BundleDeployment)) *fleet.BundleDeployment {
		return deployment("one", modifiers...)
	}
	tests := map[string]struct {
		older, newer *fleet.BundleDeployment
		want         bool
	}{
		"applied and ready":                  {d(waits), d(), true},
		"became ready after it was applied":  {d(notReady), d(), true},
		"could not be installed":             {d(waits), d(waits, notDeployed), true},
		"was ready, and a pod fails":         {d(), d(notReady), true},
		"was ready, and is modified":         {d(), d(modified), true},
		"applied, and not ready yet":         {d(waits), d(notReady), false},
		"a new state to apply":               {d(), d(outdated), false},
		"unchanged":                          {d(), d(), false},
		"created: nothing is reported yet":   {nil, d(), false},
		"deleted":                            {d(), nil, false},
		"being deleted: no outcome":          {d(notReady), d(leaves), false},
		"still not ready for another reason": {d(modified), d(notReady), false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := isOutcome(test.older, test.newer); got != test.want {
				t.Errorf("outcome: %t", got)
			}
		})
	}
}

// A Bundle for some clusters is written with the first outcome, and further ones within the window are one write.
func TestOutcomes_AreWrittenAtOnceAndThenOncePerWindow(t *testing.T) {
	const step = 100 * time.Millisecond
	type change = reconcile.Change[*fleet.BundleDeployment]
	became := func(older, newer func(*fleet.BundleDeployment)) change {
		return change{Old: deployment("one", older), New: deployment("one", newer)}
	}
	same := func(*fleet.BundleDeployment) {}
	created, ready, applied := change{New: deployment("one", waits)}, became(waits, same), became(waits, notReady)
	tests := map[string]struct {
		// changes happen at these times.
		changes map[time.Duration]change
		// bundle and cluster are the times of their updates. An update that changes nothing writes nothing.
		bundle, cluster []time.Duration
	}{
		"ready at once": {
			map[time.Duration]change{0: created, step: ready},
			[]time.Duration{step, waitingBundle}, []time.Duration{step, waiting},
		},
		"applied, then ready: written when it is ready": {
			map[time.Duration]change{0: created, step: applied, 2 * step: became(notReady, same)},
			[]time.Duration{2 * step, step + settlingSum}, []time.Duration{2 * step, step + settlingSum},
		},
		"ready in many clusters: the first at once, the others once per window": {
			map[time.Duration]change{0: created, step: ready, 2 * step: ready, 3 * step: ready, 4 * step: ready},
			[]time.Duration{step, step + window, waitingBundle}, []time.Duration{step, step + window, waiting},
		},
		"applied only": {
			map[time.Duration]change{0: created, step: applied},
			[]time.Duration{step + settlingSum}, []time.Duration{step + settlingSum},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				passes := map[string][]time.Duration{}
				var mu sync.Mutex // two queues write passes
				note := func(kind string) *queue.Queue {
					q := queue.New(queue.Options{Workers: 1, Spacing: window, Settling: settlingSum, Log: slog.New(slog.DiscardHandler)}, func(context.Context, types.NamespacedName) error {
						mu.Lock()
						defer mu.Unlock()
						passes[kind] = append(passes[kind], time.Since(began))
						return nil
					})
					go q.Run(t.Context())
					return q
				}
				h := &handler{bundles: note("Bundle"), clusters: note("Cluster")}
				for _, at := range slices.Sorted(maps.Keys(test.changes)) {
					<-time.After(at - time.Since(began))
					for _, q := range []*queue.Queue{h.bundles, h.clusters} {
						h.adding(test.changes[at])(q, types.NamespacedName{Name: "web"})
					}
				}
				<-time.After(time.Minute)
				synctest.Wait()
				if !slices.Equal(passes["Bundle"], test.bundle) || !slices.Equal(passes["Cluster"], test.cluster) {
					t.Errorf("updates of the Bundle at %v, want %v; of the Cluster at %v, want %v", passes["Bundle"], test.bundle, passes["Cluster"], test.cluster)
				}
			})
		})
	}
}
