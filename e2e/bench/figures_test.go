package main

import (
	"testing"
	"time"

	"github.com/fleet-hub/fleet/e2e/bench/audit"
	"github.com/fleet-hub/fleet/e2e/bench/delivery"
	"github.com/fleet-hub/fleet/e2e/bench/expiry"
	"github.com/fleet-hub/fleet/e2e/bench/figures"
	"github.com/fleet-hub/fleet/e2e/bench/leftovers"
	"github.com/fleet-hub/fleet/e2e/bench/standby"
	"github.com/fleet-hub/fleet/e2e/bench/usage"
	"github.com/fleet-hub/fleet/e2e/framework/golden"
)

func ms(n ...int) (samples []time.Duration) {
	for _, n := range n {
		samples = append(samples, time.Duration(n)*time.Millisecond)
	}
	return samples
}

// some returns the requests of ten clusters.
func some() audit.Counts {
	return audit.Counts{
		{Identity: audit.Controller, Verb: "patch", Resource: "clusters/status"}:         {Requests: 70, Refused: 12},
		{Identity: audit.Controller, Verb: "create", Resource: "secrets"}:                {Requests: 10},
		{Identity: audit.Controller, Verb: "update", Resource: "leases"}:                 {Requests: 4},
		{Identity: audit.Import, Verb: "create", Resource: "clusterregistrations"}:       {Requests: 10},
		{Identity: audit.Import, Verb: "get", Resource: "secrets"}:                       {Requests: 90, Refused: 80},
		{Identity: audit.Import, Verb: "watch", Resource: "secrets"}:                     {Requests: 3},
		{Identity: audit.Request, Verb: "patch", Resource: "clusters/status"}:            {Requests: 10},
		{Identity: audit.Kubernetes, Verb: "create", Resource: "configmaps"}:             {Requests: 10},
		{Identity: audit.Bench, Verb: "watch", Resource: "clusters"}:                     {Requests: 2},
		{Identity: audit.Other, Verb: "update", Resource: "leases"}:                      {Requests: 5},
		{Identity: audit.Proof, Verb: "list", Resource: "bundledeployments"}:             {Requests: 10},
		{Identity: audit.Admin, Verb: "list", Resource: "pods"}:                          {Requests: 1},
		{Identity: audit.Controller, Verb: "get", Resource: "customresourcedefinitions"}: {Requests: 8},
	}
}

func TestCosts_MatchTheGolden(t *testing.T) {
	golden.ExpectJSON(t, "costs.json", figures.CostsOf(some(), 10))
}

func TestCostsOfIdleClusters_MatchTheGolden(t *testing.T) {
	golden.ExpectJSON(t, "resting.json", restingFigures(some(), 10, 30, 2*time.Minute))
}

func TestCostsOfRestart_MatchTheGolden(t *testing.T) {
	var r restarted
	r.count(some())
	golden.ExpectJSON(t, "restarted.json", r)
}

func TestBatches_MatchTheGolden(t *testing.T) {
	kind := audit.Kind{Identity: audit.Controller, Verb: "create", Resource: "secrets"}
	one := batch{clusters: 2, span: time.Second, took: ms(10, 20), counts: audit.Counts{kind: {Requests: 2}}, used: usage.Used{Controller: time.Second, Simulator: 2 * time.Second}, failures: 1}
	sum := one.and(batch{clusters: 6, span: 3 * time.Second, took: ms(30), counts: audit.Counts{kind: {Requests: 6}}, used: usage.Used{Controller: time.Second, Simulator: time.Second}, failures: 2})
	golden.ExpectJSON(t, "batches.json", sum.figures())
}

func TestBudgets_MatchTheGolden(t *testing.T) {
	good := run{
		Clusters: 1000,
		Registration: joined{
			PerSecond: 31, ControllerMillis: 12, Requests: figures.Costs{Each: 28}, Objects: leftovers.Left{AfterExpiry: 16.5}, Controller: usage.Footprint{Resident: 140},
		},
		Single: &figures.Spread{P50: 180}, Restart: &restarted{Writes: 1, Controller: usage.Footprint{Peak: 201}},
		Next:    &flatness{First: figures.Costs{Each: 28}, Next: figures.Costs{Each: 28.4}},
		Deliver: &delivery.Figures{Clusters: 1000, Written: 4.9, Final: 10.1, Each: 4.6}, Change: &delivery.Figures{Clusters: 1000, Written: 8.1, Final: 15.1, Each: 6.1},
		Many:    &laden{Clusters: 1000, Bundles: 20, Controller: usage.Footprint{Resident: 250}, Restart: restarted{CaughtUp: 15.1, Writes: 1}},
		Fleet:   &grown{Clusters: 200, Bundles: 50, Before: 135, Ready: 291},
		Expiry:  &expired{Figures: expiry.Figures{Agents: 1000, PerDay: 8, DownstreamPerDay: 4.5, Returned: 301, Most: 60}},
		Standby: &standsBy{Figures: standby.Figures{Lease: 45, Killed: standby.TakeOver{FirstChange: 46.5}, Stopped: standby.TakeOver{FirstChange: 2.5}}},
	}
	golden.ExpectJSON(t, "budgets.json", budgetsOf(good))
	few := run{Clusters: 10, Registration: good.Registration, Next: &flatness{First: figures.Costs{Each: 28}, Next: figures.Costs{Each: 27}},
		Deliver: &delivery.Figures{Clusters: 999}, Change: &delivery.Figures{Clusters: 999}, Many: &laden{Clusters: 1000, Bundles: 19}, Fleet: &grown{Clusters: 199, Bundles: 50},
		Expiry: &expired{Figures: expiry.Figures{Agents: 999, PerDay: 6.4, DownstreamPerDay: 3.2, Returned: 900, Most: 61}}}
	golden.ExpectJSON(t, "budgets-few.json", budgetsOf(few))
}
