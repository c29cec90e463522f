package controller

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/fleet-hub/fleet/internal/cmd/env"
)

// containers are those of a recorded Deployment, by name.
func containers(t *testing.T, file, deployment string) map[string]corev1.Container {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("../../../testdata/recorded", file))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]corev1.Container{}
	for document := range strings.SplitSeq(string(raw), "\n---\n") {
		var d appsv1.Deployment
		if err := yaml.Unmarshal([]byte(document), &d); err != nil {
			t.Fatal(err)
		}
		if d.Name != deployment {
			continue
		}
		for _, container := range d.Spec.Template.Spec.Containers {
			found[container.Name] = container
		}
	}
	return found
}

// variables is the environment a container is given, and what Kubernetes adds to it.
func variables(container corev1.Container, namespace string) env.Environment {
	values := map[string]string{"HOSTNAME": "pod-1"}
	for _, variable := range container.Env {
		values[variable.Name] = variable.Value
		if variable.ValueFrom != nil {
			values[variable.Name] = namespace // the one field the recorded pods refer to
		}
	}
	return func(name string) string { return values[name] }
}

// outcome is what came of a command: the options it works with, or the line it idles with.
type outcome struct {
	Works *env.Controller
	Says  string
}

// started starts a container and ends it as soon as it works or idles.
func started(t *testing.T, environment env.Environment, args ...string) (outcome, error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var got outcome
	var out lines
	out.onLine = cancel
	command := program(environment, &out, func(_ context.Context, options env.Controller, _ io.Writer) error {
		got.Works = &options
		return nil
	})
	command.SetArgs(append([]string{}, args...)) // nil would mean those of the test
	command.SetOut(io.Discard)
	err := command.ExecuteContext(ctx)
	if said := regexp.MustCompile(`because="?(.*?)"?\n`).FindStringSubmatch(out.String()); said != nil {
		got.Says = said[1]
	}
	return got, err
}

// Service networks need not be private: that of GKE is not.
func TestOwnAPIServer_IsReachedWithoutProxy(t *testing.T) {
	for _, args := range [][]string{nil, {"agentmanagement"}} {
		t.Run(strings.Join(append([]string{"fleetcontroller"}, args...), " "), func(t *testing.T) {
			t.Setenv("NO_PROXY", ".svc")
			values := map[string]string{"KUBERNETES_SERVICE_HOST": "34.118.224.1", "NO_PROXY": ".svc"}
			if got, err := started(t, func(name string) string { return values[name] }, args...); err != nil || got.Works == nil {
				t.Fatalf("started %+v with error %v", got, err)
			}
			if got, want := env.OS("NO_PROXY"), ".svc,34.118.224.1"; got != want {
				t.Errorf("when the work begins NO_PROXY is %q, want %q", got, want)
			}
		})
	}
}

// lines is a log that tells of each line.
type lines struct {
	mu     sync.Mutex
	buffer bytes.Buffer
	onLine func()
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, err := l.buffer.Write(p)
	l.onLine()
	return n, err
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buffer.String()
}

// unported is an environment whose ports are free ones.
func unported(environment env.Environment) env.Environment {
	return func(name string) string {
		switch name {
		case "FLEET_METRICS_BIND_ADDRESS", "FLEET_HEALTHPROBE_BIND_ADDRESS":
			return "127.0.0.1:0"
		}
		return environment(name)
	}
}

func TestRecordedContainers_StartAsBefore(t *testing.T) {
	recorded := containers(t, "hub/deployments.yaml", "fleet-controller")
	tests := map[string]struct {
		ports env.Environment
		want  outcome
	}{
		"fleet-controller": {want: outcome{Says: "`fleetcontroller agentmanagement` of this pod does everything"}},
		"fleet-cleanup":    {want: outcome{Says: "the controllers clean up what they made"}},
		"fleet-agentmanagement": {want: outcome{Works: &env.Controller{
			Namespace: "cattle-fleet-system", LeaderElect: true, LogFormat: env.LogText, MetricsAddress: "0", HealthAddress: "0", Identity: "pod-1",
			Election: env.Election{LeaseDuration: 30 * time.Second, RenewDeadline: 25 * time.Second, RetryPeriod: 10 * time.Second},
			Agent:    env.AgentSettings{Replicas: 1, LeaseDuration: "30s", RenewDeadline: "25s", RetryPeriod: "10s", PropagateDebug: true},

			MaxClustersPerToken: env.DefaultMaxClustersPerToken,
		}}},
	}
	if len(recorded) != len(tests) {
		t.Errorf("the recorded pod has %d containers, this table %d", len(recorded), len(tests))
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			container, there := recorded[name]
			if !there || container.Command[0] != "fleetcontroller" {
				t.Fatalf("not recorded so: %v", container.Command)
			}
			environment := variables(container, "cattle-fleet-system")
			if name == "fleet-controller" {
				environment = unported(environment) // it serves on its own
			}
			got, err := started(t, environment, append(container.Command[1:], container.Args...)...)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("what comes of it differs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCommandLines(t *testing.T) {
	with := func(change func(*env.Controller)) outcome {
		options := env.Controller{
			MaxClustersPerToken: env.DefaultMaxClustersPerToken,

			Namespace: "cattle-fleet-system", LeaderElect: true, LogFormat: env.LogText, MetricsAddress: "127.0.0.1:0", HealthAddress: "127.0.0.1:0", Identity: "pod-1",
			Agent: env.AgentSettings{Replicas: 1, LeaseDuration: "30s", RenewDeadline: "25s", RetryPeriod: "10s"},
		}
		if change != nil {
			change(&options)
		}
		return outcome{Works: &options}
	}
	tests := map[string]struct {
		args []string
		env  []string
		want outcome
		err  string
	}{
		"no arguments: all controllers":    {want: with(nil)},
		"flags of the zap logger: ignored": {args: []string{"--zap-log-level=debug", "--zap-devel"}, want: with(nil)},
		"without bootstrap": {
			args: []string{"agentmanagement", "--disable-bootstrap", "--namespace", "n"},
			want: with(func(c *env.Controller) { c.DisableBootstrap, c.Namespace = true, "n" }),
		},
		"debug flags before the command": {
			args: []string{"--debug", "--debug-level", "3", "agentmanagement"}, want: with(func(c *env.Controller) { c.Debug, c.DebugLevel = true, 3 }),
		},
		"variables of the agents' settings: all controllers": {
			env: []string{"BUNDLE_RECONCILER_WORKERS", "50", "FLEET_AGENT_REPLICA_COUNT", "2"}, want: with(func(c *env.Controller) { c.Agent.Replicas = 2 }),
		},
		"container of agentmanagement: all controllers": {
			args: []string{"agentmanagement"}, env: []string{"BUNDLE_RECONCILER_WORKERS", "50"}, want: with(nil),
		},
		"a shard": {args: []string{"--shard-id", "a"}, want: with(func(c *env.Controller) { c.Shard = "a" })},
		"a shard in a pod of other charts": {
			args: []string{"--shard-id", "a"}, env: []string{"BUNDLE_RECONCILER_WORKERS", "50"},
			want: with(func(c *env.Controller) { c.Shard, c.Elsewhere = "a", true }),
		},
		"no shard by that flag":           {args: []string{"--shard-id="}, want: with(nil)},
		"cleaning, with its flags":        {args: []string{"cleanup", "--namespace=n", "--debug"}, want: outcome{Says: "the controllers clean up what they made"}},
		"repositories, with their flags":  {args: []string{"gitjob", "--gitjob-image", "x", "--listen=:80"}, want: outcome{Says: "GitRepos are not acted on"}},
		"Helm operations":                 {args: []string{"helmops", "--shard-id", "a"}, want: outcome{Says: "HelmOps are not acted on"}},
		"unknown command":                 {args: []string{"sing"}, err: `unknown command "sing" for "fleetcontroller"`},
		"unknown flag":                    {args: []string{"--sing"}, err: "unknown flag: --sing"},
		"unknown flag of agentmanagement": {args: []string{"agentmanagement", "--sing"}, err: "unknown flag: --sing"},
		"invalid variable":                {args: []string{"agentmanagement"}, env: []string{"FLEET_AGENT_REPLICA_COUNT", "x"}, err: "variable FLEET_AGENT_REPLICA_COUNT"},
		"no shell completion":             {args: []string{"completion"}, err: `unknown command "completion"`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			values := map[string]string{"HOSTNAME": "pod-1"}
			for i := 0; i < len(test.env); i += 2 {
				values[test.env[i]] = test.env[i+1]
			}
			got, err := started(t, unported(func(name string) string { return values[name] }), test.args...)
			if test.err != "" {
				if err == nil || !strings.HasPrefix(err.Error(), test.err) {
					t.Errorf("error %v, want %q", err, test.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("what comes of it differs (-want +got):\n%s", diff)
			}
		})
	}
}

// One that stands aside answers its probes and its scraper, until it is told to end.
func TestIdleContainer_ServesProbesAndMetrics(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var answers []string
	var out lines
	options := env.Controller{Elsewhere: true, MetricsAddress: "127.0.0.1:0", HealthAddress: "127.0.0.1:0"}
	out.onLine = func() {
		listening := regexp.MustCompile(`health=(\S+) metrics=(\S+)`).FindStringSubmatch(out.buffer.String())
		for _, url := range []string{listening[1] + "/healthz", listening[1] + "/readyz", listening[2] + "/metrics"} {
			answers = append(answers, get(t, "http://"+url))
		}
		cancel()
	}
	if err := unlessElsewhere(nil)(ctx, options, &out); err != nil {
		t.Fatal(err)
	}
	want := []string{"200 ok\n", "200 `fleetcontroller agentmanagement` of this pod does everything\n", "200 "}
	if diff := cmp.Diff(want, answers); diff != "" {
		t.Errorf("answers differ (-want +got):\n%s", diff)
	}
}

func TestIdleContainer_NeedsItsPorts(t *testing.T) {
	err := unlessElsewhere(nil)(t.Context(), env.Controller{Elsewhere: true, HealthAddress: "256.0.0.1:1"}, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "listening for health") {
		t.Errorf("error %v, want that it cannot listen", err)
	}
}

func get(t *testing.T, url string) string {
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		return err.Error()
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%d %s", response.StatusCode, body)
}
