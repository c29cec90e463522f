package state

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// worst makes statuses as no honest agent does.
type worst struct {
	*rand.Rand

	// length is that of each text, count that of each list.
	length, count int
}

// text is made of what takes several bytes, in Go or as JSON, or is no text at all.
func (w worst) text() string {
	pieces := []string{"界", "<", "\"", "\x01", "\xff", "\u2028", "a", "𝄞", "\n"}
	return strings.Repeat(pieces[w.IntN(len(pieces))]+pieces[w.IntN(len(pieces))], w.length/4+1)
}

func (w worst) conditions() (out []genericcondition.GenericCondition) {
	for i := range w.count {
		kind := fmt.Sprint(w.text(), i)
		if i%3 == 0 {
			kind = []string{"Ready", "Processed", "Imported", "Reconciled", "AddressKnown", "AgentManaged", "AgentReporting", "Partitioned",
				"TargetsKnown", "Granted", "Deployed", "Installed", "Monitored"}[i/3%13]
		}
		out = append(out, genericcondition.GenericCondition{
			Type: kind, Status: corev1.ConditionStatus(w.text()), Reason: w.text(), Message: w.text(), LastUpdateTime: w.text(), LastTransitionTime: w.text(),
		})
	}
	return out
}

func (w worst) modified() (out []fleet.ModifiedStatus) {
	for range w.count {
		out = append(out, fleet.ModifiedStatus{
			Kind: w.text(), APIVersion: w.text(), Namespace: w.text(), Name: w.text(), Missing: true, Exist: true, Delete: true, Patch: w.text(),
		})
	}
	return out
}

func (w worst) nonReady() (out []fleet.NonReadyStatus) {
	for range w.count {
		n := fleet.NonReadyStatus{UID: types.UID(w.text()), Kind: w.text(), APIVersion: w.text(), Namespace: w.text(), Name: w.text()}
		n.Summary = fleet.ResourceSummary{State: w.text(), Error: true, Transitioning: true}
		for range w.count {
			n.Summary.Message = append(n.Summary.Message, w.text())
		}
		out = append(out, n)
	}
	return out
}

func (w worst) summary() fleet.BundleSummary {
	const many = 1 << 62
	out := fleet.BundleSummary{NotReady: many, WaitApplied: many, ErrApplied: many, OutOfSync: many, Modified: many, Ready: many, Pending: many, DesiredReady: many}
	for range min(w.count, 30) {
		out.NonReadyResources = append(out.NonReadyResources, fleet.NonReadyResource{
			Name: w.text(), BundleState: fleet.BundleState(w.text()), Message: w.text(), ModifiedStatus: w.modified(), NonReadyStatus: w.nonReady(),
		})
	}
	return out
}

func (w worst) partitions() (out []fleet.PartitionStatus) {
	for range w.count {
		out = append(out, fleet.PartitionStatus{Name: w.text(), Count: 1 << 62, MaxUnavailable: 1 << 62, Unavailable: 1 << 62, Summary: worst{w.Rand, w.length, 1}.summary()})
	}
	return out
}

// statuses are one object of each kind with as much in its status as w has, and their budgets.
func (w worst) statuses() map[runtime.Object]int {
	bundle := &fleet.Bundle{Status: fleet.BundleStatus{
		Conditions: w.conditions(), Summary: w.summary(), Partitions: w.partitions(), Display: fleet.BundleDisplay{State: w.text(), ReadyClusters: "1/2"},
	}}
	cluster := &fleet.Cluster{Status: fleet.ClusterStatus{Conditions: w.conditions(), Summary: w.summary(), Display: fleet.ClusterDisplay{State: w.text()}}}
	cluster.Status.Agent.Namespace, cluster.Status.Agent.KubernetesVersion, cluster.Status.Agent.Platform = w.text(), w.text(), w.text()
	group := &fleet.ClusterGroup{Status: fleet.ClusterGroupStatus{Conditions: w.conditions(), Summary: w.summary()}}
	for range MaxListed {
		group.Status.NonReadyClusters = append(group.Status.NonReadyClusters, strings.Repeat("n", 253))
	}
	bd := &fleet.BundleDeployment{Status: fleet.BundleDeploymentStatus{
		Conditions: w.conditions(), AppliedDeploymentID: w.text(), Release: w.text(), NonReadyStatus: w.nonReady(), ModifiedStatus: w.modified(),
		Display: fleet.BundleDeploymentDisplay{Deployed: w.text(), Monitored: w.text(), State: w.text()},
	}}
	for range 100 * w.count {
		bd.Status.Resources = append(bd.Status.Resources, fleet.DeployedResource{
			Kind: w.text(), APIVersion: "v1", Namespace: "ns", Name: strings.Repeat("n", 253), CreatedAt: metav1.Now(),
		})
	}
	registration := &fleet.ClusterRegistration{Status: fleet.ClusterRegistrationStatus{Conditions: w.conditions()}}
	token := &fleet.ClusterRegistrationToken{Status: fleet.ClusterRegistrationTokenStatus{Conditions: w.conditions()}}
	return map[runtime.Object]int{
		bundle: MaxBundleStatus, cluster: MaxClusterStatus, group: MaxClusterGroupStatus, bd: MaxBundleDeploymentStatus,
		registration: MaxClusterStatus, token: MaxClusterStatus,
	}
}

func TestBound_FitsTheWorstStatusesIntoTheirBudgets(t *testing.T) {
	for seed := range uint64(24) {
		random := rand.New(rand.NewPCG(seed, 1))
		w := worst{random, 1 << random.IntN(13), 1 << random.IntN(7)}
		for object, budget := range w.statuses() {
			Bound(object)
			encoded, err := json.Marshal(object)
			if err != nil {
				t.Fatal(err)
			}
			if len(encoded) > budget || !utf8.Valid(encoded) {
				t.Errorf("seed %d: the status of a %T takes %d bytes of %d; UTF-8: %v", seed, object, len(encoded), budget, utf8.Valid(encoded))
			}
			again := object.DeepCopyObject()
			Bound(again)
			if diff := cmp.Diff(object, again); diff != "" {
				t.Errorf("seed %d: bounded again, a %T differs (-want +got):\n%s", seed, object, diff)
			}
		}
	}
}

func TestSummarize_FitsWhateverAgentsReport(t *testing.T) {
	w := worst{rand.New(rand.NewPCG(1, 1)), 4000, 100}
	var entries []Entry
	for i := range 20 {
		entries = append(entries, Entry{Name: fmt.Sprint(i, w.text()), State: fleet.Modified, Message: w.text(), Modified: w.modified(), NonReady: w.nonReady()})
	}
	summary := Summarize(entries)
	if got := lengthOf(summary); got > MaxBundleStatus/2+16<<10 {
		t.Errorf("a summary takes %d bytes", got)
	}
	for _, listed := range summary.NonReadyResources {
		if !strings.HasSuffix(listed.Message, " more resources are not listed") {
			t.Errorf("message = %q, want one that counts what is left out", listed.Message)
		}
	}
	if len(summary.NonReadyResources) != MaxListed || summary.Modified != 20 {
		t.Errorf("%d are listed of %d", len(summary.NonReadyResources), summary.Modified)
	}
}

// What is no more than usual stays as agents report it.
func TestBound_LeavesWhatFits(t *testing.T) {
	modified := fleet.ModifiedStatus{Kind: "ConfigMap", APIVersion: "v1", Namespace: "web", Name: "settings", Patch: `{"data":{"a":"` + strings.Repeat("x", 600) + `"}}`}
	nonReady := fleet.NonReadyStatus{UID: "0b1c7a5e", Kind: "Deployment", APIVersion: "apps/v1", Namespace: "web", Name: "web", Summary: fleet.ResourceSummary{
		State: "updating", Transitioning: true, Message: []string{"Available: 0/1", "ReplicaSet \"web\" is progressing"},
	}}
	bundle := &fleet.Bundle{}
	for i := range MaxListed {
		entry := fleet.NonReadyResource{Name: fmt.Sprint("ws/c-", i), BundleState: fleet.Modified, Message: strings.Repeat("m", 1000)}
		for range 8 {
			entry.ModifiedStatus, entry.NonReadyStatus = append(entry.ModifiedStatus, modified), append(entry.NonReadyStatus, nonReady)
		}
		bundle.Status.Summary.NonReadyResources = append(bundle.Status.Summary.NonReadyResources, entry)
	}
	bundle.Status.Conditions = []genericcondition.GenericCondition{{Type: "Ready", Status: "False", Message: strings.Repeat("m\n", 1000)}}
	for i := range 100 {
		bundle.Status.Partitions = append(bundle.Status.Partitions, fleet.PartitionStatus{Name: fmt.Sprint("p-", i), Count: 10, Unavailable: 1})
	}
	want := bundle.DeepCopy()
	Bound(bundle)
	if diff := cmp.Diff(want, bundle); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
}

func TestBoundPartitions_SumsUpWhatDoesNotFit(t *testing.T) {
	var all []fleet.PartitionStatus
	for i := range 1000 {
		all = append(all, fleet.PartitionStatus{Name: fmt.Sprint("Partition ", i), Count: 3, Unavailable: 1, Summary: fleet.BundleSummary{
			Ready: 2, Modified: 1, DesiredReady: 3, NonReadyResources: []fleet.NonReadyResource{{Name: "ws/a", BundleState: fleet.Modified}},
		}})
	}
	got := BoundPartitions(all)
	count, unavailable, ready := 0, 0, 0
	for _, p := range got {
		count, unavailable, ready = count+p.Count, unavailable+p.Unavailable, ready+p.Summary.Ready
		if p.Summary.NonReadyResources != nil {
			t.Errorf("%s lists clusters", p.Name)
		}
	}
	if last := got[len(got)-1].Name; last != fmt.Sprintf("%d more partitions", 1000-len(got)+1) || len(got) < 100 {
		t.Errorf("%d partitions, the last is %q", len(got), last)
	}
	if count != 3000 || unavailable != 1000 || ready != 2000 {
		t.Errorf("counts are %d, unavailable %d, ready %d", count, unavailable, ready)
	}
	if len(all[0].Summary.NonReadyResources) != 1 {
		t.Error("the partitions given were changed")
	}
}
