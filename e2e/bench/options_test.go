package main

import (
	"errors"
	"flag"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestOptions(t *testing.T) {
	defaults := options{
		sizes: []int{10, 100, 1000}, atOnce: 20, first: 100, singles: 20, manyOf: 20, fleet: 50, checkin: 20 * time.Second, idleFor: time.Minute,
		outage: 2 * time.Minute, quiet: 10 * time.Second, patience: 20 * time.Minute, scenarios: allScenarios(),
		agent: agentOptions{idle: 10 * time.Minute, settle: time.Minute, releases: 100, samples: 20, together: 1},
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
		"nothing said":                {want: defaults},
		"one size":                    {args: []string{"-n", "100"}, want: with(func(o *options) { o.sizes = []int{100} })},
		"two sizes":                   {args: []string{"-n", "5,7"}, want: with(func(o *options) { o.sizes = []int{5, 7} })},
		"some scenarios":              {args: []string{"-scenarios", "single,idle"}, want: with(func(o *options) { o.scenarios = []string{single, idle} })},
		"a shorter outage":            {args: []string{"-outage", "5s"}, want: with(func(o *options) { o.outage = 5 * time.Second })},
		"an agent that rests shortly": {args: []string{"-agent-idle", "1m"}, want: with(func(o *options) { o.agent.idle = time.Minute })},
		"as many samples as releases": {args: []string{"-agent-releases", "20"}, want: with(func(o *options) { o.agent.releases = 20 })},
		"more samples than releases":  {args: []string{"-agent-releases", "19"}, err: errUsage},
		"no sample":                   {args: []string{"-agent-samples", "0"}, err: errUsage},
		"no number":                   {args: []string{"-n", "many"}, err: errUsage},
		"no cluster":                  {args: []string{"-n", "10,0"}, err: errUsage},
		"a scenario that is not":      {args: []string{"-scenarios", "herd,flood"}, err: errUsage},
		"an argument too many":        {args: []string{"-n", "10", "100"}, err: errUsage},
		"a cry for help":              {args: []string{"-h"}, err: flag.ErrHelp},
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
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(options{}, agentOptions{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatIsPlayed(t *testing.T) {
	o, err := parse([]string{"-scenarios", "idle"}, io.Discard)
	if err != nil || !o.plays(idle) || o.plays(herd) {
		t.Errorf("%v, %v", o.scenarios, err)
	}
}

func TestHelpNamesEveryScenario(t *testing.T) {
	var help strings.Builder
	_, _ = parse([]string{"-h"}, &help) // the error is the help
	for _, scenario := range allScenarios() {
		if !strings.Contains(help.String(), scenario) {
			t.Errorf("%s is not in the help", scenario)
		}
	}
}
