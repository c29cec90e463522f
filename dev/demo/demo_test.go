package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fleet-hub/fleet/dev/plane"
	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/internal/rules/targeting"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func TestCommandWithWrongArguments_NamesTheMistake(t *testing.T) {
	tests := map[string]struct {
		args []string
		says string
	}{
		"unknown output format":  {[]string{"-o", "xml"}, "use table or json"},
		"unexpected argument":    {[]string{"east"}, "unknown command"},
		"unknown flag":           {[]string{"--twice"}, "unknown flag"},
		"binaries are not built": {[]string{"--binaries", t.TempDir()}, "run make build first"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var out, progress bytes.Buffer
			cmd := command(&out, &progress)
			cmd.SetArgs(test.args)
			err := cmd.ExecuteContext(t.Context())
			if err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %v, want an error with %q", err, test.says)
			}
			if out.Len() > 0 || progress.Len() > 0 {
				t.Errorf("want no output, got %q and %q", out.String(), progress.String())
			}
		})
	}
}

func TestBinariesIn_ReturnsAbsolutePaths(t *testing.T) {
	folder := t.TempDir()
	want := map[string]string{}
	for _, name := range []string{"fleetcontroller", "fleetagent", "fleet", "kubectl-fleet", "kubectl_complete-fleet"} {
		want[name] = filepath.Join(folder, name)
		if err := os.WriteFile(want[name], nil, 0o700); err != nil { //nolint:gosec // an executable
			t.Fatal(err)
		}
	}
	got, err := binariesIn(folder)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func finished() *demo {
	return &demo{
		world: &framework.World{Plane: &plane.Plane{LogDir: "/logs"}},
		rows: []row{
			{Cluster: "local", WayIn: "local", Seconds: 1.234, BundlesReady: "3/3", Agent: "managed"},
			{Cluster: "west", WayIn: "agent-initiated", Seconds: 0.5, BundlesReady: "3/3", Agent: "managed"},
		},
	}
}

func TestPrintTable(t *testing.T) {
	var out bytes.Buffer
	if err := finished().print(&out, "table"); err != nil {
		t.Fatal(err)
	}
	want := `
CLUSTER   REGISTRATION      SECONDS TO FIRST HEARTBEAT   BUNDLES READY   AGENT
local     local             1.23                         3/3             managed
west      agent-initiated   0.50                         3/3             managed
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPrintJSON(t *testing.T) {
	var out bytes.Buffer
	if err := finished().print(&out, "json"); err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"logs": "/logs", "clusters": []any{
		map[string]any{"cluster": "local", "wayIn": "local", "secondsToFirstHeartbeat": 1.234, "bundlesReady": "3/3", "agent": "managed"},
		map[string]any{"cluster": "west", "wayIn": "agent-initiated", "secondsToFirstHeartbeat": 0.5, "bundlesReady": "3/3", "agent": "managed"},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPrintNext_NamesKubeconfigAndPrograms(t *testing.T) {
	d := finished()
	d.commands = &commandLine{folder: "/bin-of-the-demo", kubeconfig: "/data/kubeconfig"}
	var out bytes.Buffer
	d.printNext(&out)
	for _, line := range []string{
		"  export KUBECONFIG=/data/kubeconfig   # contexts hub, east and west\n", "  export PATH=/bin-of-the-demo:$PATH\n",
		"  kubectl fleet clusters -A\n", "Logs: /logs\n",
	} {
		if !strings.Contains(out.String(), line) {
			t.Errorf("%q is missing in:\n%s", line, out.String())
		}
	}
}

func TestReporter_WritesOneLinePerStep(t *testing.T) {
	var out bytes.Buffer
	r := newReporter(&out)
	r.begin("first")
	r.note("building %s", "something")
	r.end(nil)
	r.begin("second")
	r.end(errors.New("no"))
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 3 || lines[0] != "· building something" ||
		!strings.HasPrefix(lines[1], "✓ first") || !strings.HasPrefix(lines[2], "✗ second") {
		t.Errorf("wrote %q", out.String())
	}
	if strings.Contains(out.String(), "\x1b") {
		t.Error("wrote terminal escape codes to a writer that is not a terminal")
	}
}

func TestUntilOrphaned_KeepsContextWhileParentLives(t *testing.T) {
	ctx, cancel := untilOrphaned(t.Context())
	if err := ctx.Err(); err != nil {
		t.Errorf("ended while the parent lives: %v", err)
	}
	cancel()
	<-ctx.Done()
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		t.Errorf("ended because of %v", cause)
	}
}

func TestDemoBundles_TargetEveryCluster(t *testing.T) {
	for _, bundle := range []*fleet.Bundle{chartBundle(framework.Workspace, "0.1.0"), manifestBundle(framework.Workspace)} {
		matcher, err := targeting.NewMatcher(targeting.Criteria{ClusterSelector: bundle.Spec.Targets[0].ClusterSelector})
		if err != nil {
			t.Fatalf("bundle %s: %v", bundle.Name, err)
		}
		if !matcher.Match(&fleet.Cluster{}, nil) {
			t.Errorf("bundle %s does not match every cluster", bundle.Name)
		}
	}
}
