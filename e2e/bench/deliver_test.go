package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fleet-hub/fleet/e2e/bench/audit"
	"github.com/fleet-hub/fleet/e2e/bench/figures"
	"github.com/fleet-hub/fleet/e2e/framework/swarm"
)

// Users in the log below.
const (
	anAdmin = "admin"
	anAgent = "system:serviceaccount:cluster-1:request-1"
)

// at returns a request that started some seconds after the first one and took a tenth of a second.
func at(second float64, user, verb, resource string, changes ...func(*audit.Event)) audit.Event {
	began := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC).Add(time.Duration(second * float64(time.Second)))
	e := audit.Event{Stage: "ResponseComplete", Verb: verb, Received: began, Ended: began.Add(100 * time.Millisecond)}
	e.User.Username = user
	e.Object.Resource, e.Object.Subresource, _ = strings.Cut(resource, "/")
	for _, change := range changes {
		change(&e)
	}
	return e
}

func refused(e *audit.Event) { e.Response.Code = http.StatusConflict }

// aDelivery returns the log of the delivery of a Bundle to two clusters.
func aDelivery() []audit.Event {
	return []audit.Event{
		at(-1, controllerAccount, "patch", "clusters/status"), // belongs to an earlier event
		at(0, anAdmin, "create", "bundles"),
		at(1, controllerAccount, "create", "contents"),
		at(1, controllerAccount, "create", "secrets"),
		at(1, controllerAccount, "create", "bundledeployments"),
		at(2, anAgent, "get", "contents"),
		at(2, anAgent, "get", "secrets"),
		at(2, anAgent, "patch", "bundledeployments/status"),
		at(3, controllerAccount, "create", "secrets"),
		at(3, controllerAccount, "create", "bundledeployments"),
		at(9, controllerAccount, "create", "bundledeployments", refused),
		at(4, anAgent, "get", "contents"),
		at(4, anAgent, "get", "secrets"),
		at(4, anAgent, "patch", "bundledeployments/status"),
		at(5, controllerAccount, "patch", "clusters/status"),
		at(6, controllerAccount, "patch", "bundles/status"),
		at(7, controllerAccount, "patch", "secrets"),
		at(8, controllerAccount, "update", "leases"),
		at(8, anAdmin, "patch", "nodes/status"),
	}
}

func aBench(agents int) *bench {
	return &bench{
		who:    audit.Classifier{Controller: controllerAccount, Workspace: "fleet-default", Played: swarm.UserAgent, Agent: benchAgent},
		agents: make([]*swarm.Agent, agents),
	}
}

func TestDeliveredBy_ComputesTheFigures(t *testing.T) {
	got, err := aBench(2).deliveredBy(aDelivery())
	if err != nil {
		t.Fatal(err)
	}
	expectGolden(t, "delivered.json", got)
	if _, err := aBench(2).deliveredBy(aDelivery()[2:]); !errors.Is(err, errNoCause) {
		t.Errorf("without the first request: %v", err)
	}
}

func TestStepOf_ClassifiesRequests(t *testing.T) {
	tests := map[string]struct {
		kind audit.Kind
		want step
	}{
		"admin creates a Bundle":         {audit.Kind{Identity: audit.Admin, Verb: "create", Resource: "bundles"}, begun},
		"admin changes a Bundle":         {audit.Kind{Identity: audit.Admin, Verb: "patch", Resource: "bundles"}, begun},
		"admin reads a Bundle":           {audit.Kind{Identity: audit.Admin, Verb: "get", Resource: "bundles"}, aside},
		"controller adds its finalizer":  {audit.Kind{Identity: audit.Controller, Verb: "patch", Resource: "bundles"}, aside},
		"BundleDeployment is created":    {audit.Kind{Identity: audit.Controller, Verb: "create", Resource: "bundledeployments"}, wrote},
		"BundleDeployment is changed":    {audit.Kind{Identity: audit.Controller, Verb: "patch", Resource: "bundledeployments"}, wrote},
		"printer columns are written":    {audit.Kind{Identity: audit.Controller, Verb: "patch", Resource: "bundledeployments/status"}, aside},
		"agent reports":                  {audit.Kind{Identity: audit.Request, Verb: "update", Resource: "bundledeployments/status"}, reported},
		"agent reports after a conflict": {audit.Kind{Identity: audit.Request, Verb: "patch", Resource: "bundledeployments/status"}, reported},
		"heartbeat":                      {audit.Kind{Identity: audit.Request, Verb: "patch", Resource: "clusters/status"}, aside},
		"status of a Bundle":             {audit.Kind{Identity: audit.Controller, Verb: "patch", Resource: "bundles/status"}, told},
		"status of a Cluster":            {audit.Kind{Identity: audit.Controller, Verb: "patch", Resource: "clusters/status"}, told},
		"status of a ClusterGroup":       {audit.Kind{Identity: audit.Controller, Verb: "patch", Resource: "clustergroups/status"}, told},
		"status of a Content":            {audit.Kind{Identity: audit.Controller, Verb: "patch", Resource: "contents/status"}, aside},
		"values Secret is created":       {audit.Kind{Identity: audit.Controller, Verb: "create", Resource: "secrets"}, aside},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := stepOf(test.kind); got != test.want {
				t.Errorf("got %d, want %d", got, test.want)
			}
		})
	}
}

func TestJoining_CountsWritesUntilReady(t *testing.T) {
	opened := 0
	j := &joining{who: aBench(0).who, deployments: 2, complete: func() { opened++ }}
	var history []int
	for _, e := range aDelivery() {
		j.hear(e)
		history = append(history, j.before)
	}
	if opened != 1 {
		t.Errorf("complete was called %d times", opened)
	}
	type figures struct{ Before, Ready, All int }
	want := figures{Before: 8, Ready: 12, All: 14}
	if diff := cmp.Diff(want, figures{j.before, j.ready, j.counts.Total().Requests}); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if history[8] != 0 || history[9] != 8 || history[len(history)-1] != 8 {
		t.Errorf("writes before its report, over time: %v", history)
	}
}

func TestGate_HoldsReports(t *testing.T) {
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked = append(asked, r.Method+" "+r.URL.Path) }))
	defer server.Close()
	g := newGate()
	client := &http.Client{Transport: g.wrap(http.DefaultTransport)}
	send := func(ctx context.Context, method, path string) error {
		r, err := http.NewRequestWithContext(ctx, method, server.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Do(r)
		if err == nil {
			err = answer.Body.Close()
		}
		return err
	}
	const report = "/apis/fleet.cattle.io/v1alpha1/namespaces/n/bundledeployments/web/status"
	ended, end := context.WithCancel(t.Context())
	end()
	for _, method := range []string{http.MethodPut, http.MethodPatch} {
		if err := send(ended, method, report); !errors.Is(err, context.Canceled) {
			t.Errorf("a report by %s before the gate is open: %v", method, err)
		}
	}
	for _, other := range [][2]string{{http.MethodGet, report}, {http.MethodPatch, "/apis/fleet.cattle.io/v1alpha1/namespaces/n/clusters/c/status"}} {
		if err := send(t.Context(), other[0], other[1]); err != nil {
			t.Errorf("%v: %v", other, err)
		}
	}
	g.open()
	g.open()
	if err := send(t.Context(), http.MethodPut, report); err != nil {
		t.Error(err)
	}
	want := []string{"GET " + report, "PATCH /apis/fleet.cattle.io/v1alpha1/namespaces/n/clusters/c/status", "PUT " + report}
	if diff := cmp.Diff(want, asked); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

// expectBundles checks the figures of the Bundle scenarios that do not depend on the machine.
func expectBundles(t *testing.T, r run) {
	t.Helper()
	if r.Deliver == nil || r.Change == nil || r.Many == nil || r.Fleet == nil {
		t.Fatal("not all scenarios were run")
	}
	for what, d := range map[string]*delivered{"a Bundle": r.Deliver, "a change": r.Change} {
		if d.Clusters != 6 || d.Written <= 0 || d.Reported < d.Written || d.Final < d.Reported || d.Controller.Resident <= 0 || d.AgentReads < 1 {
			t.Errorf("%s: %+v", what, d)
		}
	}
	expectOnce(t, "of a Bundle, for each cluster", r.Deliver.Requests.Rows, map[string]float64{
		"controller create secrets": 0, "controller create bundledeployments": 1, "request accounts update bundledeployments/status": 1,
	})
	expectOnce(t, "of a change, for each cluster", r.Change.Requests.Rows, map[string]float64{
		"controller update bundledeployments": 1, "request accounts update bundledeployments/status": 1, "controller get secrets": 0,
	})
	if m := r.Many; m.Clusters != 6 || m.Bundles != 2 || m.Deployments != 18 || m.Controller.Resident <= 0 {
		t.Errorf("many: %+v", m)
	}
	// Owners and counts may still be written then, because they are delayed by seconds.
	expectOnce(t, "of a restart", r.Many.Restart.Rows, map[string]float64{
		"controller create bundledeployments": 0, "controller update bundledeployments": 0,
	})
	for _, row := range r.Many.Restart.Rows {
		if row.Verb == "get" && row.Resource == "secrets" && row.Requests >= r.Many.Deployments {
			t.Errorf("after a restart the controller reads %d Secrets", row.Requests)
		}
	}
	f := r.Fleet
	if f.Clusters != 6 || f.Bundles != 3 || f.Before < 2*3+1 || f.Ready < f.Before+3+1 || f.Writes < f.Ready {
		t.Errorf("one cluster more: %+v", f)
	}
	expectOnce(t, "of one cluster more, for each Bundle and its agent's", f.Rows, map[string]float64{
		"controller create bundledeployments": 4, "request accounts update bundledeployments/status": 4,
	})
}

// expectOnce compares how often requests were sent per counted item.
func expectOnce(t *testing.T, what string, rows []figures.Row, want map[string]float64) {
	t.Helper()
	got := map[string]float64{}
	for name := range want {
		got[name] = 0
	}
	for _, row := range rows {
		name := string(row.Identity) + " " + row.Verb + " " + row.Resource
		if _, asked := want[name]; asked {
			got[name] = row.Each
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("requests %s (-want +got):\n%s", what, diff)
	}
}
