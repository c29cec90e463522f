package clustergroup

import (
	"errors"
	"fmt"
	"math/rand"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/fleet-hub/fleet/e2e/framework/recorded"
	"github.com/fleet-hub/fleet/internal/rules/targeting"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

var now = time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)

// The status is computed from an empty status and from the recorded one.
func TestRecordedClusterGroups_HaveTheRecordedStatus(t *testing.T) {
	clusters := recorded.Objects[fleet.Cluster](t, "clusters")
	groups := recorded.Objects[fleet.ClusterGroup](t, "clustergroups")
	if len(groups) != 2 {
		t.Fatalf("%d groups are recorded, want 2", len(groups))
	}
	for _, group := range groups {
		in := input{now: now}
		selector, err := targeting.GroupSelector(group)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range clusters {
			if c.Namespace == group.Namespace && selector.Matches(labels.Set(c.Labels)) {
				in.members = append(in.members, c)
			}
		}
		same := *group.Status.DeepCopy()
		setStatus(&same, in)
		if diff := cmp.Diff(group.Status, same); diff != "" {
			t.Errorf("status of %s, told again (-want +got):\n%s", group.Name, diff)
		}
		var fresh fleet.ClusterGroupStatus
		setStatus(&fresh, in)
		want := *group.Status.DeepCopy()
		for i := range want.Conditions {
			want.Conditions[i].LastUpdateTime = "2026-11-21T08:00:00Z"
		}
		if diff := cmp.Diff(want, fresh); diff != "" {
			t.Errorf("status of %s from nothing (-want +got):\n%s", group.Name, diff)
		}
	}
}

func member(name string, modifiers ...func(*fleet.Cluster)) *fleet.Cluster {
	c := &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: name, UID: "u"}}
	for _, modify := range modifiers {
		modify(c)
	}
	return c
}

// ready has this many Bundles, of two resources each, all ready.
func ready(bundles int) func(*fleet.Cluster) {
	return func(c *fleet.Cluster) {
		c.Status.Summary.Ready += bundles
		c.Status.Summary.DesiredReady += bundles
		c.Status.ResourceCounts.Ready += 2 * bundles
		c.Status.ResourceCounts.DesiredReady += 2 * bundles
	}
}

// failing has one Bundle more, which is in this state.
func failing(bundle string, state fleet.BundleState) func(*fleet.Cluster) {
	return func(c *fleet.Cluster) {
		s := &c.Status.Summary
		s.DesiredReady++
		c.Status.ResourceCounts.DesiredReady++
		switch state {
		case fleet.NotReady:
			s.NotReady++
			c.Status.ResourceCounts.NotReady++
		case fleet.ErrApplied:
			s.ErrApplied++
			c.Status.ResourceCounts.Missing++
		}
		s.NonReadyResources = append(s.NonReadyResources, fleet.NonReadyResource{Name: bundle, BundleState: state})
	}
}

// mute makes the agent of a Cluster stop reporting.
func mute(c *fleet.Cluster) {
	c.Status.Conditions = []genericcondition.GenericCondition{{Type: "Ready", Status: "False", Reason: conditions.ReasonAgentNotReporting}}
}

func conditionsOf(ready, processed genericcondition.GenericCondition) []genericcondition.GenericCondition {
	ready.Type, processed.Type = "Ready", "Processed"
	ready.LastUpdateTime, processed.LastUpdateTime = "2026-11-21T08:00:00Z", "2026-11-21T08:00:00Z"
	return []genericcondition.GenericCondition{ready, processed}
}

var (
	isTrue  = genericcondition.GenericCondition{Status: "True"}
	invalid = genericcondition.GenericCondition{
		Status: "False", Reason: "SelectorInvalid",
		Message: "ClusterGroup g: selector: no; correct it: until then, the group's members are unknown, and what was deployed because of it stays",
	}
)

func isFalse(message string) genericcondition.GenericCondition {
	return genericcondition.GenericCondition{Status: "False", Message: message}
}

func TestSetStatus(t *testing.T) {
	bad := errors.New("ClusterGroup g: selector: no")
	before := fleet.ClusterGroupStatus{
		ClusterCount: 1, Display: fleet.ClusterGroupDisplay{ReadyClusters: "1/1", ReadyBundles: "2/2"},
		Summary:        fleet.BundleSummary{Ready: 2, DesiredReady: 2},
		ResourceCounts: fleet.ResourceCounts{Ready: 4, DesiredReady: 4},
		Conditions:     conditionsOf(isTrue, isTrue),
	}
	tests := map[string]struct {
		before fleet.ClusterGroupStatus
		in     input
		want   fleet.ClusterGroupStatus
	}{
		"no members: ready": {
			fleet.ClusterGroupStatus{}, input{},
			fleet.ClusterGroupStatus{Display: fleet.ClusterGroupDisplay{ReadyClusters: "0/0", ReadyBundles: "0/0"}, Conditions: conditionsOf(isTrue, isTrue)},
		},
		"several Clusters: summed up": {
			fleet.ClusterGroupStatus{}, input{members: []*fleet.Cluster{member("a", ready(1)), member("b", ready(2)), member("c")}},
			fleet.ClusterGroupStatus{
				ClusterCount: 3, Summary: fleet.BundleSummary{Ready: 3, DesiredReady: 3}, ResourceCounts: fleet.ResourceCounts{Ready: 6, DesiredReady: 6},
				Display: fleet.ClusterGroupDisplay{ReadyClusters: "3/3", ReadyBundles: "3/3"}, Conditions: conditionsOf(isTrue, isTrue),
			},
		},
		"silent agent: named, its last report counts": {
			fleet.ClusterGroupStatus{}, input{members: []*fleet.Cluster{member("a", ready(1)), member("b", ready(2), mute)}},
			fleet.ClusterGroupStatus{
				ClusterCount: 2, NonReadyClusterCount: 1, NonReadyClusters: []string{"b"},
				Summary: fleet.BundleSummary{Ready: 3, DesiredReady: 3}, ResourceCounts: fleet.ResourceCounts{Ready: 6, DesiredReady: 6},
				Display: fleet.ClusterGroupDisplay{ReadyClusters: "1/2 (b)", ReadyBundles: "3/3"}, Conditions: conditionsOf(isTrue, isTrue),
			},
		},
		"Bundle is not ready: Cluster and Bundle are named": {
			fleet.ClusterGroupStatus{}, input{members: []*fleet.Cluster{
				member("b", ready(1), failing("web", fleet.NotReady)), member("a", ready(1)), member("c", failing("db", fleet.ErrApplied)),
			}},
			fleet.ClusterGroupStatus{
				ClusterCount: 3, NonReadyClusterCount: 2, NonReadyClusters: []string{"b", "c"},
				Summary: fleet.BundleSummary{Ready: 2, DesiredReady: 4, NotReady: 1, ErrApplied: 1, NonReadyResources: []fleet.NonReadyResource{
					{Name: "web", BundleState: fleet.NotReady}, {Name: "db", BundleState: fleet.ErrApplied},
				}},
				ResourceCounts: fleet.ResourceCounts{Ready: 4, DesiredReady: 6, NotReady: 1, Missing: 1},
				Display:        fleet.ClusterGroupDisplay{ReadyClusters: "1/3 (b,c)", ReadyBundles: "2/4", State: "ErrApplied"},
				Conditions:     conditionsOf(isFalse("ErrApplied(1) [Bundle db]; NotReady(1) [Bundle web]"), isTrue),
			},
		},
		"former status: replaced": {
			before, input{members: []*fleet.Cluster{member("a", failing("web", fleet.NotReady))}},
			fleet.ClusterGroupStatus{
				ClusterCount: 1, NonReadyClusterCount: 1, NonReadyClusters: []string{"a"},
				Summary: fleet.BundleSummary{DesiredReady: 1, NotReady: 1, NonReadyResources: []fleet.NonReadyResource{
					{Name: "web", BundleState: fleet.NotReady},
				}},
				ResourceCounts: fleet.ResourceCounts{DesiredReady: 1, NotReady: 1},
				Display:        fleet.ClusterGroupDisplay{ReadyClusters: "0/1 (a)", ReadyBundles: "0/1", State: "NotReady"},
				Conditions:     conditionsOf(isFalse("NotReady(1) [Bundle web]"), isTrue),
			},
		},
		"invalid selector: only the conditions change": {
			before, input{broken: bad},
			fleet.ClusterGroupStatus{
				ClusterCount: 1, Summary: before.Summary, ResourceCounts: before.ResourceCounts, Display: before.Display,
				Conditions: conditionsOf(invalid, invalid),
			},
		},
		"invalid selector, new group: no members": {
			fleet.ClusterGroupStatus{}, input{broken: bad}, fleet.ClusterGroupStatus{Conditions: conditionsOf(invalid, invalid)},
		},
		"corrected selector: conditions are True": {
			fleet.ClusterGroupStatus{Conditions: conditionsOf(invalid, invalid)}, input{members: []*fleet.Cluster{member("a", ready(2))}}, before,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			test.in.now = now
			got := *test.before.DeepCopy()
			setStatus(&got, test.in)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
			test.in.now = now.Add(time.Hour)
			setStatus(&got, test.in)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("told again it changes:\n%s", diff)
			}
		})
	}
}

// The order in which the cache lists members does not matter.
func TestManyMembers_TenAreNamedInAnyOrder(t *testing.T) {
	random := rand.New(rand.NewSource(11))
	in := input{now: now}
	for i := range 25 {
		in.members = append(in.members, member(fmt.Sprintf("c%02d", i), ready(i%3), failing(fmt.Sprintf("b%02d", i), []fleet.BundleState{fleet.NotReady, fleet.ErrApplied}[i%2])))
	}
	names := "c00,c01,c02,c03,c04,c05,c06,c07,c08,c09"
	var want fleet.ClusterGroupStatus
	setStatus(&want, in)
	display := fleet.ClusterGroupDisplay{ReadyClusters: "0/25 (" + names + ")", ReadyBundles: "24/49", State: "ErrApplied"}
	if diff := cmp.Diff(display, want.Display); diff != "" {
		t.Errorf("display (-want +got):\n%s", diff)
	}
	if got := strings.Join(want.NonReadyClusters, ","); got != names || want.NonReadyClusterCount != 25 || len(want.Summary.NonReadyResources) != 10 {
		t.Errorf("%d are not ready, among them %s, with %d Bundles", want.NonReadyClusterCount, got, len(want.Summary.NonReadyResources))
	}
	for range 50 {
		random.Shuffle(len(in.members), func(i, j int) { in.members[i], in.members[j] = in.members[j], in.members[i] })
		order := append([]*fleet.Cluster(nil), in.members...)
		var got fleet.ClusterGroupStatus
		setStatus(&got, in)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("another order, another status (-want +got):\n%s", diff)
		}
		for i := range order {
			if order[i] != in.members[i] {
				t.Fatal("the cache's list was sorted in place")
			}
		}
	}
}

// BenchmarkSetStatus measures a group of ten thousand Clusters, a tenth of which are not ready.
func BenchmarkSetStatus(b *testing.B) {
	in := input{now: now}
	for i := range 10000 {
		modifiers := []func(*fleet.Cluster){ready(5)}
		if i%10 == 0 {
			modifiers = append(modifiers, failing("web", fleet.NotReady))
		}
		in.members = append(in.members, member(fmt.Sprintf("c%05d", i), modifiers...))
	}
	for b.Loop() {
		var status fleet.ClusterGroupStatus
		setStatus(&status, in)
	}
}
