package main

import (
	"errors"
	"flag"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fleet-hub/fleet/e2e/bench/agentalone"
	"github.com/fleet-hub/fleet/e2e/bench/expiry"
)

// agentSettings returns the settings of scenario agent with these flags.
func agentSettings(t *testing.T, args ...string) (s agentalone.Settings) {
	t.Helper()
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	s.Bind(flags)
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestParse_ReadsTheFlags(t *testing.T) {
	defaults := options{
		sizes: []int{10, 100, 1000}, atOnce: 20, first: 100, singles: 20, step: 1000, spread: 1, manyOf: 20, fleet: 50, checkin: 20 * time.Second, idleFor: time.Minute,
		outage: 2 * time.Minute, quiet: 10 * time.Second, patience: 20 * time.Minute, scenarios: allScenarios(),
		expiry: expiry.Times{Lifetime: 10 * time.Minute, Settle: 130 * time.Second, RenewFor: 450 * time.Second, Outage: 690 * time.Second},
		agent:  agentSettings(t),
	}
	with := func(change func(*options)) options {
		o := defaults
		change(&o)
		return o
	}
	tests := map[string]struct {
		args []string
		want options
		err  error
	}{
		"no flags: defaults":                    {want: defaults},
		"one size":                              {args: []string{"-n", "100"}, want: with(func(o *options) { o.sizes = []int{100} })},
		"two sizes":                             {args: []string{"-n", "5,7"}, want: with(func(o *options) { o.sizes = []int{5, 7} })},
		"some scenarios":                        {args: []string{"-scenarios", "single,idle"}, want: with(func(o *options) { o.scenarios = []string{single, idle} })},
		"shorter outage":                        {args: []string{"-outage", "5s"}, want: with(func(o *options) { o.outage = 5 * time.Second })},
		"shorter idle phase":                    {args: []string{"-agent-idle", "1m"}, want: with(func(o *options) { o.agent = agentSettings(t, "-agent-idle", "1m") })},
		"equal numbers of samples and releases": {args: []string{"-agent-releases", "20"}, want: with(func(o *options) { o.agent = agentSettings(t, "-agent-releases", "20") })},
		"more samples than releases: error":     {args: []string{"-agent-releases", "19"}, err: errUsage},
		"no sample: error":                      {args: []string{"-agent-samples", "0"}, err: errUsage},
		"invalid number: error":                 {args: []string{"-n", "many"}, err: errUsage},
		"no step: error":                        {args: []string{"-step", "0"}, err: errUsage},
		"a growth curve by the hundred":         {args: []string{"-step", "100", "-growth", "g.json"}, want: with(func(o *options) { o.step, o.growth = 100, "g.json" })},
		"ten workspaces":                        {args: []string{"-workspaces", "10", "-scenarios", "restart"}, want: with(func(o *options) { o.spread, o.scenarios = 10, []string{restart} })},
		"no workspace: error":                   {args: []string{"-workspaces", "0"}, err: errUsage},
		"a Bundle for two workspaces: error":    {args: []string{"-workspaces", "2", "-scenarios", "deliver"}, err: errUsage},
		"profiles":                              {args: []string{"-profiles", "p"}, want: with(func(o *options) { o.profiles = "p" })},
		"readers":                               {args: []string{"-content-readers", "agents"}, want: with(func(o *options) { o.readers = "agents" })},
		"unknown readers: error":                {args: []string{"-content-readers", "all"}, err: errUsage},
		"no cluster: error":                     {args: []string{"-n", "10,0"}, err: errUsage},
		"unknown scenario: error":               {args: []string{"-scenarios", "herd,flood"}, err: errUsage},
		"additional argument: error":            {args: []string{"-n", "10", "100"}, err: errUsage},
		"help":                                  {args: []string{"-h"}, err: flag.ErrHelp},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := parse(test.args, io.Discard)
			if !errors.Is(err, test.err) {
				t.Fatalf("got %v", err)
			}
			if test.err != nil {
				return
			}
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(options{}, agentalone.Settings{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestParse_SelectsScenarios(t *testing.T) {
	o, err := parse([]string{"-scenarios", "idle"}, io.Discard)
	if err != nil || !o.plays(idle) || o.plays(herd) {
		t.Errorf("%v, %v", o.scenarios, err)
	}
}

func TestHelp_NamesEveryScenario(t *testing.T) {
	var help strings.Builder
	_, _ = parse([]string{"-h"}, &help) // the error is ErrHelp
	for _, scenario := range allScenarios() {
		if !strings.Contains(help.String(), scenario) {
			t.Errorf("%s is not in the help", scenario)
		}
	}
}

func TestCuts_TheEndsOfALargeRunAreStepsOfTheirOwn(t *testing.T) {
	tests := map[string]struct {
		n         int
		scenarios []string
		want      []int
	}{
		"small":           {1000, []string{registration}, nil},
		"small, and next": {1000, []string{registration, next}, []int{100}},
		"large":           {10000, []string{registration}, []int{500, 9500}},
		"large, and next": {1001, []string{registration, next}, []int{100, 500, 501}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, options{first: 100, scenarios: test.scenarios}.cuts(test.n)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestHubValues_FollowTheNumberOfClusters(t *testing.T) {
	tests := map[string]struct {
		size    int
		readers string
		want    map[string]any
	}{
		"few":                  {size: 100, want: map[string]any{}},
		"few, readers chosen":  {size: 2500, readers: "serviceaccounts", want: map[string]any{"contentReaders": "serviceaccounts"}},
		"many":                 {size: 2501, want: map[string]any{"maxClustersPerToken": 0}},
		"many, readers chosen": {size: 10000, readers: "serviceaccounts", want: map[string]any{"maxClustersPerToken": 0, "contentReaders": "serviceaccounts"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			o := options{sizes: []int{10, test.size}, readers: test.readers}
			if diff := cmp.Diff(test.want, o.hubValues()["controller"]); diff != "" {
				t.Errorf("values (-want +got):\n%s", diff)
			}
		})
	}
}
