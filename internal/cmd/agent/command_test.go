package agent

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/fleet-hub/fleet/internal/cmd/env"
)

// recorded is the container of the agent's recorded Deployment.
func recorded(t *testing.T, cluster string) corev1.Container {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("../../../testdata/recorded", cluster, "deployments.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for document := range strings.SplitSeq(string(raw), "\n---\n") {
		var d appsv1.Deployment
		if err := yaml.Unmarshal([]byte(document), &d); err != nil {
			t.Fatal(err)
		}
		if d.Name == "fleet-agent" {
			return d.Spec.Template.Spec.Containers[0]
		}
	}
	t.Fatalf("no agent was recorded in %s", cluster)
	return corev1.Container{}
}

// started runs the command with these variables; it returns the options it would work with, if it would, and what
// it said.
func started(t *testing.T, values map[string]string, args ...string) (*env.Agent, string, error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := ending{cancel: cancel}
	var works *env.Agent
	command := program(func(name string) string { return values[name] }, &out, func(_ context.Context, options env.Agent, _ io.Writer) error {
		works = &options
		return nil
	})
	command.SetArgs(append([]string{}, args...)) // nil would mean those of the test
	command.SetOut(io.Discard)
	err := command.ExecuteContext(ctx)
	return works, out.String(), err
}

// ending ends a command that idles, once it has said so.
type ending struct {
	bytes.Buffer
	cancel func()
}

func (e *ending) Write(p []byte) (int, error) {
	e.cancel()
	return e.Buffer.Write(p)
}

func TestRecordedCommandLines_AreAccepted(t *testing.T) {
	for _, cluster := range []string{"hub", "east", "west"} {
		t.Run(cluster, func(t *testing.T) {
			container := recorded(t, cluster)
			if container.Command[0] != "fleetagent" {
				t.Fatalf("not recorded so: %v", container.Command)
			}
			values := map[string]string{"HOSTNAME": "pod-1"}
			for _, variable := range container.Env {
				values[variable.Name] = variable.Value
				if variable.ValueFrom != nil {
					values[variable.Name] = "cattle-fleet-system" // the namespace, the one field they refer to
				}
			}
			got, _, err := started(t, values, append(container.Command[1:], container.Args...)...)
			if err != nil {
				t.Fatal(err)
			}
			want := &env.Agent{
				Namespace: "cattle-fleet-system", CheckinInterval: 15 * time.Minute, LeaderElect: true, LogFormat: env.LogText, MetricsAddress: ":8080", HealthAddress: ":8081",
				Election:                env.Election{LeaseDuration: 30 * time.Second, RenewDeadline: 25 * time.Second, RetryPeriod: 10 * time.Second},
				BundleDeploymentWorkers: 50, DriftWorkers: 50, Identity: "pod-1", Hostname: "pod-1",
			}
			if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(env.Agent{})); diff != "" {
				t.Errorf("the options differ (-want +got):\n%s", diff)
			}
		})
	}
}

// The agent reaches the API server of its own cluster without a proxy. The clusters of other tests have addresses for
// which no proxy is used.
func TestOwnAPIServer_IsAddedToNoProxy(t *testing.T) {
	t.Setenv("NO_PROXY", ".svc")
	values := map[string]string{"NAMESPACE": "n", "HOSTNAME": "pod-1", "KUBERNETES_SERVICE_HOST": "34.118.224.1", "NO_PROXY": ".svc"}
	if _, _, err := started(t, values); err != nil {
		t.Fatal(err)
	}
	if got, want := env.OS("NO_PROXY"), ".svc,34.118.224.1"; got != want {
		t.Errorf("when its work begins NO_PROXY is %q, want %q", got, want)
	}
}

func TestCommandLines(t *testing.T) {
	tests := map[string]struct {
		args  string
		works bool
		says  string
		err   string
	}{
		"no arguments":                       {works: true},
		"debug flags of the hub":             {args: "--debug --debug-level 3", works: true},
		"flags of the zap logger":            {args: "--zap-log-level=debug --zap-encoder json", works: true},
		"init container of an older chart":   {args: "register --debug", says: "fleetagent registers the cluster when it starts"},
		"second container of an older chart": {args: "clusterstatus --checkin-interval 15m", says: "fleetagent reports the cluster's status"},
		"unknown command":                    {args: "sing", err: `unknown command "sing" for "fleetagent"`},
		"unknown flag":                       {args: "--sing", err: "unknown flag: --sing"},
		"invalid check-in interval":          {args: "--checkin-interval often", err: "the check-in interval"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			works, says, err := started(t, map[string]string{"NAMESPACE": "n", "HOSTNAME": "pod-1"}, strings.Fields(test.args)...)
			if (err == nil) != (test.err == "") || err != nil && !strings.HasPrefix(err.Error(), test.err) {
				t.Fatalf("error %v, want %q", err, test.err)
			}
			if (works != nil) != test.works {
				t.Errorf("it works: %t, want %t", works != nil, test.works)
			}
			if !strings.Contains(says, test.says) || test.says == "" && says != "" {
				t.Errorf("it said %q, want %q", says, test.says)
			}
		})
	}
}
