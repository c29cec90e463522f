package charts_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/lint"

	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/fleet-hub/fleet/internal/leader"
)

// null is the value of an empty key in a values file. In put, nil removes a key instead.
var null map[string]any

// sections returns the paths of values and of all objects that contain them, sorted.
func sections(leaves []string) []string {
	found := map[string]bool{}
	for _, leaf := range leaves {
		for at := range leaf {
			if leaf[at] == '.' {
				found[leaf[:at]] = true
			}
		}
		found[leaf] = true
	}
	return slices.Sorted(maps.Keys(found))
}

// TestNullValue_MeansTheDefault sets each value and each section of values to null, in the defaults and in a file that
// has every value. The result must be the same as without that key.
func TestNullValue_MeansTheDefault(t *testing.T) {
	bases := map[string]release{"fleet": controllers(""), "fleet-agent": agent("")}
	required := map[string]string{"apiServerURL": "apiServerURL is required", "tokenName": "tokenName is required"}
	for chart, base := range bases {
		paths := sections(leaves(schemaOf(t, chart)))
		if len(paths) < 40 {
			t.Fatalf("only %d paths", len(paths))
		}
		files := map[string]map[string]any{"defaults": parse[map[string]any](t, base.values), "every value": everyValue(t, chart)}
		for name, values := range files {
			for _, path := range paths {
				t.Run(chart+" "+name+" "+path, func(t *testing.T) {
					want, got := rendered(t, base, put(values, path, nil)), rendered(t, base, put(values, path, null))
					if diff := cmp.Diff(want, got); diff != "" {
						t.Errorf("(-without it +null):\n%s", diff)
					}
					if text := required[path]; text == "" || chart != "fleet-agent" {
						if got["error"] != "" {
							t.Error(got["error"])
						}
					} else if !strings.Contains(got["error"], text) {
						t.Errorf("the error does not say %q: %q", text, got["error"])
					}
				})
			}
		}
	}
}

// TestAllValuesNull_RendersTheDefaults sets all values that have a default to null at once, except those that an agent
// requires. Values without a default are left out: a section that contains only nulls is {} and not null, which would
// request an empty PriorityClass, for example.
func TestAllValuesNull_RendersTheDefaults(t *testing.T) {
	for chart, base := range map[string]release{"fleet": controllers(""), "fleet-agent": agent("")} {
		given := parse[map[string]any](t, base.values)
		nulls := maps.Clone(given)
		for path, row := range documented(t, chart) {
			if _, there := at(given, path); !there && row.def != "unset" {
				nulls = put(nulls, path, null)
			}
		}
		if diff := cmp.Diff(rendered(t, base, given), rendered(t, base, nulls)); diff != "" {
			t.Errorf("%s (-defaults +nulls):\n%s", chart, diff)
		}
	}
}

// TestEmptyValue_IsNotReplacedByTheDefault checks that empty values are kept, unlike nulls.
func TestEmptyValue_IsNotReplacedByTheDefault(t *testing.T) {
	tests := map[string]struct {
		in   release
		file string
		want string
	}{
		"no agent replicas":         {agent("agent: {replicas: 0}\n"), "deployment.yaml", "replicas: 0\n"},
		"empty number of workers":   {agent("agent: {reconciler: {workers: {drift: ''}}}\n"), "deployment.yaml", "name: DRIFT_RECONCILER_WORKERS\n          value: \"\"\n"},
		"empty noProxy":             {agent("proxy: http://p\nnoProxy: ''\n"), "deployment.yaml", "name: NO_PROXY\n          value: \"\"\n"},
		"no controller replicas":    {controllers("controller: {replicas: 0}"), "deployment.yaml", "replicas: 0\n"},
		"empty bootstrap namespace": {controllers("bootstrap: {namespace: ''}"), "configmap.yaml", `"namespace": "",`},
		"debug not propagated":      {controllers("propagateDebugSettingsToAgents: false"), "deployment.yaml", "name: FLEET_PROPAGATE_DEBUG_SETTINGS_TO_AGENTS\n          value: \"false\"\n"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := mustRender(t, test.in)[test.file]; !strings.Contains(got, test.want) {
				t.Errorf("%q is missing in:\n%s", test.want, got)
			}
		})
	}
}

// TestNullSections_PassLint runs `helm lint` with whole sections set to null.
func TestNullSections_PassLint(t *testing.T) {
	tests := map[string]map[string]any{
		"fleet":       {"agent": nil, "bootstrap": nil, "controller": nil, "leaderElection": nil, "image": nil},
		"fleet-agent": {"apiServerURL": "https://hub", "tokenName": "t", "agent": nil, "leaderElection": nil, "fleetAgent": nil, "image": nil},
	}
	for chart, values := range tests {
		for _, message := range lint.All(chart, values, "cattle-fleet-system", true).Messages {
			if message.Err != nil && strings.Contains(message.Path, "templates") {
				t.Errorf("%s: %s", chart, message)
			}
		}
	}
}

// TestInvalidLeaderElection_IsRefused compares the rule of the charts with the check that client-go makes at startup.
func TestInvalidLeaderElection_IsRefused(t *testing.T) {
	tests := map[string]struct {
		times string
		want  string // empty: it is rendered
	}{
		"defaults: rendered": {times: "{}"},
		"zeros, which are the defaults of the program: rendered":   {times: "{leaseDuration: 0, renewDeadline: 0, retryPeriod: 0}"},
		"zeros as strings: rendered":                               {times: "{leaseDuration: 0s, renewDeadline: '0', retryPeriod: 0m}"},
		"zeros, and a lease: rendered":                             {times: "{leaseDuration: 31s, renewDeadline: 0, retryPeriod: 0}"},
		"lease equals the renew deadline: refused":                 {"{renewDeadline: 30s}", "leaseDuration (30s) has to be greater than renewDeadline (30s)"},
		"lease in milliseconds: rendered":                          {times: "{leaseDuration: 26000ms}"},
		"lease one millisecond longer than the deadline: rendered": {times: "{leaseDuration: 25.001s}"},
		"default deadline equals the lease: refused":               {"{renewDeadline: 0}", "leaseDuration (30s) has to be greater than renewDeadline (0, which is the default 30s)"},
		"default lease equals the deadline: refused":               {"{leaseDuration: 0, renewDeadline: 45s}", "leaseDuration (0, which is the default 45s) has to be greater than renewDeadline (45s)"},
		"default deadline equals 1.2 retry periods: refused":       {"{leaseDuration: 1m, renewDeadline: 0, retryPeriod: 25s}", "renewDeadline (0, which is the default 30s) has to be greater than 1.2 times retryPeriod (25s)"},
		"deadline equals 1.2 retry periods: refused":               {"{renewDeadline: 12s}", "renewDeadline (12s) has to be greater than 1.2 times retryPeriod (10s)"},
		"deadline one millisecond longer than that: rendered":      {times: "{renewDeadline: 12.001s}"},
		"lease shorter than the default deadline: refused":         {"{leaseDuration: 15s}", "leaseDuration (15s) has to be greater than renewDeadline (25s)"},
		"lease below one second: refused":                          {"{leaseDuration: 900ms, renewDeadline: 500ms, retryPeriod: 100ms}", "leaseDuration (900ms) has to be at least 1s"},
		"times of many years: rendered":                            {times: "{leaseDuration: 2000000h, renewDeadline: 1000000h, retryPeriod: 500000h}"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			for section, in := range map[string]release{
				"leaderElection":       agent("leaderElection: " + test.times + "\n"),
				"leaderElection:":      controllers("leaderElection: " + test.times),
				"agent.leaderElection": controllers("agent: {leaderElection: " + test.times + "}"),
			} {
				if test.want == "" {
					mustRender(t, in)
				} else {
					expectRefused(t, in, strings.TrimSuffix(section, ":")+": "+test.want)
				}
			}
			if err := electable(t, test.times); (err != nil) != (test.want != "") {
				t.Errorf("client-go reports %v", err)
			}
		})
	}
}

// electable returns the error of client-go, or of the API server for the Lease, for these times and the chart's defaults.
func electable(t *testing.T, given string) error {
	t.Helper()
	times := merge(map[string]any{"leaseDuration": "30s", "renewDeadline": "25s", "retryPeriod": "10s"}, parse[map[string]any](t, given))
	duration := func(name string, own time.Duration) time.Duration {
		text, ok := times[name].(string)
		if !ok {
			return own // the number 0
		}
		d, err := time.ParseDuration(text)
		if err != nil {
			t.Fatal(err)
		}
		if d == 0 {
			return own
		}
		return d
	}
	lease := duration("leaseDuration", leader.DefaultLeaseDuration)
	_, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		LeaseDuration: lease,
		RenewDeadline: duration("renewDeadline", leader.DefaultRenewDeadline),
		RetryPeriod:   duration("retryPeriod", leader.DefaultRetryPeriod),
		Lock:          &resourcelock.LeaseLock{LockConfig: resourcelock.ResourceLockConfig{Identity: "x"}},
		Callbacks:     leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) {}, OnStoppedLeading: func() {}},
	})
	if err == nil && lease < time.Second {
		return errors.New("spec.leaseDurationSeconds: must be greater than 0")
	}
	return err
}
