package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fleet-hub/fleet/e2e/bench/delivery"
	"github.com/fleet-hub/fleet/e2e/bench/figures"
)

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
	for what, d := range map[string]*delivery.Figures{"a Bundle": r.Deliver, "a change": r.Change} {
		if d.Clusters != 6 || d.Written <= 0 || d.Reported < d.Written || d.Bundle < d.Reported || d.Final < d.Bundle || d.Controller.Resident <= 0 || d.AgentReads < 1 {
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
