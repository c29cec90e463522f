//go:build linux

package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fleet-hub/fleet/dev/lab/control"
)

func TestNoLab_EveryCommandNamesTheStartCommand(t *testing.T) {
	for _, command := range []string{"status", "kubeconfig hub", "import x.tar", "import x.tar hub", "restart hub", "cut hub east", "heal hub east"} {
		err := run(t, nil, append(strings.Fields(command), "--dir", t.TempDir())...)
		if !errors.Is(err, control.ErrNone) {
			t.Errorf("lab %s: %v", command, err)
		}
	}
}

func TestWrongArguments_AreRejected(t *testing.T) {
	for args, want := range map[string]string{
		"up":                   "requires at least 1 arg",
		"kubeconfig":           "accepts 1 arg",
		"cut hub":              "accepts 2 arg",
		"status --output yaml": `unknown --output "yaml": use table or json`,
		"paint":                "unknown command",
	} {
		if err := run(t, nil, strings.Fields(args)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("lab %s: %v, want %s", args, err, want)
		}
	}
}

func TestPrint(t *testing.T) {
	status := control.Status{Logs: "/logs", Seconds: 5, Nodes: []control.NodeStatus{
		{Name: "hub", Up: true, URL: "https://10.99.0.2:6443", Kubeconfig: "/data/hub/kubeconfig", Logs: "/logs/hub"},
		{Name: "east", URL: "https://10.99.0.3:6443", Kubeconfig: "/data/east/kubeconfig", Logs: "/logs/east"},
	}}
	for output, want := range map[string]string{
		"table": "NODE  STATE  API SERVER              KUBECONFIG\n" +
			"hub   up     https://10.99.0.2:6443  /data/hub/kubeconfig\n" +
			"east  off    https://10.99.0.3:6443  /data/east/kubeconfig\n",
		"json": `{
  "logs": "/logs",
  "secondsToStart": 5,
  "nodes": [
    {
      "name": "hub",
      "up": true,
      "url": "https://10.99.0.2:6443",
      "kubeconfig": "/data/hub/kubeconfig",
      "logs": "/logs/hub"
    },
    {
      "name": "east",
      "up": false,
      "url": "https://10.99.0.3:6443",
      "kubeconfig": "/data/east/kubeconfig",
      "logs": "/logs/east"
    }
  ]
}
`,
	} {
		var out bytes.Buffer
		if err := (&tool{output: output, out: &out}).print(status); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, out.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", output, diff)
		}
	}
}

func run(t *testing.T, out *bytes.Buffer, args ...string) error {
	t.Helper()
	if out == nil {
		out = &bytes.Buffer{}
	}
	root := command(out, out)
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(out)
	return root.ExecuteContext(t.Context())
}
