package grant_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/fleet-hub/fleet/internal/rules/grant"
	"github.com/fleet-hub/fleet/internal/rules/rulestest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Startup of the hub replaces the cleanup command of Rancher Fleet (decision 1). The registrations may be of either
// implementation.
func TestStartupCleanup_DeletesOlderAndOrphanedRegistrations(t *testing.T) {
	type request = *fleet.ClusterRegistration
	made := func(name string, ago time.Duration, modifiers ...func(request)) request {
		return aRequest(append([]func(request){requestNamed(name), requestMadeAt(rulestest.At(-ago))}, modifiers...)...)
	}
	unowned := func(r request) { r.OwnerReferences = nil }
	ofAnother, ofNobody := requestClient("c2"), requestClient("c3")
	tests := map[string]struct {
		requests []request
		want     []string
	}{
		"several granted registrations of a Cluster: the newest stays": {
			[]request{made("a", 3*time.Hour, requestGranted), made("b", 2*time.Hour, requestGranted), made("c", time.Hour, requestGranted)}, []string{"a", "b"}},
		"older registration that was not granted: deleted": {
			[]request{made("a", 3*time.Hour, requestOf("east")), made("b", 2*time.Hour, requestGranted)}, []string{"a"}},
		"newer registration that is not granted yet: stays": {
			[]request{made("a", 3*time.Hour, requestGranted), made("b", 2*time.Hour, requestGranted), made("c", time.Minute, requestOf("east"))}, []string{"a"}},
		"no registration is granted yet: all stay": {
			[]request{made("a", 2*time.Minute, requestOf("east")), made("b", time.Minute)}, nil},
		"granted by this hub and not used yet: the older one stays": {
			[]request{made("a", time.Hour, requestGranted), made("b", time.Minute, requestGranted, requestNoted(rulestest.At(-time.Minute).Format(time.RFC3339)))}, nil},
		"older registration with the Cluster's former client ID: deleted": {
			[]request{made("a", 3*time.Hour, requestGranted, ofAnother), made("b", 2*time.Hour, requestGranted)}, []string{"a"}},
		"registrations of other Clusters: stay": {
			[]request{made("a", 3*time.Hour, requestOf("west"), ofAnother), made("b", 2*time.Hour, requestGranted)}, nil},
		"registrations without a Cluster: stay at any age": {
			[]request{made("a", 1000*time.Hour, ofAnother), made("b", 2*time.Hour, requestGranted)}, nil},
		"registrations of a deleted Cluster: deleted": {
			[]request{made("a", 3*time.Hour, ofNobody, func(r request) { r.Status.ClusterName, r.Status.Granted = "gone", true }, unowned),
				made("b", 2*time.Hour, ofNobody, requestOf("gone")), made("c", time.Hour, requestGranted)}, []string{"a", "b"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			rulestest.Permute(test.requests, func(requests []request) {
				rulestest.ExpectEqual(t, "deleted", cleanedUp(t, requests), test.want, cmpopts.EquateEmpty())
			})
		})
	}
}

// cleanedUp is what is deleted if the rule looks at each request once. There are Clusters east, whose agent was heard
// of a minute ago, and west; all that was granted has its rights.
func cleanedUp(t *testing.T, requests []*fleet.ClusterRegistration) (deleted []string) {
	t.Helper()
	clusters := map[string]*fleet.Cluster{
		"east": rulestest.ACluster(rulestest.ClusterSeen(rulestest.At(-time.Minute))), "west": rulestest.ACluster(rulestest.ClusterNamed("west"), rulestest.ClusterClient("c2"), rulestest.ClusterSeen(rulestest.At(-time.Minute))),
	}
	for _, request := range requests {
		in := grantInput(others(requests...), requestAccount, requestRights, func(in *grant.Input) {
			in.Request, in.Named = request, clusters[request.Status.ClusterName]
			for _, name := range []string{"east", "west"} {
				if clusters[name].Spec.ClientID == request.Spec.ClientID {
					in.Clusters = append(in.Clusters, clusters[name])
				}
			}
		})
		out := rulestest.Pure(t, grant.Decide, in)
		deleted = append(deleted, out.Superseded...)
		if out.Stage == grant.Abandoned {
			deleted = append(deleted, request.Name)
		}
	}
	slices.Sort(deleted)
	return slices.Compact(deleted)
}
