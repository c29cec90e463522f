package bundles_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/internal/cmd/controller/bundles"
	"github.com/fleet-hub/fleet/internal/cmd/controller/hub"
	"github.com/fleet-hub/fleet/internal/cmd/env"
	"github.com/fleet-hub/fleet/internal/kube"
	"github.com/fleet-hub/fleet/internal/version"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// waiting is the shard of TestSilentClusters_DoNotBlockOthers, whose clock is its own.
const waiting = "waiting"

// ahead is a clock that can be put forward.
type ahead struct{ by atomic.Int64 }

func (a *ahead) now() time.Time { return time.Now().Add(time.Duration(a.by.Load())) }

func (a *ahead) pass(d time.Duration) { a.by.Add(int64(d)) }

// waitingWorld is a world whose controllers see an hour go by in no time: a shard beside those of all other tests.
type waitingWorld struct {
	*world
	app   *hub.App
	clock *ahead
}

func newWaitingWorld(t *testing.T) *waitingWorld {
	t.Helper()
	w := &waitingWorld{world: newWorld(t), clock: &ahead{}}
	cfg, err := account()
	must(t, err)
	w.app, err = hub.New(t.Context(), hub.Options{
		Own: kube.Own{Config: cfg}, Env: env.Controller{Namespace: system, Shard: waiting}, Version: version.Version,
		Log: slog.New(slog.DiscardHandler), Clock: w.clock.now,
	})
	must(t, err)
	must(t, bundles.Register(t.Context(), w.app))
	must(t, w.app.Start(t.Context()))
	return w
}

// beat is a heartbeat of these clusters' agents.
func (w *waitingWorld) beat(t *testing.T, clusters ...string) {
	t.Helper()
	now := metav1.NewTime(w.clock.now().Truncate(time.Second))
	for _, name := range clusters {
		w.patchStatus(t, client.Clusters, w.workspace, name, map[string]any{"agent": map[string]any{"lastSeen": now, "namespace": "n"}})
	}
	NewWithT(t).Eventually(func(g Gomega) { // the controllers, too
		for _, name := range clusters {
			seen, err := w.app.Clusters.Cache().Get(w.workspace, name)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(seen.Status.Agent.LastSeen.Time).To(BeTemporally("==", now.Time))
		}
	}).WithTimeout(patience).WithPolling(20 * time.Millisecond).Should(Succeed())
}

// says waits until these Clusters say whether their agents report.
func (w *waitingWorld) says(t *testing.T, reason string, clusters ...string) {
	t.Helper()
	for _, name := range clusters {
		w.clusterThat(t, name, "its agent: "+reason, func(c *fleet.Cluster) bool {
			said := conditions.Get(c.Status.Conditions, conditions.AgentReporting)
			return said != nil && said.Reason == reason && (said.Status == "True") == (reason == "")
		})
	}
}

// counts waits until the Bundle says how many of its clusters are silent, ready, and without the newest state. None of
// them is unavailable.
func (w *waitingWorld) counts(t *testing.T, unreachable, ready, waiting int) {
	t.Helper()
	w.bundleThat(t, "web", fmt.Sprintf("%d unreachable, %d ready, %d that wait", unreachable, ready, waiting), func(b *fleet.Bundle) bool {
		s := b.Status
		return s.ObservedGeneration == b.Generation && s.Unreachable == unreachable && s.Unavailable == 0 && s.MaxUnavailable == 1 &&
			s.UnavailablePartitions == 0 && s.Summary.Ready == ready && s.Summary.WaitApplied == waiting
	})
}

// Four of twelve agents fall silent, those that would come first. A change goes to all others, one after the other, as
// if the four were not there; and to one of the four when it reports again.
func TestSilentClusters_DoNotBlockOthers(t *testing.T) {
	w := newWaitingWorld(t)
	var names []string
	for number := range 12 {
		name := fmt.Sprintf("k-%02d", number)
		w.cluster(t, name, map[string]string{fleet.LabelShardRef: waiting})
		names = append(names, name)
	}
	t.Cleanup(func() { // among too many silent agents none is marked: these are not to count when this is told again
		for _, name := range names {
			must(t, w.Delete(context.WithoutCancel(t.Context()), client.Clusters, w.workspace, name))
		}
	})
	silent, heard := names[:4], names[4:]
	w.beat(t, names...)
	sharded := func(b *fleet.Bundle) { b.Labels = map[string]string{fleet.LabelShardRef: waiting} }
	one := intstr.FromInt32(1)
	w.bundle(t, "web", everywhere, sharded, func(b *fleet.Bundle) { b.Spec.RolloutStrategy = &fleet.RolloutStrategy{MaxUnavailable: &one} })
	before := map[string]string{}
	for _, name := range names {
		bd := w.deployment(t, "web", name, "its first deployment", exists)
		before[name] = bd.Spec.DeploymentID
		w.report(t, bd, nil)
	}
	w.counts(t, 0, 12, 0)

	w.clock.pass(time.Hour)
	w.beat(t, heard...)
	w.app.Liveness.DecideAll() // what the timer does when the hour is over
	w.says(t, conditions.ReasonAgentNotReporting, silent...)
	w.says(t, "", heard...)
	w.counts(t, 4, 12, 0)

	w.patch(t, client.Bundles, "web", map[string]any{"spec": map[string]any{"namespace": "changed"}})
	for i, name := range heard {
		bd := w.deployment(t, "web", name, "its turn", func(bd *fleet.BundleDeployment) bool { return bd.Spec.DeploymentID != before[name] })
		if i+1 < len(heard) {
			w.isStaged(t, heard[i+1], before[heard[i+1]])
		}
		w.report(t, bd, nil)
	}
	w.counts(t, 4, 8, 4)
	for _, name := range silent {
		w.isStaged(t, name, before[name])
	}

	w.bundle(t, "db", everywhere, sharded)
	w.deployment(t, "db", silent[0], "a first deployment", func(bd *fleet.BundleDeployment) bool { return bd.Spec.DeploymentID != "" })

	back, still := silent[2], []string{silent[0], silent[1], silent[3]}
	w.beat(t, back)
	bd := w.deployment(t, "web", back, "its turn", func(bd *fleet.BundleDeployment) bool { return bd.Spec.DeploymentID != before[back] })
	w.says(t, "", back)
	w.report(t, bd, nil)
	w.counts(t, 3, 9, 3)
	for _, name := range still {
		w.isStaged(t, name, before[name])
	}
}

func TestClusterWithoutAgent_DoesNotBlockOthers(t *testing.T) {
	w := newWaitingWorld(t)
	for _, name := range []string{"awaited", "heard"} {
		w.cluster(t, name, map[string]string{fleet.LabelShardRef: waiting})
	}
	w.beat(t, "heard")
	one := intstr.FromInt32(1)
	w.bundle(t, "web", everywhere, func(b *fleet.Bundle) {
		b.Labels = map[string]string{fleet.LabelShardRef: waiting}
		b.Spec.RolloutStrategy = &fleet.RolloutStrategy{MaxUnavailable: &one}
	})
	before := w.deployment(t, "web", "heard", "its first deployment", exists)
	w.report(t, before, nil)
	w.deployment(t, "web", "awaited", "its first deployment", exists)
	w.clock.pass(time.Minute)
	w.app.Liveness.DecideAll()
	w.patch(t, client.Bundles, "web", map[string]any{"spec": map[string]any{"namespace": "changed"}})
	isNew := func(bd *fleet.BundleDeployment) bool { return bd.Spec.DeploymentID != before.Spec.DeploymentID }
	w.report(t, w.deployment(t, "web", "heard", "its turn", isNew), nil)
	w.deployment(t, "web", "awaited", "the newest state", isNew)
	w.counts(t, 1, 1, 1)
}

// isStaged fails unless a cluster keeps what it has, and the change is written down for it.
func (w *waitingWorld) isStaged(t *testing.T, cluster, before string) {
	t.Helper()
	bd := w.deployment(t, "web", cluster, "the change, staged", func(bd *fleet.BundleDeployment) bool { return bd.Spec.StagedDeploymentID != before })
	if bd.Spec.DeploymentID != before {
		t.Errorf("%s was promoted before its turn", cluster)
	}
}
