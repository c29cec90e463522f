package clusterimport

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	supervisionrule "github.com/fleet-hub/fleet/internal/rules/supervision"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

// steppedClock is a clock that a test moves.
type steppedClock struct{ now time.Time }

func (c *steppedClock) read() time.Time { return c.now }

func newTestRecords() (*clusterRecords, *steppedClock) {
	clock := &steppedClock{now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	return newClusterRecords(clock.read), clock
}

func TestRuns_OneJobForEachCluster(t *testing.T) {
	r, _ := newTestRecords()
	if begun, _, _ := r.begin("ws/a", "x"); !begun {
		t.Fatal("the first job did not begin")
	}
	if begun, _, wait := r.begin("ws/a", "x"); begun || wait != 0 {
		t.Errorf("a second job of the cluster began (%v) or has to wait (%s) while the first runs", begun, wait)
	}
	if begun, _, _ := r.begin("ws/a", "y"); begun {
		t.Error("another job of the cluster began while the first runs")
	}
	if begun, _, _ := r.begin("ws/b", "x"); !begun {
		t.Error("a job of another cluster did not begin")
	}
	if !r.get("ws/a").isBusy("1") || !r.get("ws/b").isBusy("1") || r.get("ws/c").isBusy("1") {
		t.Error("busy does not name exactly the two clusters with jobs")
	}
}

func TestFailedJob_WaitsLongerEachTime(t *testing.T) {
	r, clock := newTestRecords()
	least := []time.Duration{2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second}
	for attempt, want := range least {
		if begun, _, _ := r.begin("ws/a", "x"); !begun {
			t.Fatalf("attempt %d did not begin after its wait", attempt)
		}
		retry := r.failed("ws/a", errServer)
		if retry < want || retry > want+want/4 {
			t.Errorf("attempt %d waits %s, want between %s and a quarter more", attempt, retry, want)
		}
		if begun, _, wait := r.begin("ws/a", "x"); begun || wait != retry {
			t.Errorf("attempt %d: begun %v, wait %s; want to wait %s", attempt, begun, wait, retry)
		}
		clock.now = clock.now.Add(retry)
	}
}

func TestFailedJob_AnotherInputIsTriedAtOnce(t *testing.T) {
	r, clock := newTestRecords()
	r.begin("ws/a", "wrong kubeconfig")
	r.failed("ws/a", errServer)
	if begun, _, _ := r.begin("ws/a", "right kubeconfig"); !begun {
		t.Fatal("the repaired cluster has to wait for the failure of the broken one")
	}
	retry := r.failed("ws/a", errServer)
	if retry > 3*time.Second {
		t.Errorf("the repaired cluster inherits the failures of the broken one: waits %s", retry)
	}
	clock.now = clock.now.Add(retry)
	if begun, _, _ := r.begin("ws/a", "right kubeconfig"); !begun {
		t.Error("not tried again after the wait")
	}
}

func TestFailedJob_WaitIsBounded(t *testing.T) {
	r, clock := newTestRecords()
	for failures := range 100 {
		if begun, _, _ := r.begin("ws/a", "x"); !begun {
			t.Fatal("it did not begin")
		}
		retry := r.failed("ws/a", errServer)
		if retry > retryMax+retryMax/4 || failures > 9 && retry < retryMax {
			t.Errorf("after %d failures: %s", failures, retry)
		}
		clock.now = clock.now.Add(retry)
	}
}

func TestSucceededJob_OlderVersionsAreBusy(t *testing.T) {
	r, _ := newTestRecords()
	r.begin("ws/a", "x")
	r.succeeded("ws/a", "100")
	got := map[string]bool{}
	for _, version := range []string{"9", "99", "100", "101", "not a number"} {
		got[version] = r.get("ws/a").isBusy(version)
	}
	want := map[string]bool{"9": true, "99": true, "100": false, "101": false, "not a number": false}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("busy by version (-want +got):\n%s", diff)
	}
}

func TestForget_KeepsRunningJobs(t *testing.T) {
	r, _ := newTestRecords()
	r.begin("ws/failed", "x")
	r.failed("ws/failed", errServer)
	r.begin("ws/running", "x")
	r.forget("ws/failed")
	r.forget("ws/running")
	if begun, _, _ := r.begin("ws/failed", "x"); !begun {
		t.Error("a forgotten failure still delays")
	}
	if begun, _, _ := r.begin("ws/running", "x"); begun {
		t.Error("a running job was forgotten: two would run at once")
	}
	if retry := r.failed("ws/unknown", errServer); retry != 0 {
		t.Errorf("a job nobody knows is retried after %s", retry)
	}
	r.succeeded("ws/unknown", "1")
	r.succeeded("ws/running", "1") // a Cluster deleted meanwhile: must not come back
	if r.get("ws/unknown").isBusy("0") || r.get("ws/running").isBusy("0") || len(r.known) != 1 {
		t.Errorf("a success of a Cluster that is gone was noted: %v", r.known)
	}
}

// inspect records an inspection.
func inspect(r *clusterRecords, heard bool, out supervisionrule.Outcome) {
	r.begin("ws/a", "inspect")
	r.inspected("ws/a", "", heard, out, nil)
}

// expectDue fails unless a look is due after least, or up to a quarter later.
func expectDue(t *testing.T, r *clusterRecords, of string, least time.Duration) time.Duration {
	t.Helper()
	due := r.dueIn("ws/a", of)
	if due < least || due > least+least/4 {
		t.Errorf("due after %s; want %s, up to a quarter later", due, least)
	}
	return due
}

func TestInspections_BecomeRarer(t *testing.T) {
	for name, heard := range map[string]bool{"awaited agent": false, "stale agent": true} {
		t.Run(name, func(t *testing.T) {
			r, clock := newTestRecords()
			r.deployed("ws/a", true, true)
			clock.now = clock.now.Add(expectDue(t, r, "x", supervisionrule.FirstInspection))
			for looks := range 9 {
				if due := r.dueIn("ws/a", "x"); due > 0 {
					t.Fatalf("look %d is due after %s, and its time has come", looks, due)
				}
				inspect(r, heard, supervisionrule.Outcome{})
				clock.now = clock.now.Add(expectDue(t, r, "x", supervisionrule.NextLook(looks+1, heard)))
			}
		})
	}
}

func TestNewProcess_InspectsSoon(t *testing.T) {
	r, _ := newTestRecords()
	if due := r.dueIn("ws/a", "x"); due < 0 || due > supervisionrule.FirstInspection {
		t.Errorf("due after %s", due)
	}
	if r.silence("ws/a").deployed {
		t.Error("it claims to have seen the agent deployed")
	}
}

func TestChange_IsLookedAtAtOnce(t *testing.T) {
	r, clock := newTestRecords()
	r.deployed("ws/a", true, true)
	expectDue(t, r, "one kubeconfig", supervisionrule.FirstInspection)
	if due := r.dueIn("ws/a", "another"); due > 0 {
		t.Errorf("due after %s", due)
	}
	inspect(r, false, supervisionrule.Outcome{})
	clock.now = clock.now.Add(expectDue(t, r, "another", supervisionrule.NextLook(1, false)))
}

func TestRepair_IsRequestedOnce(t *testing.T) {
	r, _ := newTestRecords()
	if got := r.get("ws/a").silence.repair; got != supervisionrule.RepairNone {
		t.Errorf("an agent that nobody has looked at needs %q", got)
	}
	inspect(r, false, supervisionrule.Outcome{Repair: supervisionrule.RepairObjects})
	if got := r.get("ws/a").silence.repair; got != supervisionrule.RepairObjects {
		t.Errorf("wanted %q", got)
	}
	r.want("ws/a", supervisionrule.RepairIdentity)
	inspect(r, false, supervisionrule.Outcome{Repair: supervisionrule.RepairObjects})
	if got := r.get("ws/a").silence.repair; got != supervisionrule.RepairIdentity {
		t.Errorf("the greater repair gave way to %q", got)
	}
	inspect(r, false, supervisionrule.Outcome{Repair: supervisionrule.RepairRejected})
	if got := r.get("ws/a").silence.repair; got != supervisionrule.RepairRejected {
		t.Errorf("a rejected token changed the repair to %q", got)
	}
	r.deployed("ws/a", false, true)
	if got := r.get("ws/a").silence.repair; got != supervisionrule.RepairNone {
		t.Errorf("wanted again: %q", got)
	}
	r.want("ws/a", supervisionrule.RepairIdentity)
	r.settled("ws/a")
	if got := r.get("ws/a").silence.repair; got != supervisionrule.RepairNone {
		t.Errorf("remembered of one that is heard of: %q", got)
	}
}

// The time since the agent is awaited does not restart.
func TestFreshToken_RestartsTheQuietTimeOnly(t *testing.T) {
	r, clock := newTestRecords()
	began := clock.now
	r.deployed("ws/a", true, true)
	clock.now = began.Add(time.Minute)
	r.deployed("ws/a", false, false) // objects only
	inspect(r, false, supervisionrule.Outcome{})
	if got := r.silence("ws/a"); !got.since.Equal(began) || !got.quiet.Equal(began) || got.tokens != 0 || !got.deployed {
		t.Errorf("%+v", got)
	}
	inspect(r, false, supervisionrule.Outcome{FreshToken: true})
	if got := r.silence("ws/a"); !got.since.Equal(began) || !got.quiet.Equal(clock.now) || got.tokens != 1 {
		t.Errorf("%+v", got)
	}
	clock.now = began.Add(2 * time.Minute)
	r.deployed("ws/a", false, true) // handed over
	if got := r.silence("ws/a"); !got.since.Equal(began) || !got.quiet.Equal(clock.now) || got.tokens != 1 {
		t.Errorf("%+v", got)
	}
	r.deployed("ws/a", true, true)
	if got := r.silence("ws/a"); !got.since.Equal(clock.now) || got.tokens != 0 || got.inspections != 0 {
		t.Errorf("one that is deployed anew begins with %+v", got)
	}
}

// A Cluster that Cluster API adopts gets another fingerprint, between two uses of the same kubeconfig.
func TestKubeconfigThatWasUsed_IsNoLongerInDoubt(t *testing.T) {
	adopted := cluster()
	adopted.Annotations = map[string]string{annotation.CAPIImported: "true"}
	for name, at := range map[string]*fleet.Cluster{"of the user": cluster(), "of Cluster API": adopted} {
		r, _ := newTestRecords()
		secret := &corev1.Secret{Data: kubeconfig().Data}
		if record := r.putSecret("ws/a", secret, fingerprintFor(at), true); !record.failed {
			t.Errorf("%s: it has not failed", name)
		}
		r.usedKubeconfig("ws/a", []byte("another one"))
		if !r.get("ws/a").kubeconfig.failed {
			t.Errorf("%s: another kubeconfig counts as used", name)
		}
		r.usedKubeconfig("ws/a", kubeconfig().Data["value"])
		if r.get("ws/a").kubeconfig.failed {
			t.Errorf("%s: it is still in doubt", name)
		}
	}
}

func TestRunsKeepNoKubeconfig(t *testing.T) {
	r, _ := newTestRecords()
	name := types.NamespacedName{Namespace: "ws", Name: "k"}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "k", ResourceVersion: "7", Annotations: map[string]string{annotation.AllowedWorkspaces: "b", "other": "c"}},
		Data:       map[string][]byte{"value": []byte("secret kubeconfig"), "apiServerURL": []byte("https://hub"), "apiServerCA": []byte("PEM"), "token": []byte("secret token")},
	}
	r.putSecret("ws/a", secret, fingerprintFor(cluster()), false)
	if got := r.get("ws/a").secret(name, "8"); got != nil {
		t.Error("another version of the Secret is answered from what is remembered")
	}
	if got := r.get("ws/a").secret(name, ""); got != nil {
		t.Error("a Secret that was not seen yet is answered from what is remembered")
	}
	if got := r.get("ws/b").secret(name, "7"); got != nil {
		t.Error("another Cluster is answered")
	}
	if got := r.get("ws/a").secret(types.NamespacedName{Namespace: "fleet-local", Name: "k"}, "7"); got != nil {
		t.Error("a Secret of another namespace is answered from what is remembered")
	}
	want := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "k", ResourceVersion: "7", Annotations: map[string]string{annotation.AllowedWorkspaces: "b"}},
		Data:       map[string][]byte{"value": []byte("not kept"), "apiServerURL": []byte("https://hub"), "apiServerCA": []byte("PEM")},
	}
	if diff := cmp.Diff(want, r.get("ws/a").secret(name, "7")); diff != "" {
		t.Errorf("remembered (-want +got):\n%s", diff)
	}
	r.putSecret("ws/a", nil, fingerprintFor(cluster()), false)
	if got := r.get("ws/a").secret(name, "7"); got != nil {
		t.Error("a Secret that is gone is remembered")
	}
	empty := secret.DeepCopy()
	delete(empty.Data, "value")
	r.putSecret("ws/a", empty, fingerprintFor(cluster()), false)
	if got := r.get("ws/a").secret(name, "7"); got == nil || got.Data["value"] != nil {
		t.Errorf("a Secret without a kubeconfig is remembered as %v", got)
	}
}
