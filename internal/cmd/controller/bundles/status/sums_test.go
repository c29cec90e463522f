package status

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/rules/rollout"
	"github.com/fleet-hub/fleet/internal/rules/selection"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// hubOf is a Bundle with its BundleDeployments, as the caches have them.
type hubOf struct {
	outcome     selection.Outcome
	deployments map[string]*fleet.BundleDeployment
	troubles    map[types.NamespacedName]string
	looked      int
}

func (h *hubOf) find(namespace string) *fleet.BundleDeployment {
	h.looked++
	return h.deployments[namespace]
}

func (h *hubOf) input() bundleInput {
	in := bundleInput{outcome: h.outcome, trouble: func(bd types.NamespacedName) string { return h.troubles[bd] }}
	for _, target := range h.outcome.Targets {
		if bd := h.deployments[target.Namespace]; bd != nil {
			in.deployments = append(in.deployments, bd)
		}
	}
	return in
}

// newHubOf has so many clusters in some partitions, and nothing deployed.
func newHubOf(random *rand.Rand, clusters, partitions int) *hubOf {
	h := &hubOf{deployments: map[string]*fleet.BundleDeployment{}, troubles: map[types.NamespacedName]string{}}
	h.retarget(random, clusters, partitions)
	return h
}

// retarget is what a pass of targeting finds.
func (h *hubOf) retarget(random *rand.Rand, clusters, partitions int) {
	h.outcome = selection.Outcome{Generation: random.Int64N(1000)}
	h.outcome.Rollout.MaxUnavailable = clusters
	for p := range partitions {
		h.outcome.Rollout.Partitions = append(h.outcome.Rollout.Partitions, rollout.Part{Name: fmt.Sprint("p", p), MaxUnavailable: random.IntN(3)})
	}
	for i := range clusters {
		target := selection.Target{
			Cluster:   types.NamespacedName{Namespace: []string{"ws", "other"}[random.IntN(2)], Name: fmt.Sprintf("c%03d", i)},
			Namespace: fmt.Sprint("n", i), DeploymentID: fmt.Sprint("s-1:", random.IntN(2)), Unreachable: random.IntN(8) == 0,
		}
		switch random.IntN(10) {
		case 0:
			target.Failure = "targeting error: no"
		case 1:
			target.DeploymentID = ""
		case 2:
			target.Namespace = "" // it has none yet
		}
		for p := range partitions {
			if random.IntN(partitions) == 0 {
				target.Partitions = append(target.Partitions, p)
				h.outcome.Rollout.Partitions[p].Count++
			}
		}
		h.outcome.Targets = append(h.outcome.Targets, target)
	}
}

// happen changes one BundleDeployment and returns its namespace.
func (h *hubOf) happen(random *rand.Rand) string {
	namespace := fmt.Sprint("n", random.IntN(len(h.outcome.Targets)+2)) // some belong to no target
	if random.IntN(6) == 0 {
		delete(h.deployments, namespace)
		return namespace
	}
	id := func() string { return fmt.Sprint("s-1:", random.IntN(2)) }
	bd := &fleet.BundleDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"}}
	bd.Spec.DeploymentID, bd.Spec.StagedDeploymentID, bd.Status.AppliedDeploymentID = id(), id(), id()
	bd.Status.Ready, bd.Status.NonModified = random.IntN(3) > 0, random.IntN(4) > 0
	if random.IntN(5) == 0 {
		bd.Status.Conditions = []genericcondition.GenericCondition{{Type: fleet.ConditionDeployed, Status: "False", Reason: "Error", Message: fmt.Sprint("no ", random.IntN(3))}}
	}
	if random.IntN(10) == 0 {
		bd.DeletionTimestamp = &metav1.Time{}
	}
	h.deployments[namespace] = bd
	return namespace
}

// inputOf is that of one who reads the ledger now.
func (h *hubOf) inputOf(s *sums) bundleInput {
	in := h.input()
	in.asOf = s.asOf()
	return in
}

// Sums of a ledger entry that was read before targeting changed are not kept.
func TestSumsOfTheOldTargetsAreNotKept(t *testing.T) {
	web := types.NamespacedName{Namespace: "ws", Name: "web"}
	random := rand.New(rand.NewPCG(1, 39)) //nolint:gosec // the same ones each time
	h, s := newHubOf(random, 30, 0), newSums()
	before, old := h.inputOf(s), addUp(h.input())
	h.retarget(random, 70, 0)
	s.reset(web)
	for _, read := range []struct {
		in   bundleInput
		want figures
	}{{before, old}, {h.inputOf(s), addUp(h.input())}} {
		if diff := cmp.Diff(read.want, s.of(web, read.in, h.find), cmp.AllowUnexported(figures{})); diff != "" {
			t.Errorf("(-added up +kept):\n%s", diff)
		}
	}
}

func TestSumsOfFewTargetsAreNotKept(t *testing.T) {
	for targets, kept := range map[int]int{fewTargets: 0, fewTargets + 1: 1} {
		h, s := newHubOf(rand.New(rand.NewPCG(1, 39)), targets, 0), newSums() //nolint:gosec // the same ones each time
		s.of(types.NamespacedName{Namespace: "ws", Name: "web"}, h.inputOf(s), h.find)
		if len(s.bundles) != kept {
			t.Errorf("%d targets: %d Bundles are kept", targets, len(s.bundles))
		}
	}
}

// Whatever happens in whatever order, what is kept is what adding up all of it gives.
func TestSumsAreWhatAddingUpGives(t *testing.T) {
	web := types.NamespacedName{Namespace: "ws", Name: "web"}
	for seed := range uint64(40) {
		random := rand.New(rand.NewPCG(seed, 39)) //nolint:gosec // the same ones each time
		h, s := newHubOf(random, random.IntN(40), random.IntN(4)), newSums()
		for step := range 60 {
			switch random.IntN(12) {
			case 0:
				h.retarget(random, random.IntN(40), random.IntN(4))
				s.reset(web)
			case 1:
				h.troubles[types.NamespacedName{Namespace: fmt.Sprint("n", random.IntN(5)), Name: "web"}] = []string{"", "no source"}[random.IntN(2)]
				s.reset(web)
			default:
				for range random.IntN(4) {
					s.touch(web, h.happen(random))
				}
			}
			if random.IntN(3) == 0 {
				continue // several changes are told together
			}
			got := s.of(web, h.inputOf(s), h.find)
			if diff := cmp.Diff(addUp(h.input()), got, cmp.AllowUnexported(figures{})); diff != "" {
				t.Fatalf("seed %d, step %d (-added up +kept):\n%s", seed, step, diff)
			}
		}
	}
}

// A change looks at what changed and at what is listed, however many clusters there are.
func TestAChangeCostsWhatChanged(t *testing.T) {
	web := types.NamespacedName{Namespace: "ws", Name: "web"}
	for _, clusters := range []int{20, 2000} {
		h, s := &hubOf{deployments: map[string]*fleet.BundleDeployment{}}, newSums()
		h.outcome.Rollout = rollout.Layout{MaxUnavailable: clusters, Partitions: []rollout.Part{{Name: "All", Count: clusters, MaxUnavailable: clusters}}}
		ready := func(i int) {
			bd := &fleet.BundleDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprint("n", i), Name: "web"}}
			bd.Spec.DeploymentID, bd.Spec.StagedDeploymentID, bd.Status.AppliedDeploymentID = "s-1:a", "s-1:a", "s-1:a"
			bd.Status.Ready, bd.Status.NonModified = true, true
			h.deployments[bd.Namespace] = bd
			s.touch(web, bd.Namespace)
		}
		for i := range clusters {
			h.outcome.Targets = append(h.outcome.Targets, selection.Target{
				Cluster: types.NamespacedName{Namespace: "ws", Name: fmt.Sprint("c", i)}, Namespace: fmt.Sprint("n", i), DeploymentID: "s-1:a", Partitions: []int{0},
			})
			ready(i)
		}
		if first := s.of(web, h.inputOf(s), h.find); first.summary.Ready != clusters {
			t.Fatalf("%d of %d are ready", first.summary.Ready, clusters)
		}
		h.looked = 0
		h.deployments["n7"].Status.Ready = false
		s.touch(web, "n7")
		after := s.of(web, h.inputOf(s), h.find)
		if after.summary.Ready != clusters-1 || after.summary.NotReady != 1 || after.progress.Unavailable != 1 || after.progress.Partitions[0].Unavailable != 1 {
			t.Errorf("after one of %d failed: %+v", clusters, after)
		}
		if h.looked > 3 { // the one, and the same where it is listed: in all, and in its partition
			t.Errorf("%d BundleDeployments of %d were looked at for one change", h.looked, clusters)
		}
		h.looked = 0
		ready(7)
		if again := s.of(web, h.inputOf(s), h.find); again.summary.Ready != clusters || h.looked != 1 {
			t.Errorf("%d are ready of %d, %d looked at", again.summary.Ready, clusters, h.looked)
		}
	}
}

func TestChangeOfUnknownBundle_IsNotStored(t *testing.T) {
	s := newSums()
	s.touch(types.NamespacedName{Name: "unknown"}, "n")
	s.reset(types.NamespacedName{Name: "unknown"})
	if len(s.bundles) != 0 {
		t.Errorf("kept: %v", s.bundles)
	}
}

func BenchmarkAChangeOfOneOfAThousand(b *testing.B) {
	web := types.NamespacedName{Namespace: "ws", Name: "web"}
	random := rand.New(rand.NewPCG(1, 39)) //nolint:gosec // the same ones each time
	h, s := newHubOf(random, 1000, 4), newSums()
	for range 5000 {
		h.happen(random)
	}
	in := h.input()
	b.Run("kept", func(b *testing.B) {
		for b.Loop() {
			s.touch(web, "n7")
			s.of(web, in, h.find)
		}
	})
	b.Run("added up", func(b *testing.B) {
		for b.Loop() {
			addUp(in)
		}
	})
}
