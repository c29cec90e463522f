package main

import (
	"encoding/json"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fleet-hub/fleet/e2e/bench/audit"
	"github.com/fleet-hub/fleet/e2e/bench/expiry"
	"github.com/fleet-hub/fleet/e2e/bench/standby"
	"github.com/fleet-hub/fleet/e2e/framework/golden"
	"github.com/fleet-hub/fleet/e2e/framework/inventory"
)

func expectGolden(t *testing.T, name string, got any) {
	t.Helper()
	text, err := json.MarshalIndent(got, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden.Expect(t, name, string(text)+"\n")
}

func ms(n ...int) (samples []time.Duration) {
	for _, n := range n {
		samples = append(samples, time.Duration(n)*time.Millisecond)
	}
	return samples
}

func TestSpread_ComputesQuantiles(t *testing.T) {
	tests := map[string]struct {
		samples []time.Duration
		want    spread
	}{
		"no samples":                             {nil, spread{}},
		"one sample":                             {ms(7), spread{1, 7, 7, 7}},
		"two samples: the smaller is the median": {ms(9, 3), spread{2, 3, 9, 9}},
		"ten samples: the ninth is the p90":      {ms(10, 9, 8, 7, 6, 5, 4, 3, 2, 1), spread{10, 5, 9, 10}},
		"twenty samples: one is slow":            {append(ms(1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2), ms(500)...), spread{20, 2, 2, 500}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			before := append([]time.Duration(nil), test.samples...)
			if diff := cmp.Diff(test.want, spreadOf(test.samples)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, test.samples); diff != "" {
				t.Errorf("the samples were changed:\n%s", diff)
			}
		})
	}
}

func TestRounding_KeepsFewDigits(t *testing.T) {
	tests := map[string]struct{ got, want float64 }{
		"milliseconds to a tenth": {millis(1234567 * time.Nanosecond), 1.2},
		"seconds to a hundredth":  {seconds(1239 * time.Millisecond), 1.24},
		"shares to a hundredth":   {per(10, 3), 3.33},
		"division by zero: zero":  {per(10, 0), 0},
		"mebibytes to a tenth":    {mebibytes(157286400), 150},
		"half a mebibyte":         {mebibytes(1 << 19), 0.5},
		"negative number":         {round(-1.25, 1), -1.3},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if test.got != test.want {
				t.Errorf("got %v, want %v", test.got, test.want)
			}
		})
	}
}

func TestProcessorTime_ParsesStat(t *testing.T) {
	const fields = " S 1 2 3 4 5 6 7 8 9 10 120 35 16 17 18"
	tests := map[string]struct {
		text string
		want time.Duration
		bad  bool
	}{
		"user and system time":             {text: "42 (fleetcontroller)" + fields, want: 1550 * time.Millisecond},
		"name with blanks and parentheses": {text: "42 (a (b) c d)" + fields, want: 1550 * time.Millisecond},
		"line is too short: error":         {text: "42 (a) S 1 2", bad: true},
		"empty text: error":                {text: "", bad: true},
		"invalid user time: error":         {text: "42 (a) S 1 2 3 4 5 6 7 8 9 10 x 35 16", bad: true},
		"invalid system time: error":       {text: "42 (a) S 1 2 3 4 5 6 7 8 9 10 120 x 16", bad: true},
		"process without processor time":   {text: "42 (a) S 1 2 3 4 5 6 7 8 9 10 0 0 16"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := parseStat(test.text)
			if got != test.want || (err != nil) != test.bad {
				t.Errorf("got %s, %v", got, err)
			}
		})
	}
}

func TestMemory_ParsesStatus(t *testing.T) {
	const status = "Name:\tfleetcontroller\nVmPeak:\t 1324076 kB\nVmHWM:\t   83864 kB\nVmRSS:\t   74620 kB\nRssAnon:\t   33456 kB\nRssFile:\t   41164 kB\n"
	tests := map[string]struct {
		text string
		want memory
		bad  bool
	}{
		"all figures":              {text: status, want: memory{Resident: 74620 << 10, Anonymous: 33456 << 10, Peak: 83864 << 10}},
		"process has ended: error": {text: "Name:\tfleetcontroller\nState:\tZ (zombie)\n", bad: true},
		"invalid figure: error":    {text: "VmRSS:\tmuch kB\n", bad: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := parseStatus(test.text)
			if got != test.want || (err != nil) != test.bad {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

func TestThisProcess_IsMeasured(t *testing.T) {
	m, err := memoryOf(os.Getpid())
	if err != nil || m.Peak < m.Resident || m.Resident < m.Anonymous || m.Anonymous < 1<<20 {
		t.Errorf("memory %+v, %v", m, err)
	}
	if used, err := processorTime(os.Getpid()); err != nil || used < 0 {
		t.Errorf("processor time %s, %v", used, err)
	}
	if _, err := memoryOf(1 << 30); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("of a missing process: %v", err)
	}
	if _, err := processorTime(1 << 30); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("of a missing process: %v", err)
	}
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

func TestCosts_MatchTheGolden(t *testing.T) { expectGolden(t, "costs.json", costsOf(some(), 10)) }

func TestMerged_AddsCounts(t *testing.T) {
	patch := audit.Kind{Identity: audit.Controller, Verb: "patch", Resource: "clusters"}
	get := audit.Kind{Identity: audit.Controller, Verb: "get", Resource: "clusters"}
	a, b := audit.Counts{patch: {Requests: 2, Refused: 1}}, audit.Counts{patch: {Requests: 3, Refused: 2}, get: {Requests: 1}}
	want := audit.Counts{patch: {Requests: 5, Refused: 3}, get: {Requests: 1}}
	if diff := cmp.Diff(want, merged(a, b)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(a) != 1 || a[patch].Requests != 2 {
		t.Errorf("the first counts were changed: %v", a)
	}
}

func TestCostsOfIdleClusters_MatchTheGolden(t *testing.T) {
	expectGolden(t, "resting.json", restingFigures(some(), 10, 30, 2*time.Minute))
}

func TestCostsOfRestart_MatchTheGolden(t *testing.T) {
	var r restarted
	r.count(some())
	expectGolden(t, "restarted.json", r)
}

func TestBatches_MatchTheGolden(t *testing.T) {
	kind := audit.Kind{Identity: audit.Controller, Verb: "create", Resource: "secrets"}
	one := batch{clusters: 2, span: time.Second, took: ms(10, 20), counts: audit.Counts{kind: {Requests: 2}}, used: used{time.Second, 2 * time.Second}, failures: 1}
	sum := one.and(batch{clusters: 6, span: 3 * time.Second, took: ms(30), counts: audit.Counts{kind: {Requests: 6}}, used: used{time.Second, time.Second}, failures: 2})
	expectGolden(t, "batches.json", sum.figures())
}

func TestLeftBetween_CountsNewObjects(t *testing.T) {
	const registrations = "cattle-fleet-clusters-system"
	object := func(resource, namespace, name string) inventory.Object {
		return inventory.Object{Resource: resource, Namespace: namespace, Name: name, UID: "u"}
	}
	var now time.Time
	before := inventory.Inventory{
		object("secrets", registrations, "c-earlier"):  now,
		object("contents.fleet.cattle.io", "", "old"):  now,
		object("contents.fleet.cattle.io", "", "same"): now,
	}
	after := inventory.Inventory{
		object("secrets", registrations, "c-earlier"):                            now,
		object("contents.fleet.cattle.io", "", "same"):                           now,
		object("secrets", registrations, "c-1"):                                  now,
		object("secrets", registrations, "c-2"):                                  now,
		object("secrets", registrations, "other"):                                now,
		object("secrets", "fleet-default", "c-3"):                                now,
		object("roles.rbac.authorization.k8s.io", registrations, "request-1"):    now,
		object("roles.rbac.authorization.k8s.io", registrations, "request-2"):    now,
		object("roles.rbac.authorization.k8s.io", "fleet-default", "request-1"):  now,
		object("rolebindings.rbac.authorization.k8s.io", registrations, "rb-1"):  now,
		object("rolebindings.rbac.authorization.k8s.io", "cluster-1", "rb-1"):    now,
		object("clusterrolebindings.rbac.authorization.k8s.io", "", "request-1"): now,
		object("configmaps", registrations, "stays"):                             now,
	}
	expectGolden(t, "left.json", leftBetween(before, after, 2, registrations))
	if diff := cmp.Diff(left{Kinds: []objects{}}, leftBetween(after, after, 2, registrations)); diff != "" {
		t.Errorf("without objects (-want +got):\n%s", diff)
	}
}

func TestBudgets_MatchTheGolden(t *testing.T) {
	good := run{
		Clusters: 1000,
		Registration: joined{
			PerSecond: 31, ControllerMillis: 12, Requests: costs{Each: 28}, Objects: left{AfterExpiry: 16.5}, Controller: footprint{Resident: 140},
		},
		Single: &spread{P50: 180}, Restart: &restarted{Writes: 1, Controller: footprint{Peak: 201}},
		Next:    &flatness{First: costs{Each: 28}, Next: costs{Each: 28.4}},
		Deliver: &delivered{Clusters: 1000, Written: 4.9, Final: 10.1, Each: 4.6}, Change: &delivered{Clusters: 1000, Written: 8.1, Final: 15.1, Each: 6.1},
		Many:    &laden{Clusters: 1000, Bundles: 20, Controller: footprint{Resident: 250}, Restart: restarted{CaughtUp: 15.1, Writes: 1}},
		Fleet:   &grown{Clusters: 200, Bundles: 50, Before: 135, Ready: 291},
		Expiry:  &expired{Figures: expiry.Figures{Agents: 1000, PerDay: 8, DownstreamPerDay: 4.5, Returned: 301, Most: 60}},
		Standby: &standsBy{Figures: standby.Figures{Lease: 45, Killed: standby.TakeOver{FirstChange: 46.5}, Stopped: standby.TakeOver{FirstChange: 2.5}}},
	}
	expectGolden(t, "budgets.json", budgetsOf(good))
	few := run{Clusters: 10, Registration: good.Registration, Next: &flatness{First: costs{Each: 28}, Next: costs{Each: 27}},
		Deliver: &delivered{Clusters: 999}, Change: &delivered{Clusters: 999}, Many: &laden{Clusters: 1000, Bundles: 19}, Fleet: &grown{Clusters: 199, Bundles: 50},
		Expiry: &expired{Figures: expiry.Figures{Agents: 999, PerDay: 6.4, DownstreamPerDay: 3.2, Returned: 900, Most: 61}}}
	expectGolden(t, "budgets-few.json", budgetsOf(few))
}
