package state

import (
	"fmt"
	"math/rand"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func TestSummarize(t *testing.T) {
	var many []Entry
	var listed []fleet.NonReadyResource
	for i := range 12 {
		many = append(many, Entry{Name: fmt.Sprintf("b%02d", i), State: fleet.Modified})
		if i < 10 {
			listed = append(listed, fleet.NonReadyResource{Name: fmt.Sprintf("b%02d", i), BundleState: fleet.Modified})
		}
	}
	mixed := append([]Entry{{Name: "z", State: fleet.ErrApplied, Message: "boom"}, {Name: "y", State: fleet.ErrApplied}}, many...)
	errorsFirst := append([]fleet.NonReadyResource{{Name: "y", BundleState: fleet.ErrApplied}, {Name: "z", BundleState: fleet.ErrApplied, Message: "boom"}}, listed[:8]...)
	bad := deployment(applied("s-0:z"), with("Deployed", "False", "Error", "boom"), func(bd *fleet.BundleDeployment) {
		bd.Status.ModifiedStatus = []fleet.ModifiedStatus{{Kind: "Service"}}
		bd.Status.NonReadyStatus = []fleet.NonReadyStatus{{Kind: "Pod"}}
	})
	tests := map[string]struct {
		in   []Entry
		want fleet.BundleSummary
	}{
		"nothing": {nil, fleet.BundleSummary{}},
		"one of each": {
			[]Entry{
				{Name: "a", State: fleet.Ready}, {Name: "b", State: fleet.NotReady}, {Name: "c", State: fleet.Pending}, {Name: "d", State: fleet.OutOfSync},
				{Name: "e", State: fleet.Modified}, {Name: "f", State: fleet.WaitApplied}, {Name: "g", State: fleet.ErrApplied}, {Name: "h", State: "Surprised"},
			},
			fleet.BundleSummary{
				DesiredReady: 8, Ready: 1, NotReady: 1, Pending: 1, OutOfSync: 1, Modified: 1, WaitApplied: 1, ErrApplied: 1,
				NonReadyResources: []fleet.NonReadyResource{
					{Name: "b", BundleState: fleet.NotReady}, {Name: "c", BundleState: fleet.Pending}, {Name: "d", BundleState: fleet.OutOfSync},
					{Name: "e", BundleState: fleet.Modified}, {Name: "f", BundleState: fleet.WaitApplied}, {Name: "g", BundleState: fleet.ErrApplied},
					{Name: "h", BundleState: "Surprised"},
				},
			},
		},
		"ten are listed, twelve counted":         {many, fleet.BundleSummary{DesiredReady: 12, Modified: 12, NonReadyResources: listed}},
		"more than ten, errors are listed first": {mixed, fleet.BundleSummary{DesiredReady: 14, Modified: 12, ErrApplied: 2, NonReadyResources: errorsFirst}},
		"ten with an error: by name": {
			append([]Entry{{Name: "z", State: fleet.ErrApplied}}, many[:9]...),
			fleet.BundleSummary{DesiredReady: 10, Modified: 9, ErrApplied: 1, NonReadyResources: append(slices.Clone(listed[:9]), fleet.NonReadyResource{Name: "z", BundleState: fleet.ErrApplied})},
		},
		"messages of the agent are listed": {
			[]Entry{EntryOf("web", bad, bad.Spec.DeploymentID)},
			fleet.BundleSummary{DesiredReady: 1, ErrApplied: 1, NonReadyResources: []fleet.NonReadyResource{{
				Name: "web", BundleState: fleet.ErrApplied, Message: "boom",
				ModifiedStatus: bad.Status.ModifiedStatus, NonReadyStatus: bad.Status.NonReadyStatus,
			}}},
		},
		"staged change: not applied for the Bundle": {
			[]Entry{EntryOf("ws/east", deployment(staged("s-2:b")), "s-2:b")},
			fleet.BundleSummary{DesiredReady: 1, WaitApplied: 1, NonReadyResources: []fleet.NonReadyResource{{Name: "ws/east", BundleState: fleet.WaitApplied}}},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, Summarize(test.in)); diff != "" {
				t.Errorf("summary (-want +got):\n%s", diff)
			}
			shuffled := append([]Entry(nil), test.in...)
			rand.New(rand.NewSource(1)).Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
			if diff := cmp.Diff(test.want, Summarize(shuffled)); diff != "" {
				t.Errorf("in another order (-want +got):\n%s", diff)
			}
		})
	}
}

// A permanent failure has the state NotReady, and its cluster may be the last by name.
func TestFailedEntry_IsListedAndDescribed(t *testing.T) {
	failed := Entry{Name: "ws/z", State: fleet.NotReady, Message: "not installed: boom", Failed: true}
	entries := func(n int, state fleet.BundleState) (all []Entry) {
		for i := range n {
			all = append(all, Entry{Name: fmt.Sprintf("ws/c%02d", i), State: state})
		}
		return all
	}
	for name, test := range map[string]struct {
		others []Entry
		want   string
	}{
		"twelve wait":         {entries(12, fleet.WaitApplied), "NotReady(1) [Cluster ws/z: not installed: boom]; WaitApplied(12) [Cluster ws/c00]"},
		"twelve are modified": {entries(12, fleet.Modified), "Modified(12) [Cluster ws/c00]; NotReady(1) [Cluster ws/z: not installed: boom]"},
		"twelve progress":     {entries(12, fleet.NotReady), "NotReady(13) [Cluster ws/z: not installed: boom]"},
		"one progresses":      {entries(1, fleet.NotReady), "NotReady(2) [Cluster ws/z: not installed: boom]"},
		"one waits":           {entries(1, fleet.WaitApplied), "NotReady(1) [Cluster ws/z: not installed: boom]; WaitApplied(1) [Cluster ws/c00]"},
	} {
		t.Run(name, func(t *testing.T) {
			summary := Summarize(append(test.others, failed))
			if !slices.ContainsFunc(summary.NonReadyResources, func(r fleet.NonReadyResource) bool { return r.Name == failed.Name && r.Message == failed.Message }) {
				t.Errorf("the failed cluster is not listed: %v", summary.NonReadyResources)
			}
			if got := ReadyCondition(summary, KindCluster).Message; got != test.want {
				t.Errorf("message = %q, want %q", got, test.want)
			}
		})
	}
}

func TestSummarize_ListsWhatIsNotReadyBeforeWhatWaits(t *testing.T) {
	var entries []Entry
	for i, state := range []fleet.BundleState{fleet.Modified, fleet.WaitApplied, fleet.OutOfSync, fleet.Pending} {
		for j := range 3 {
			entries = append(entries, Entry{Name: fmt.Sprintf("a%d%d", i, j), State: state})
		}
	}
	entries = append(entries, Entry{Name: "b", State: fleet.NotReady}, Entry{Name: "c", State: fleet.Modified, Failed: true}, Entry{Name: "d", State: fleet.ErrApplied})
	var got []string
	for _, listed := range Summarize(entries).NonReadyResources {
		got = append(got, listed.Name)
	}
	if diff := cmp.Diff([]string{"d", "c", "b", "a00", "a01", "a02", "a10", "a11", "a20", "a30"}, got); diff != "" {
		t.Errorf("listed (-want +got):\n%s", diff)
	}
}

func TestSummarize_ListsEachState(t *testing.T) {
	entries := []Entry{{Name: "y", State: fleet.WaitApplied}, {Name: "z", State: fleet.Modified}}
	for i := range 12 {
		entries = append(entries, Entry{Name: fmt.Sprintf("c%02d", i), State: fleet.NotReady})
	}
	got := Summarize(entries)
	if len(got.NonReadyResources) != MaxListed || WorstState(got) != string(fleet.WaitApplied) {
		t.Errorf("%d entries, worst state %s", len(got.NonReadyResources), WorstState(got))
	}
	want := "Modified(1) [Cluster z]; NotReady(12) [Cluster c00]; WaitApplied(1) [Cluster y]"
	if message := ReadyMessage(got, KindCluster); message != want {
		t.Errorf("message %q, want %q", message, want)
	}
}

func TestAdd(t *testing.T) {
	list := func(n int, state fleet.BundleState) (out []fleet.NonReadyResource) {
		for range n {
			out = append(out, fleet.NonReadyResource{BundleState: state})
		}
		return out
	}
	a := fleet.BundleSummary{NotReady: 6, Ready: 1, DesiredReady: 7, NonReadyResources: list(6, fleet.NotReady)}
	b := fleet.BundleSummary{WaitApplied: 2, ErrApplied: 3, OutOfSync: 4, Modified: 5, Ready: 6, Pending: 7, DesiredReady: 27, NonReadyResources: list(6, fleet.Modified)}
	want := fleet.BundleSummary{
		NotReady: 6, WaitApplied: 2, ErrApplied: 3, OutOfSync: 4, Modified: 5, Ready: 7, Pending: 7, DesiredReady: 34,
		NonReadyResources: append(list(6, fleet.NotReady), list(4, fleet.Modified)...),
	}
	if diff := cmp.Diff(want, Add(a, b)); diff != "" {
		t.Errorf("sum (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(list(6, fleet.NotReady), a.NonReadyResources); diff != "" {
		t.Errorf("an input was changed:\n%s", diff)
	}
	full, failed := fleet.BundleSummary{NonReadyResources: list(MaxListed, fleet.WaitApplied)}, fleet.BundleSummary{NonReadyResources: list(1, fleet.ErrApplied)}
	want.NonReadyResources = append(list(1, fleet.ErrApplied), list(MaxListed-1, fleet.WaitApplied)...)
	if diff := cmp.Diff(want.NonReadyResources, Add(full, failed).NonReadyResources); diff != "" {
		t.Errorf("list with an error (-want +got):\n%s", diff)
	}
	failed.NonReadyResources = []fleet.NonReadyResource{{BundleState: fleet.NotReady, Message: "not installed"}}
	if got := Add(full, failed).NonReadyResources[0].Message; got != "not installed" {
		t.Errorf("first of the list = %q, want the failure", got)
	}
}

// Most members of a large group have nothing that its list has room for.
func TestAdd_EqualsTheJoinedLists(t *testing.T) {
	random := rand.New(rand.NewSource(1))
	states := []fleet.BundleState{fleet.NotReady, fleet.Pending, fleet.OutOfSync, fleet.Modified, fleet.WaitApplied, fleet.ErrApplied, "Surprised", fleet.BundleState(strings.Repeat("x", 1000))}
	summary := func(most, kinds int) (s fleet.BundleSummary) {
		for range random.Intn(most + 1) {
			entry := fleet.NonReadyResource{Name: fmt.Sprint(random.Intn(100)), BundleState: states[random.Intn(kinds)], Message: strings.Repeat("m", random.Intn(2)*random.Intn(800))}
			entry.NonReadyStatus = make([]fleet.NonReadyStatus, random.Intn(2)*random.Intn(12)) // of which ten are listed, and a message
			s.NonReadyResources = append(s.NonReadyResources, entry)
		}
		return s
	}
	filled := 0
	for range 2000 {
		kinds := 1 + random.Intn(len(states))
		a, b := summary(12, kinds), summary(12, kinds)
		for range random.Intn(3) {
			a = Add(a, summary(12, kinds))
		}
		joined := slices.Concat(a.NonReadyResources, BoundSummary(b).NonReadyResources)
		if len(b.NonReadyResources) > 0 {
			joined = shorten(joined, func(r fleet.NonReadyResource) fleet.BundleState { return r.BundleState }, ByUrgency)
			if fills(a.NonReadyResources, BoundSummary(b).NonReadyResources) {
				filled++
			}
		}
		if got := Add(a, b).NonReadyResources; !reflect.DeepEqual(joined, got) {
			t.Fatalf("%v and %v (-joined +sum):\n%s", a, b, cmp.Diff(joined, got))
		}
	}
	if filled < 100 {
		t.Errorf("only %d of the lists were full", filled)
	}
}

// BenchmarkAdd sums up the members of a group, none of which is ready.
func BenchmarkAdd(b *testing.B) {
	var members []fleet.BundleSummary
	for i := range 10_000 {
		members = append(members, fleet.BundleSummary{NotReady: 1, DesiredReady: 1, NonReadyResources: []fleet.NonReadyResource{{Name: fmt.Sprint(i), BundleState: fleet.NotReady}}})
	}
	b.ReportAllocs()
	for b.Loop() {
		var sum fleet.BundleSummary
		for _, member := range members {
			sum = Add(sum, member)
		}
	}
}

func TestReadyCondition(t *testing.T) {
	details := func(n int) (out []fleet.NonReadyStatus) {
		for i := range n {
			out = append(out, fleet.NonReadyStatus{Kind: "Pod", APIVersion: "v1", Name: fmt.Sprint("p", i), Summary: fleet.ResourceSummary{State: "Pending"}})
		}
		return out
	}
	tests := map[string]struct {
		in    fleet.BundleSummary
		kind  string
		want  string
		state string
	}{
		"nothing is ready":     {in: fleet.BundleSummary{}},
		"all ready":            {in: fleet.BundleSummary{Ready: 2, DesiredReady: 2}},
		"nothing listed":       {in: fleet.BundleSummary{NotReady: 1, DesiredReady: 1}},
		"listed but not count": {in: fleet.BundleSummary{NonReadyResources: []fleet.NonReadyResource{{Name: "a", BundleState: fleet.NotReady}}}, state: "NotReady"},
		"one without a reason": {
			in:    Summarize([]Entry{{Name: "ws/east", State: fleet.WaitApplied}}),
			kind:  KindCluster,
			want:  "WaitApplied(1) [Cluster ws/east]",
			state: "WaitApplied",
		},
		"one with a reason": {
			in:    Summarize([]Entry{{Name: "web", State: fleet.ErrApplied, Message: "boom"}}),
			kind:  KindBundle,
			want:  "ErrApplied(1) [Bundle web: boom]",
			state: "ErrApplied",
		},
		"the first of each state stands for all of it": {
			in: Summarize([]Entry{
				{Name: "c", State: fleet.NotReady, Message: "third"}, {Name: "a", State: fleet.NotReady, Message: "first"},
				{Name: "b", State: fleet.Pending}, {Name: "d", State: fleet.Ready},
			}),
			kind:  KindBundle,
			want:  "NotReady(2) [Bundle a: first]; Pending(1) [Bundle b]",
			state: "Pending",
		},
		"four resources of each list are mentioned": {
			in: Summarize([]Entry{{
				Name: "web", State: fleet.Modified, NonReady: details(5),
				Modified: []fleet.ModifiedStatus{{Kind: "A", Delete: true}, {Kind: "B", Delete: true}, {Kind: "C", Delete: true}, {Kind: "D", Delete: true}, {Kind: "E", Delete: true}},
			}}),
			kind:  KindBundle,
			want:  "Modified(1) [Bundle web]; a  extra; b  extra; c  extra; d  extra; pod.v1 p0 Pending; pod.v1 p1 Pending; pod.v1 p2 Pending; pod.v1 p3 Pending",
			state: "Modified",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := ReadyCondition(test.in, test.kind)
			status := "True"
			if test.want != "" {
				status = "False"
			}
			if string(got.Status) != status || got.Message != test.want || got.Type != "Ready" || got.Reason != "" {
				t.Errorf("condition = %+v, want %s %q", got, status, test.want)
			}
			if got := WorstState(test.in); got != test.state {
				t.Errorf("worst state = %q, want %q", got, test.state)
			}
		})
	}
}

func TestReadyText(t *testing.T) {
	if got := ReadyText(fleet.BundleSummary{Ready: 2, DesiredReady: 3}); got != "2/3" {
		t.Errorf("text = %q", got)
	}
}

// A status is written if its message changes, so equal entries must give equal messages in any order.
func TestSummarize_IgnoresTheOrderOfEntries(t *testing.T) {
	random := rand.New(rand.NewSource(7))
	all := []fleet.BundleState{fleet.Ready, fleet.NotReady, fleet.Pending, fleet.OutOfSync, fleet.Modified, fleet.WaitApplied, fleet.ErrApplied}
	for range 200 {
		var entries []Entry
		for i := range random.Intn(20) {
			entries = append(entries, Entry{Name: fmt.Sprintf("b%02d", i), State: all[random.Intn(len(all))], Message: strings.Repeat("m", random.Intn(2))})
		}
		want := Summarize(entries)
		random.Shuffle(len(entries), func(i, j int) { entries[i], entries[j] = entries[j], entries[i] })
		got := Summarize(entries)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("summary (-want +got):\n%s", diff)
		}
		if a, b := ReadyMessage(want, KindBundle), ReadyMessage(got, KindBundle); a != b {
			t.Fatalf("messages differ: %q, %q", a, b)
		}
	}
}
