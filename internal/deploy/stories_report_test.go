package deploy

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/fleet-hub/fleet/internal/deploy/deploytest"
	"github.com/fleet-hub/fleet/internal/deploy/hub"
	"github.com/fleet-hub/fleet/internal/deploy/outcome"
	"github.com/fleet-hub/fleet/internal/deploy/placement"
	"github.com/fleet-hub/fleet/internal/deploy/watch"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// shows expects the printer columns of a BundleDeployment without errors in its conditions.
func shows(state fleet.BundleState) func(*fleet.BundleDeployment) string {
	return func(bd *fleet.BundleDeployment) string {
		return cmp.Diff(fleet.BundleDeploymentDisplay{Deployed: "True", Monitored: "True", State: string(state)}, bd.Status.Display)
	}
}

// patchStatus changes a status with all rights.
func (l *lab) patchStatus(name, patch string) *fleet.BundleDeployment {
	l.t.Helper()
	var written fleet.BundleDeployment
	err := l.Hub.Fleet.Patch(types.MergePatchType).Namespace(l.Name).Resource(hub.BundleDeployments).Name(name).SubResource("status").
		Body([]byte(patch)).Do(l.t.Context()).Into(&written)
	if err != nil {
		l.t.Fatal(err)
	}
	return &written
}

// TestReport_IncludesPrinterColumns uses a hub without controllers, which would also write the columns.
func TestReport_IncludesPrinterColumns(t *testing.T) {
	t.Parallel()
	l := newLab(t, "display")
	l.start()
	l.apply(bundle{Name: "x", Files: deploytest.HelloFiles("hi"), Options: deploytest.InNamespace(l.Name)})
	l.expectStatus("x", shows(fleet.Ready))
	l.expectStatus("x", ready)
	l.halt()

	// Other writers may set other printer columns, and the agent does not revert them.
	there := l.patchStatus("x", `{"status":{"display":{"state":"Strange","monitored":null}}}`)
	d := l.byHand()
	look := func() {
		t.Helper()
		if err := d.reconcile(t.Context(), "x"); err != nil {
			t.Fatal(err)
		}
	}
	look()
	l.eventually(func() string {
		if _, known := d.watches.Cached(deploytest.ConfigMaps(), l.Name, "x"); !known {
			return "the objects are not known"
		}
		return ""
	})
	look()
	if record := d.records.of(there, placement.SetOf("x", "").Hash); !record.tracking.Known || record.written != nil {
		t.Errorf("known: %t, reported: %v", record.tracking.Known, record.written)
	}
	if now := l.get("x"); now.ResourceVersion != there.ResourceVersion {
		t.Errorf("it is shown as %+v", now.Status.Display)
	}

	// The next report contains the agent's printer columns.
	l.remove("configmaps", "x")
	l.start()
	l.expectStatus("x", shows(fleet.Modified))
}

// writes records how a status is written.
type writes struct {
	next http.RoundTripper

	mu   sync.Mutex
	sent []string
}

// RoundTrip implements http.RoundTripper.
func (w *writes) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := w.next.RoundTrip(request)
	if err == nil && strings.HasSuffix(request.URL.Path, "/status") {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.sent = append(w.sent, fmt.Sprintf("%s %d", request.Method, response.StatusCode))
	}
	return response, err
}

func (w *writes) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	taken := w.sent
	w.sent = nil
	return taken
}

// reporter is the agent's access to the hub, and its writes.
func (l *lab) reporter() (*hub.Hub, *writes) {
	l.t.Helper()
	w := &writes{}
	config := rest.CopyConfig(l.identity)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { w.next = next; return w })
	h, err := hub.New(config, l.Name)
	if err != nil {
		l.t.Fatal(err)
	}
	return h, w
}

// TestConcurrentWrites_SurviveReport has other writers write between the agent's read of a BundleDeployment and
// its report.
func TestConcurrentWrites_SurviveReport(t *testing.T) {
	t.Parallel()
	l := newLab(t, "report")
	pause := func(b bundle) {
		l.apply(bundle{Name: b.Name, Files: b.Files, Options: b.Options, Change: func(bd *fleet.BundleDeployment) { bd.Spec.Paused = true }})
	}
	tests := map[string]struct {
		meanwhile func(bundle)
		change    func(*fleet.BundleDeploymentStatus) // beside what is reported always
		want      []string                            // nil: it depends
		refused   func(error) bool
		state     string // of the printer columns
		paused    bool
	}{
		"no concurrent write": {want: []string{"PUT 200"}},
		"creation time unknown": {want: []string{"PUT 200"}, change: func(s *fleet.BundleDeploymentStatus) {
			s.Resources = []fleet.DeployedResource{{Kind: "ConfigMap", APIVersion: "v1", Name: "a"}}
		}},
		"a failure is reported": {want: []string{"PUT 200"}, change: func(s *fleet.BundleDeploymentStatus) {
			outcome.FailedDeployment(s, deploytest.Noon(), "s-1:a", conditions.ReasonManifestInvalid, "because")
		}},
		"spec written": {meanwhile: pause, want: []string{"PUT 409", "PATCH 200"}, paused: true},
		"status written": {meanwhile: func(b bundle) { l.patchStatus(b.Name, `{"status":{"display":{"state":"Strange"}}}`) },
			want: []string{"PUT 409", "PATCH 200"}, state: "Strange"},
		"recreated": {meanwhile: func(b bundle) { l.delete(b.Name); l.apply(b) },
			want: []string{"PUT 409", "PATCH 200"}},
		"deleted": {meanwhile: func(b bundle) { l.delete(b.Name) },
			refused: apierrors.IsNotFound}, // of the update, or of the patch after a conflict
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			h, sent := l.reporter()
			b := bundle{Name: strings.ReplaceAll(name, " ", "-"), Files: deploytest.HelloFiles("hi"), Options: deploytest.InNamespace(l.Name)}
			base := l.apply(b)
			if test.meanwhile != nil {
				test.meanwhile(b)
			}
			status := base.Status.DeepCopy()
			watch.Monitored(status, deploytest.Noon(), watch.Report{Ready: true, NonModified: true}, 0)
			if test.change != nil {
				test.change(status)
			}
			written, err := h.Report(t.Context(), base, status)
			if diff := cmp.Diff(test.want, sent.take()); diff != "" && test.want != nil {
				t.Errorf("sent (-want +got):\n%s", diff)
			}
			if test.refused != nil {
				if !test.refused(err) {
					t.Errorf("got %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			status.Display.State = test.state
			now := l.get(b.Name)
			if diff := cmp.Diff(*status, now.Status, cmpopts.EquateEmpty()); diff != "" || now.ResourceVersion != written.ResourceVersion {
				t.Errorf("status (-reported +there, written as %s, there is %s):\n%s", written.ResourceVersion, now.ResourceVersion, diff)
			}
			base.Spec.Paused = test.paused
			if diff := cmp.Diff(base.Spec, now.Spec); diff != "" {
				t.Errorf("spec:\n%s", diff)
			}
			if _, err := h.Report(t.Context(), now, status); err != nil || len(sent.take()) > 0 {
				t.Errorf("it is reported again: %v", err)
			}
		})
	}
}

// TestReport_ChangesOnlyStatus also checks the managed fields.
func TestReport_ChangesOnlyStatus(t *testing.T) {
	t.Parallel()
	l := newLab(t, "report-only")
	base := l.apply(bundle{Name: "x", Files: deploytest.HelloFiles("hi"), Options: deploytest.InNamespace(l.Name), Change: func(bd *fleet.BundleDeployment) {
		bd.Labels["a"], bd.Annotations, bd.Finalizers = "b", map[string]string{"c": "d"}, []string{"example.com/kept"}
	}})
	h, sent := l.reporter()
	status := base.Status.DeepCopy()
	outcome.Deployed(status, deploytest.Noon(), "s-1:a", "web/hello:1")
	if _, err := h.Report(t.Context(), base, status); err != nil {
		t.Fatal(err)
	}
	if got := sent.take(); len(got) != 1 || got[0] != "PUT 200" {
		t.Errorf("sent %v", got)
	}
	now := l.get("x")
	others := slices.DeleteFunc(slices.Clone(now.ManagedFields), func(f metav1.ManagedFieldsEntry) bool { return f.Subresource == "status" })
	if len(others) == len(now.ManagedFields) {
		t.Error("no manager has written the status")
	}
	now.ManagedFields, now.ResourceVersion, now.Status = others, base.ResourceVersion, base.Status
	if diff := cmp.Diff(base, now, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("-before +after:\n%s", diff)
	}
}

func TestHubAllowsOnlyPatch_ReportIsPatched(t *testing.T) {
	t.Parallel()
	l := newLab(t, "report-patch")
	roles := l.HubCore.RbacV1().Roles(l.Name)
	role, err := roles.Get(t.Context(), "request", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i, rule := range role.Rules {
		if rule.Resources[0] == "bundledeployments/status" {
			role.Rules[i].Verbs = []string{"patch"}
		}
	}
	if _, err := roles.Update(t.Context(), role, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	base := l.apply(bundle{Name: "x", Files: deploytest.HelloFiles("hi"), Options: deploytest.InNamespace(l.Name)})
	h, sent := l.reporter()
	var got []string
	l.eventually(func() string { // the authorizer may not know of it yet
		status := base.Status.DeepCopy()
		status.Ready = !status.Ready
		written, err := h.Report(t.Context(), base, status)
		if err != nil {
			t.Fatal(err)
		}
		base, got = written, sent.take()
		if !slices.Equal(got, []string{"PUT 403", "PATCH 200"}) {
			return fmt.Sprintf("sent %v", got)
		}
		return ""
	})
	l.start()
	l.expectStatus("x", ready)
	status := base.Status.DeepCopy()
	status.SyncGeneration = ptr.To(int64(7))
	if _, err := h.Report(t.Context(), base, status); err != nil || !slices.Equal(sent.take(), []string{"PATCH 200"}) {
		t.Errorf("then: %v", err)
	}
}
