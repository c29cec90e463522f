package delivery

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fleet-hub/fleet/e2e/bench/audit"
	"github.com/fleet-hub/fleet/e2e/framework/golden"
)

// Users in the log below.
const (
	controllerAccount = "system:serviceaccount:cattle-fleet-system:fleet-controller"

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

// whose classifies the requests of a delivery.
func whose() audit.Classifier {
	return audit.Classifier{Controller: controllerAccount, Workspaces: []string{"fleet-default"}}
}

func TestOf_ComputesTheFigures(t *testing.T) {
	got, err := Of(aDelivery(), whose(), 2)
	if err != nil {
		t.Fatal(err)
	}
	golden.ExpectJSON(t, "delivered.json", got)
	if _, err := Of(aDelivery()[2:], whose(), 2); !errors.Is(err, errNoCause) {
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
		"status of a Bundle":             {audit.Kind{Identity: audit.Controller, Verb: "patch", Resource: "bundles/status"}, toldBundle},
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
	j := &Joining{Whose: whose(), Deployments: 2, Complete: func() { opened++ }}
	var history []int
	for _, e := range aDelivery() {
		j.Hear(e)
		history = append(history, j.Before)
	}
	if opened != 1 {
		t.Errorf("complete was called %d times", opened)
	}
	type figures struct{ Before, Ready, All int }
	want := figures{Before: 8, Ready: 12, All: 14}
	if diff := cmp.Diff(want, figures{j.Before, j.Ready, j.Counts.Total().Requests}); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if history[8] != 0 || history[9] != 8 || history[len(history)-1] != 8 {
		t.Errorf("writes before its report, over time: %v", history)
	}
}
