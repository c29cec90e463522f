//go:build linux

package control

import (
	"context"
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fleet-hub/fleet/dev/lab/nodes"
)

// offLab returns a client of a server for a lab whose nodes are off.
func offLab(t *testing.T) Client {
	t.Helper()
	dir := t.TempDir()
	lab := &nodes.Lab{LogDir: "/logs", Nodes: []*nodes.Node{
		{Name: "hub", URL: "https://10.99.0.2:6443", KubeconfigPath: "/data/hub/kubeconfig", LogDir: "/logs/hub"}, {Name: "east"},
	}}
	listener, err := net.Listen("unix", socketIn(dir))
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: (&Server{Lab: lab, Seconds: 5}).handler(make(chan struct{}, 1))}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return Of(dir)
}

func TestStatus_DescribesTheLab(t *testing.T) {
	got, err := offLab(t).Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := Status{Logs: "/logs", Seconds: 5, Nodes: []NodeStatus{
		{Name: "hub", URL: "https://10.99.0.2:6443", Kubeconfig: "/data/hub/kubeconfig", Logs: "/logs/hub"}, {Name: "east"},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
}

func TestImpossibleRequest_ReturnsTheCause(t *testing.T) {
	client := offLab(t)
	tests := map[string]struct {
		do   func(context.Context) (Status, error)
		want string
	}{
		"restart of an unknown node":   {func(ctx context.Context) (Status, error) { return client.Restart(ctx, "west") }, `the lab has no node "west"`},
		"import on an unknown node":    {func(ctx context.Context) (Status, error) { return client.Import(ctx, "west", "x.tar") }, `the lab has no node "west"`},
		"import on a node that is off": {func(ctx context.Context) (Status, error) { return client.Import(ctx, "hub", "x y.tar") }, "hub is off"},
		"cut from an unknown node":     {func(ctx context.Context) (Status, error) { return client.Cut(ctx, "hub", "west") }, `the lab has no node "west"`},
		"cut of an unknown node":       {func(ctx context.Context) (Status, error) { return client.Cut(ctx, "west", "hub") }, `the lab has no node "west"`},
		"heal of a node that is off":   {func(ctx context.Context) (Status, error) { return client.Heal(ctx, "hub", "east") }, "hub is off"},
		"unknown action": {func(ctx context.Context) (Status, error) {
			return client.ask(ctx, http.MethodPost, "nodes", "hub", "paint")
		}, "404"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if _, err := test.do(t.Context()); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}

func TestNoLab_ReturnsErrNone(t *testing.T) {
	stale := t.TempDir()
	listener, err := net.Listen("unix", socketIn(stale))
	if err != nil {
		t.Fatal(err)
	}
	unix, ok := listener.(*net.UnixListener)
	if !ok {
		t.Fatal("no Unix socket")
	}
	unix.SetUnlinkOnClose(false) // a killed server leaves its socket file
	if err := unix.Close(); err != nil {
		t.Fatal(err)
	}
	for name, dir := range map[string]string{"no directory": filepath.Join(stale, "none"), "stale socket": stale} {
		if err := Of(dir).Down(t.Context()); !errors.Is(err, ErrNone) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
