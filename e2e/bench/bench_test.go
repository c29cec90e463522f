package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fleet-hub/fleet/e2e/bench/agentalone"
	"github.com/fleet-hub/fleet/e2e/bench/figures"
	"github.com/fleet-hub/fleet/e2e/bench/machine"
)

// TestMain lets the tests' executable measure the speed, as the command does.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == machine.OnlySpeed {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestOnlySpeed_PrintsThisMachinesSpeed(t *testing.T) {
	if got, err := machine.Speed(t.Context()); err != nil || got < 1 {
		t.Errorf("%d documents per second, %v", got, err)
	}
}

// TestEveryScenario_ProducesItsFigures runs all scenarios with three clusters, on a real API server with the real
// controller. The figures are too small to have a meaning, but each one must be measured. Scenario standby is tested in
// its package, because it waits until a lease ends.
func TestEveryScenario_ProducesItsFigures(t *testing.T) {
	var out, progress bytes.Buffer
	profiles := t.TempDir()
	err := command(t.Context(), []string{
		"-n", "3", "-profiles", profiles, "-at-once", "2", "-first", "2", "-singles", "1", "-quiet", "1s", "-checkin", "1s", "-idle-for", "3s", "-outage", "1s", "-patience", "3m",
		"-bundles", "2", "-fleet", "3", "-scenarios", strings.Join(slices.DeleteFunc(allScenarios(), func(s string) bool { return s == standingBy }), ","),
		"-expiry-settle", "1s", "-renew-for", "1s", "-expiry-outage", "1s",
		"-agent-idle", "1s", "-agent-settle", "1s", "-agent-samples", "1", "-agent-releases", "2",
	}, &out, &progress)
	if err != nil {
		t.Fatalf("%v\n%s", err, progress.String())
	}
	decoder := json.NewDecoder(&out)
	decoder.DisallowUnknownFields()
	var printed report
	if err := decoder.Decode(&printed); err != nil {
		t.Fatal(err)
	}
	if len(printed.Runs) != 1 || printed.Machine.Processors < 1 || printed.Machine.MemoryGiB <= 0 {
		t.Fatalf("machine %+v, %d runs", printed.Machine, len(printed.Runs))
	}
	r := printed.Runs[0]
	expectJoined(t, r.Registration)
	if len(r.Profiles) != 1 || r.Profiles[0].Clusters != 3 || len(r.Profiles[0].Of) != 2 || len(r.Profiles[0].Of[0].Flat) != 10 {
		t.Errorf("profiles: %+v", r.Profiles)
	}
	if r.Single == nil || r.Single.Samples != 1 || r.Single.P50 <= 0 {
		t.Errorf("one at a time: %+v", r.Single)
	}
	if r.Next == nil || r.Next.Clusters != 2 || r.Next.First.Each < 10 || r.Next.Next.Each < 10 {
		t.Errorf("next: %+v", r.Next)
	}
	if r.Restart == nil || r.Restart.Writes > 1 || r.Restart.Reads == 0 || r.Restart.CPUSeconds <= 0 || r.Restart.CaughtUp < r.Restart.Leading {
		t.Errorf("restart: %+v", r.Restart)
	}
	if r.Idle == nil || r.Idle.Checkin != 1 || r.Idle.AgentPerHour < 1000 || r.Idle.PerHour < r.Idle.AgentPerHour {
		t.Errorf("idle: %+v", r.Idle)
	}
	if r.Herd == nil || r.Herd.Registrations != 0 || r.Herd.Failures == 0 || r.Herd.Requests.Each == 0 {
		t.Errorf("herd: %+v", r.Herd)
	}
	if e := r.Expiry; e == nil || e.Recoveries < 3 || e.Most < 1 || !e.Accounts || e.Returned <= 0 || e.Last < e.First || len(e.Returning.Rows) == 0 {
		t.Errorf("expiry: %+v", r.Expiry)
	}
	expectBundles(t, r)
	expectAgent(t, printed.Agent)
	for _, budget := range append(r.Budgets, printed.Agent.Budgets...) {
		if !strings.Contains(progress.String(), budget.Figure) {
			t.Errorf("%s is not in the summary", budget.Figure)
		}
	}
}

// expectAgent checks the figures that do not depend on the machine or on detected edits.
func expectAgent(t *testing.T, all *agentalone.Figures) {
	t.Helper()
	if all == nil || len(all.Agents) != 1 {
		t.Fatal("no agent was measured")
	}
	a := all.Agents[0]
	if a.BinaryMB < 1 || a.Idle.Agent.Resident <= a.Idle.Agent.Anonymous || a.Idle.Agent.Anonymous <= 0 {
		t.Errorf("%.1f MB, %+v", a.BinaryMB, a.Idle.Agent)
	}
	if !a.Large.Deployed || a.Large.PackedKiB < 100 || a.Large.Agent.Peak <= a.Idle.Agent.Peak {
		t.Errorf("a large chart: %+v", a.Large)
	}
	d := a.Deploys
	if d.Existing.Samples != 1 || d.Existing.P50 <= 0 || d.Reporting.Samples != 1 || d.Told.Samples != 1 || d.Told.P50 <= 0 || d.Drift.Samples+d.Unreported != 1 || d.AllReleases != 1 || d.AllSeconds <= 0 {
		t.Errorf("deployments: %+v", d)
	}
	if a.Resync.Writes != 0 || a.Resync.Idle.Agent.Anonymous <= 0 {
		t.Errorf("a restart: %+v", a.Resync)
	}
	// A restarted agent lists its BundleDeployments, sends a heartbeat, and gets its lease.
	once := map[string]bool{"agent on the hub list bundledeployments": true, "agent on the hub patch clusters/status": true, "agent on its cluster update leases": true}
	for _, row := range a.Resync.Rows {
		delete(once, string(row.Identity)+" "+row.Verb+" "+row.Resource)
	}
	if len(once) > 0 {
		t.Errorf("a restarted agent did not send %v, but sent %+v", once, a.Resync.Rows)
	}
}

// expectJoined checks the figures that do not depend on the machine.
func expectJoined(t *testing.T, j joined) {
	t.Helper()
	if j.Took.Samples != 3 || j.PerSecond <= 0 || j.Requests.Polling == 0 || j.Controller.Resident <= 0 || j.Objects.Each-j.Objects.AfterExpiry < 0 {
		t.Errorf("registration: %+v", j)
	}
	// Requests that each registration needs exactly once, by contract.
	once := map[string]float64{
		"import accounts create clusterregistrations": 1, "request accounts watch bundledeployments": 1, "controller create namespaces": 1,
		"controller create clusters": 1, "request accounts patch clusters/status": 1,
	}
	expectOnce(t, "per registration", j.Requests.Rows, once)
}

func TestFailedStart_PrintsAnEmptyReport(t *testing.T) {
	var out, progress bytes.Buffer
	err := command(t.Context(), []string{"-n", "1", "-binaries", t.TempDir()}, &out, &progress)
	if !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("got %v", err)
	}
	var printed report
	if err := json.Unmarshal(out.Bytes(), &printed); err != nil || len(printed.Runs) != 0 {
		t.Errorf("printed %s, %v", out.String(), err)
	}
}

func TestWrongFlags_ReturnErrUsage(t *testing.T) {
	var out, progress bytes.Buffer
	if err := command(t.Context(), []string{"-n", "x"}, &out, &progress); err == nil || out.Len() != 0 {
		t.Errorf("printed %q, %v", out.String(), err)
	}
}

func TestSummary_MatchesTheGolden(t *testing.T) {
	var text strings.Builder
	summarize(&text, run{Clusters: 100, AtOnce: 20, Speed: machine.Speeds{Before: 2000, After: 1900}, Budgets: []figures.Budget{figures.Below("requests", 30, 32, 28), figures.Above("rate", 35, 20, 30), figures.Below("writes", 1, 0, 0)}})
	want := `
100 clusters, 20 at a time; speed of the machine 2000 before, 1900 after
  requests                                          30.00   must 32, aim 28: must
  rate                                              35.00   must 20, aim 30: aim
  writes                                             1.00   must 0, aim 0: missed
`
	if diff := cmp.Diff(want, text.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
