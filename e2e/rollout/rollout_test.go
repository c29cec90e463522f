// Package rollout_test tells what becomes of a rollout when its controllers are killed in the middle of it, again and
// again: it goes on, ends, and at no moment lets more clusters be unavailable than allowed.
package rollout_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/dev/plane"
	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/e2e/framework/helm"
	"github.com/fleet-hub/fleet/e2e/framework/replica"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

var kills = flag.Int("kills", 26, "how often the controllers are killed during the rollout")

const (
	// clusters are as many as make four partitions.
	clusters   = 200
	partitions = 4
	// bundle is the name of what is rolled out.
	bundle = "web"
	// patience is how long one thing may take that takes a second or two.
	patience = 2 * time.Minute
)

var policy = filepath.Join(os.TempDir(), fmt.Sprintf("rollout-audit-%d.yaml", os.Getpid()))

var control = plane.Share(plane.Options{
	Audit: true, BeforeControllers: helm.CRDs,
	APIServerArgs: func(string) []string { return []string{"--audit-policy-file=" + policy} },
})

func TestMain(m *testing.M) {
	if code, played := replica.Play(); played {
		os.Exit(code)
	}
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := control.Main(m)
	_ = os.Remove(policy) // the API server has ended
	os.Exit(code)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func nameOf(number int) string { return fmt.Sprintf("c-%03d", number) }

// numberOf is the place of a cluster in the order of the rollout.
func numberOf(cluster string) (number int) {
	_, _ = fmt.Sscanf(cluster, "c-%03d", &number) // all are named like that
	return number
}

func partitionOf(cluster string) int { return numberOf(cluster) / (clusters / partitions) }

// Two clusters of every partition cannot run the new state, until it is repaired for them. Others fail for a while,
// though nothing was asked of them; that happens while no controller is there to see it.
func TestControllersKilledDuringRollout_RolloutCompletes(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	h := newHub(t, ctx)
	var first atomic.Pointer[string] // deployment ID, once the second one is to come and cannot be run everywhere
	fails := func(cluster, deploymentID string) bool {
		can := first.Load()
		return can != nil && deploymentID != *can && numberOf(cluster)%25 == 3
	}
	agents, err := startAgents(ctx, h.Hub, bundle, fails)
	must(t, err)
	t.Cleanup(func() {
		cancel()
		agents.working.Wait()
	})

	began := time.Now()
	for number := range clusters {
		must(t, h.Hub.Create(ctx, client.Clusters, &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: framework.Workspace, Name: nameOf(number)}}))
	}
	b := &fleet.Bundle{ObjectMeta: metav1.ObjectMeta{Namespace: framework.Workspace, Name: bundle}}
	b.Spec.Targets = []fleet.BundleTarget{{ClusterSelector: &metav1.LabelSelector{}}}
	b.Spec.Resources = []fleet.BundleResource{{Name: "cm.yaml", Content: "# nothing\n"}}
	b.Spec.Helm = &fleet.HelmOptions{Values: &fleet.GenericMap{Data: map[string]any{"version": "one"}}}
	must(t, h.Hub.Create(ctx, client.Bundles, b))
	h.awaitBundle(t, ctx, "to be ready everywhere", isReady)
	must(t, agents.until(ctx, "all clusters to have it", func(now map[string]*fleet.BundleDeployment) bool { return len(now) == clusters }))
	before := agents.deploymentID(nameOf(0))
	first.Store(&before)
	t.Logf("%d clusters had their first deployment after %s", clusters, time.Since(began).Round(time.Millisecond))

	began = time.Now()
	s := &story{hub: h, agents: agents, random: rand.New(rand.NewSource(1)), left: *kills}
	h.change(t, ctx, map[string]any{
		"helm":            map[string]any{"values": map[string]any{"version": "two"}},
		"rolloutStrategy": map[string]any{"maxUnavailable": "10%"},
	}, s)
	must(t, s.tell(ctx, before))
	t.Logf("the rollout took %s, and the controllers were killed %d times after %d writes", time.Since(began).Round(time.Millisecond), s.killed, s.writes)

	h.awaitBundle(t, ctx, "to say what failed", func(b *fleet.Bundle) bool {
		return b.Status.Summary.NotReady == 8 && b.Status.Summary.Ready == clusters-8
	})
	first.Store(nil)
	for number := 3; number < clusters; number += 25 {
		must(t, agents.turn(ctx, nameOf(number), true))
	}
	h.awaitBundle(t, ctx, "to be ready everywhere again", isReady)

	writes, err := readTaken(h.cluster.AuditLog, bundle)
	must(t, err)
	got := replay(writes, clusters/10, clusters/partitions/10, partitionOf)
	t.Logf("of %d writes, %d were promotions; at most %d clusters were unavailable, and %d when one more was promoted",
		len(writes), got.promotions, got.most, got.promotedAt)
	if len(got.violations) > 0 {
		t.Errorf("%d promotions that the limits did not allow:\n%s", len(got.violations), strings.Join(got.violations, "\n"))
	}
	if got.firsts != clusters || got.promotions+got.recoveries < clusters || s.killed != *kills {
		t.Errorf("%d first deployments, %d promotions, %d recoveries, %d kills: that is not the whole story", got.firsts, got.promotions, got.recoveries, s.killed)
	}
}

func isReady(b *fleet.Bundle) bool {
	condition := conditions.Get(b.Status.Conditions, conditions.Ready)
	return condition != nil && condition.Status == "True" && b.Status.ObservedGeneration == b.Generation && b.Status.Summary.Ready == clusters
}

// change merges a change into the Bundle's spec; s hears of what is written because of it.
func (h *hub) change(t testing.TB, ctx context.Context, spec map[string]any, s *story) {
	t.Helper()
	h.listen(s)
	body, err := json.Marshal(map[string]any{"spec": spec})
	must(t, err)
	must(t, h.Hub.Patch(ctx, client.Bundles, framework.Workspace, bundle, body))
}

func (h *hub) awaitBundle(t testing.TB, ctx context.Context, what string, done func(*fleet.Bundle) bool) {
	t.Helper()
	_, err := client.Until(ctx, client.Await{
		From: h.Hub.Fleet, Resource: client.Bundles, Namespace: framework.Workspace, Name: bundle, For: what, Within: patience,
	}, done)
	must(t, err)
}
