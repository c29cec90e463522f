package deploy

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	metadatafake "k8s.io/client-go/metadata/fake"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/fleet-hub/fleet/internal/deploy/access"
	"github.com/fleet-hub/fleet/internal/deploy/deploytest"
	"github.com/fleet-hub/fleet/internal/deploy/hub"
	"github.com/fleet-hub/fleet/internal/deploy/outcome"
	"github.com/fleet-hub/fleet/internal/deploy/wakeups"
	"github.com/fleet-hub/fleet/internal/deploy/watch"
	"github.com/fleet-hub/fleet/internal/rules/state"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// recordingQueue records delayed additions.
type recordingQueue struct {
	workqueue.TypedRateLimitingInterface[string]
	later []string
	woken []string
}

func (q *recordingQueue) AddAfter(name string, pause time.Duration) {
	q.later = append(q.later, fmt.Sprintf("%s after %s", name, pause))
}

// testDeployer returns a deployer without a cluster, whose time the test sets.
func testDeployer(now *time.Time) (*deployer, *recordingQueue) {
	queue := &recordingQueue{}
	return &deployer{
		Options: Options{Namespace: "cluster-ns", OwnBundle: "fleet-agent-east", Clock: func() time.Time { return *now }, Random: func() float64 { return 0 },
			OnDeploy: func(outcome.Outcome, time.Duration) {}},
		log: slog.New(slog.DiscardHandler), queue: queue, records: newRecords(),
		wakeups: wakeups.New(metadatafake.NewSimpleMetadataClient(metadatafake.NewTestScheme()), func(names []string) { queue.woken = append(queue.woken, names...) }),
	}, queue
}

func TestOutcome(t *testing.T) {
	configMapResource := schema.GroupResource{Resource: "configmaps"}
	noMatch := &meta.NoKindMatchError{GroupKind: schema.GroupKind{Kind: "Thing"}, SearchedVersions: []string{"v1"}}
	firstRetry := []string{"hello after 500ms"}
	tests := map[string]struct {
		err error
		// conditions are the changed conditions, as "Type=Status Reason: message".
		conditions []string
		later      []string
		again      bool
		lacking    bool
		awaits     string
		failures   int
		counted    outcome.Outcome
	}{
		"no error": {},
		"missing namespace": {err: fmt.Errorf("x: %w", outcome.Until(outcome.CoreObject("namespaces", "", "web"), outcome.Because(conditions.ReasonNamespaceMissing, errors.New("none")))),
			conditions: []string{"Deployed=False NamespaceMissing: x: none"}, later: []string{"hello after 15m0s"}, awaits: "namespaces.v1 web", counted: outcome.Retried},
		"missing Secret": {err: outcome.Until(outcome.CoreObject("secrets", "web", "pull"), errors.New("none")),
			conditions: []string{"Deployed=False Error: none"}, later: []string{"hello after 15m0s"}, awaits: "secrets.v1 web/pull", counted: outcome.Retried},
		"terminating namespace": {err: outcome.Because(conditions.ReasonNamespaceTerminating, errors.New("is being terminated")),
			conditions: []string{"Deployed=False NamespaceTerminating: is being terminated"}, later: firstRetry, awaits: "namespaces.v1 web", counted: outcome.Retried},
		"a dependency is not ready": {err: &outcome.DependencyError{Waiting: []string{"db"}},
			conditions: []string{"Deployed=False AwaitingDependencies: dependent bundle(s) are not ready: [db]"}, later: []string{"hello after 1m0s"}},
		"an accepted state does not exist": {err: &outcome.DependencyError{Waiting: []string{"db"}, Invalid: "correct it"},
			conditions: []string{"Deployed=False Error: dependent bundle(s) are not ready: [db]; correct it"}, later: []string{"hello after 1m0s"}},
		"a dependency that does not exist": {err: errors.New("list bundledeployments: no bundles"),
			conditions: []string{"Deployed=False Error: list bundledeployments: no bundles"}, later: firstRetry, counted: outcome.Retried},
		"unsupported bundle": {err: &outcome.UnsupportedError{What: "no OCI"}, conditions: []string{"Deployed=False Unsupported: no OCI"}},
		"a namespace that may not be labelled": {err: errors.Join(nil, &outcome.LabelsRefusedError{Cause: outcome.Because(conditions.ReasonForbidden, errors.New("may not"))}),
			conditions: []string{"Installed=False Forbidden: may not", "Ready=False Error: may not"}, later: []string{"hello after 2m0s"}, counted: outcome.Retried},
		"permanent failure": {err: outcome.NewRedaction(map[string]any{"password": "hunter2"}).Wrap(outcome.Classify(errors.New("YAML parse error: hunter2"))),
			conditions: []string{"Installed=False ManifestInvalid: not installed: YAML parse error: <redacted>", "Ready=False Error: not ready: YAML parse error: <redacted>"},
			later:      []string{"hello after 15m0s"}, counted: outcome.Failed},
		"a first conflict": {err: fmt.Errorf("x: %w", apierrors.NewConflict(configMapResource, "a", errors.New("changed"))), later: []string{"hello after 2s"}, failures: unreportedConflicts - 1, counted: outcome.Retried},
		"a conflict that repeats": {err: fmt.Errorf("x: %w", apierrors.NewConflict(configMapResource, "a", errors.New("changed"))),
			conditions: []string{`Deployed=False ObjectRejected: x: Operation cannot be fulfilled on configmaps "a": changed`}, later: []string{"hello after 4s"}, failures: unreportedConflicts, counted: outcome.Retried},
		"the agent stops": {err: fmt.Errorf("x: %w", access.ErrStopped), again: true},
		"unknown kind": {err: fmt.Errorf("x: %w", noMatch),
			conditions: []string{`Deployed=False KindMissing: x: no matches for kind "Thing" in version "v1"`}, later: firstRetry, lacking: true, counted: outcome.Retried},
		"anything else": {err: errors.New("connection refused"), conditions: []string{"Deployed=False Error: connection refused"}, later: firstRetry, counted: outcome.Retried},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			now := deploytest.Noon().Add(time.Hour)
			d, queue := testDeployer(&now)
			t.Cleanup(d.wakeups.Stop)
			bd := deploytest.Deployment()
			watch.Monitored(&bd.Status, deploytest.Noon(), watch.Report{Ready: true, NonModified: true}, 0)
			status := bd.Status.DeepCopy()
			r := &record{tracking: &watch.Tracking{}, again: true}
			for range test.failures {
				r.retry.Failed(now, time.Hour, 0)
			}
			var counted outcome.Outcome
			d.OnDeploy = func(result outcome.Outcome, took time.Duration) {
				if counted += result; took != time.Minute {
					t.Errorf("it took %s", took)
				}
			}
			again := d.recordResult(bd, r, status, now.Add(-time.Minute), test.err)
			if counted != test.counted {
				t.Errorf("counted %q, want %q", counted, test.counted)
			}
			if failed := r.failed.Equal(now); r.again == failed { // no event triggers a retry before the time of the retry
				t.Errorf("deploys again: %v, failed permanently: %v", r.again, failed)
			}
			if (again != nil) != test.again {
				t.Errorf("the reconcile is retried: %v", again)
			}
			if diff := cmp.Diff(test.conditions, changedConditions(&bd.Status, status)); diff != "" {
				t.Errorf("conditions:\n%s", diff)
			}
			if diff := cmp.Diff(test.later, queue.later); diff != "" {
				t.Errorf("enqueued later:\n%s", diff)
			}
			d.wakeups.Publish(wakeups.CRDs())
			if lacking := len(queue.woken) > 0; lacking != test.lacking {
				t.Errorf("lacks a kind: %t", lacking)
			}
			awaits := ""
			if object := d.wakeups.Object(bd.Name); object != nil {
				awaits = object.String()
			}
			if awaits != test.awaits {
				t.Errorf("awaits %q, want %q", awaits, test.awaits)
			}
			if failed := outcome.IsFailure(test.err); failed != r.failed.Equal(now) || failed != (r.tracking == nil) {
				t.Errorf("failed at %s, tracking %v", r.failed, r.tracking)
			}
		})
	}
}

// listing calls after once, after a list of its store was taken.
type listing struct {
	cache.SharedIndexInformer
	cache.Store
	after func()
}

func (l *listing) GetStore() cache.Store { return l }

func (l *listing) List() []any {
	defer l.after()
	return l.Store.List()
}

func TestDependencyReadyDuringItsCheck_EnqueuesTheWaiting(t *testing.T) {
	now := deploytest.Noon()
	d, queue := testDeployer(&now)
	waiting := deploytest.Deployment(func(bd *fleet.BundleDeployment) { bd.Spec.DependsOn = []fleet.BundleRef{{Name: "db"}} })
	ready := deploytest.Deployment(func(bd *fleet.BundleDeployment) {
		bd.Name, bd.Labels[fleet.LabelBundleName] = "db", "db"
		watch.Monitored(&bd.Status, now, watch.Report{Ready: true, NonModified: true}, 0)
	})
	unready := ready.DeepCopy()
	unready.Status.Ready = false
	store := cache.NewStore(cache.MetaNamespaceKeyFunc)
	if err := store.Add(unready); err != nil {
		t.Fatal(err)
	}
	d.hub = &hub.Hub{Informer: &listing{Store: store, after: func() {
		if err := store.Update(ready); err != nil {
			t.Error(err)
		}
		d.handlers().UpdateFunc(unready, ready)
	}}}
	var waits *outcome.DependencyError
	if err := d.execute(t.Context(), Deploy, waiting, &record{}, &waiting.Status); !errors.As(err, &waits) {
		t.Fatalf("the dependency was ready before the check: %v", err)
	}
	if diff := cmp.Diff([]string{waiting.Name}, queue.woken); diff != "" {
		t.Errorf("enqueued (-want +got):\n%s", diff)
	}
	d.wakeups.Publish(wakeups.States())
	if len(queue.woken) != 2 {
		t.Errorf("the next change enqueues %v", queue.woken)
	}
}

func changedConditions(before, after *fleet.BundleDeploymentStatus) []string {
	var changed []string
	for _, condition := range after.Conditions {
		old := conditions.Get(before.Conditions, condition.Type)
		if old == nil || *old != condition {
			changed = append(changed, fmt.Sprintf("%s=%s %s: %s", condition.Type, condition.Status, condition.Reason, condition.Message))
		}
	}
	return changed
}

func TestErrorBeforeKeptFailure_IsNotReportedAfterItsCauseIsGone(t *testing.T) {
	now := deploytest.Noon()
	d, _ := testDeployer(&now)
	t.Cleanup(d.wakeups.Stop)
	bd := deploytest.Deployment(func(bd *fleet.BundleDeployment) {
		outcome.FailedDeployment(&bd.Status, now, "s-1:a", conditions.ReasonError, "no YAML")
		outcome.NotDeployed(&bd.Status, now, conditions.ReasonNamespaceMissing, "none")
	})
	if err := d.execute(t.Context(), KeepFailure, bd, &record{}, &bd.Status); err != nil {
		t.Fatal(err)
	}
	if got := state.Message(bd); got != "not installed: no YAML" {
		t.Errorf("message of the state %q", got)
	}
	if missing := conditionsAre(bd, "Deployed=True Installed=False"); missing != "" {
		t.Error(missing)
	}
}

func TestRetryDue(t *testing.T) {
	failed := func(bd *fleet.BundleDeployment) {
		outcome.FailedDeployment(&bd.Status, deploytest.Noon(), "s-1:a", conditions.ReasonError, "x")
	}
	tests := map[string]struct {
		change func(*fleet.BundleDeployment)
		failed time.Time
		want   bool
		later  []string
	}{
		"nothing failed":               {change: func(*fleet.BundleDeployment) {}},
		"failed just now":              {change: failed, failed: deploytest.Noon().Add(-time.Minute), later: []string{"hello after 14m0s"}},
		"failed a while ago":           {change: failed, failed: deploytest.Noon().Add(-failureRetry), want: true},
		"failed in an earlier process": {change: failed, later: []string{"hello after 15m0s"}},
		"another state failed":         {change: func(bd *fleet.BundleDeployment) { failed(bd); bd.Spec.DeploymentID = "s-2:a" }, failed: deploytest.Noon().Add(-time.Hour)},
		"failed, and retried at present": {change: func(bd *fleet.BundleDeployment) {
			outcome.NotDeployed(&bd.Status, deploytest.Noon(), conditions.ReasonError, "x")
		}, failed: deploytest.Noon().Add(-time.Hour)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			now := deploytest.Noon()
			d, queue := testDeployer(&now)
			bd, r := deploytest.Deployment(test.change), &record{failed: test.failed}
			kept := decide(situation{BundleDeployment: bd, Status: &bd.Status, ReleaseExists: true}) == KeepFailure
			if got := kept && d.retryDue(bd, r); got != test.want {
				t.Errorf("due: %t", got)
			}
			if diff := cmp.Diff(test.later, queue.later); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// hubServer accepts reports and records them.
type hubServer struct {
	mu      sync.Mutex
	patches []string
	answer  int
	proxy   bool // answers without a Status
}

func (s *hubServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	s.patches = append(s.patches, r.Method+" "+r.URL.Path+" "+string(body))
	if s.proxy {
		http.Error(w, "404 page not found", s.answer)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(s.answer)
	if s.answer != http.StatusOK {
		_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure",
			Reason: map[int]metav1.StatusReason{404: metav1.StatusReasonNotFound, 500: metav1.StatusReasonInternalError}[s.answer], Code: int32(s.answer)})
		return
	}
	_ = json.NewEncoder(w).Encode(fleet.BundleDeployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: fleet.SchemeGroupVersion.String(), Kind: "BundleDeployment"},
		ObjectMeta: metav1.ObjectMeta{Name: "hello", ResourceVersion: "2"},
	})
}

func (s *hubServer) take() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := s.patches
	s.patches = nil
	return taken
}

func TestReports_AreSentOnlyForChanges(t *testing.T) {
	server := &hubServer{answer: http.StatusOK}
	listener := httptest.NewServer(server)
	defer listener.Close()
	now := deploytest.Noon()
	d, queue := testDeployer(&now)
	var err error
	if d.hub, err = hub.New(&rest.Config{Host: listener.URL}, "cluster-ns"); err != nil {
		t.Fatal(err)
	}
	bd, r := deploytest.Deployment(func(bd *fleet.BundleDeployment) { bd.UID = "u" }), &record{}
	steps := []struct {
		name    string
		after   time.Duration
		hub     func(*fleet.BundleDeploymentStatus) // what another client writes
		change  func(*fleet.BundleDeploymentStatus)
		patches int
		later   []string
	}{
		{name: "no change: is not reported", change: func(*fleet.BundleDeploymentStatus) {}},
		{name: "readiness changed: is reported at once", change: func(s *fleet.BundleDeploymentStatus) { s.Ready = true }, patches: 1},
		{name: "detail changed: is delayed", after: 300 * time.Millisecond, change: func(s *fleet.BundleDeploymentStatus) { s.ResourceCounts.NotReady = 1 }, later: []string{"hello after 700ms"}},
		{name: "readiness changed again: is reported at once", change: func(s *fleet.BundleDeploymentStatus) { s.Ready = false }, patches: 1},
		{name: "delayed detail: is reported", after: 2 * time.Second, change: func(s *fleet.BundleDeploymentStatus) { s.ResourceCounts.NotReady = 2 }, patches: 1},
		{name: "printer columns changed by others: stay", after: 2 * time.Second, hub: func(s *fleet.BundleDeploymentStatus) { s.Display.State = "Strange" }, change: func(*fleet.BundleDeploymentStatus) {}},
		{name: "printer columns and another change: are overwritten", after: 2 * time.Second, hub: func(s *fleet.BundleDeploymentStatus) { s.Display.State = "Strange" }, change: func(s *fleet.BundleDeploymentStatus) { s.Ready = true }, patches: 1},
	}
	status := bd.Status.DeepCopy()
	for _, step := range steps {
		now = now.Add(step.after)
		queue.later = nil
		status = status.DeepCopy()
		if step.hub != nil {
			step.hub(&bd.Status)
		}
		step.change(status)
		if err := d.report(t.Context(), bd, r, status); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if got := server.take(); len(got) != step.patches {
			t.Errorf("%s: %d reports: %v", step.name, len(got), got)
		}
		if diff := cmp.Diff(step.later, queue.later); diff != "" {
			t.Errorf("%s:\n%s", step.name, diff)
		}
		bd = &fleet.BundleDeployment{ObjectMeta: bd.ObjectMeta, Spec: bd.Spec, Status: *status} // as the hub has it by then
	}
}

func TestFailedReport_ReturnsErrorUnlessDeleted(t *testing.T) {
	tests := map[string]struct {
		answer  int
		proxy   bool
		wantErr bool
	}{
		"accepted":                           {answer: http.StatusOK},
		"deleted":                            {answer: http.StatusNotFound},
		"not found by a proxy without route": {answer: http.StatusNotFound, proxy: true, wantErr: true},
		"internal error":                     {answer: http.StatusInternalServerError, wantErr: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			server := &hubServer{answer: test.answer, proxy: test.proxy}
			listener := httptest.NewServer(server)
			defer listener.Close()
			now := deploytest.Noon()
			d, _ := testDeployer(&now)
			var err error
			if d.hub, err = hub.New(&rest.Config{Host: listener.URL}, "cluster-ns"); err != nil {
				t.Fatal(err)
			}
			bd, r := deploytest.Deployment(), &record{}
			status := bd.Status.DeepCopy()
			status.Ready = true
			if err := d.report(t.Context(), bd, r, status); (err != nil) != test.wantErr {
				t.Errorf("got %v", err)
			}
			if r.status != status || (r.written != nil) != (test.answer == http.StatusOK) {
				t.Errorf("remembered %v, written %v", r.status, r.written)
			}
			got := strings.Join(server.take(), "\n")
			const want = `PATCH /apis/fleet.cattle.io/v1alpha1/namespaces/cluster-ns/bundledeployments/hello/status {"status":{"display":{"deployed":"True","state":"Modified"},"ready":true}}`
			if !strings.HasPrefix(got, want) {
				t.Errorf("sent %s", got)
			}
		})
	}
}
