package parity_test

import (
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/e2e/parity"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// The minimum numbers of the comparison. Smaller numbers mean that objects or fields are missing.
const (
	recordedObjects = 140
	equalFields     = 2680
)

// pause is the pause between two comparisons.
const pause = 250 * time.Millisecond

// The URLs at the time of the recording. recordedInside is the hub's in-cluster URL.
const (
	recordedHub    = "https://10.99.0.2:6443"
	recordedInside = "https://10.43.0.1:443"
	recordedEast   = "https://10.99.0.3:6443"
)

// TestRecordedSituation_IsReproduced recreates the recorded situation and compares every object. `go test -v`
// prints the numbers.
func TestRecordedSituation_IsReproduced(t *testing.T) {
	g := NewWithT(t)
	s := start(t)
	clusters := map[string]*fleet.Cluster{}
	var err error
	clusters[hub], err = s.Joined(t.Context(), framework.LocalWorkspace, "the hub itself", framework.Named(names.LocalCluster))
	g.Expect(err).NotTo(HaveOccurred())
	s.make(t, "ClusterRegistrationToken fleet-default/swarm", "ClusterGroup fleet-default/prod", "Secret fleet-default/east-kubeconfig", "Cluster fleet-default/east")
	clusters[east], err = s.Joined(t.Context(), framework.Workspace, east, framework.Named(east))
	g.Expect(err).NotTo(HaveOccurred())
	// The hub knows east by now. A Bundle that had to wait for its Cluster would have one condition more.
	s.make(t, "Bundle fleet-default/hello", "Bundle fleet-default/raw")
	clusters[west] = s.installAgent(t)
	for name, cluster := range clusters {
		_, _, err := s.Managed(t.Context(), name, cluster)
		g.Expect(err).NotTo(HaveOccurred())
	}

	// The hub was recorded while the pod of Bundle raw was starting, east when it was running.
	var before []parity.Object
	settles(t, g, func(g Gomega) parity.Report {
		before = s.objects(t, g)
		return s.compare(g, before, hub, west)
	})
	s.letGo(t)
	report := settles(t, g, func(g Gomega) parity.Report {
		all := slices.Concat(only(before, hub, west), only(s.objects(t, g), east))
		return s.compare(g, all, hub, east, west)
	})
	t.Log(report)
	g.Expect(report.Objects).To(Equal(recordedObjects))
	g.Expect(report.Equal).To(BeNumerically(">=", equalFields))
}

// settles waits until a report has no differences, and returns it.
func settles(t *testing.T, g *WithT, compare func(Gomega) parity.Report) (report parity.Report) {
	t.Helper()
	g.Eventually(func(g Gomega) {
		report = compare(g)
		g.Expect(report.Diff()).To(BeEmpty())
	}).WithContext(t.Context()).WithTimeout(framework.Patience).WithPolling(pause).Should(Succeed())
	return report
}

// compare judges the objects of some clusters; those of the others only give names.
func (s *situation) compare(g Gomega, ours []parity.Object, clusters ...string) parity.Report {
	addresses := map[string]string{
		s.Plane.Hub.URL: "<hub>", s.Cluster(east).URL: "<east>", s.Cluster(east).Config().BearerToken: "<admin token>",
	}
	recordedAddresses := map[string]string{recordedHub: "<hub>", recordedInside: "<hub>", recordedEast: "<east>"}
	return parity.Judge(
		parity.Compare(named(g, s.recorded, recordedAddresses, clusters), named(g, ours, addresses, clusters), renamed()),
		about(clusters, decided()), about(clusters, waiting()),
	)
}

// named are the objects of some clusters, expanded and with the names of both sides.
func named(g Gomega, objects []parity.Object, given map[string]string, clusters []string) []parity.Object {
	expanded := make([]parity.Object, len(objects))
	for i, object := range objects {
		var err error
		expanded[i], err = parity.Expand(object)
		g.Expect(err).NotTo(HaveOccurred())
	}
	names := parity.NewNames(expanded, given)
	found := only(expanded, clusters...)
	for i := range found {
		found[i] = names.Of(found[i])
	}
	return found
}

// only are the objects of some clusters.
func only(objects []parity.Object, clusters ...string) []parity.Object {
	var found []parity.Object
	for _, o := range objects {
		if slices.Contains(clusters, o.Cluster) {
			found = append(found, o)
		}
	}
	return found
}
