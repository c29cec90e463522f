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

// offLab is a lab whose nodes are off, and the client of the one who answers for it.
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

func TestStatus(t *testing.T) {
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

func TestWhatCannotBeDoneIsTold(t *testing.T) {
	client := offLab(t)
	tests := map[string]struct {
		do   func(context.Context) (Status, error)
		want string
	}{
		"restarting no node":   {func(ctx context.Context) (Status, error) { return client.Restart(ctx, "west") }, `the lab has no node "west"`},
		"importing to no node": {func(ctx context.Context) (Status, error) { return client.Import(ctx, "west", "x.tar") }, `the lab has no node "west"`},
		"importing to one off": {func(ctx context.Context) (Status, error) { return client.Import(ctx, "hub", "x y.tar") }, "hub is off"},
		"cutting off no node":  {func(ctx context.Context) (Status, error) { return client.Cut(ctx, "hub", "west") }, `the lab has no node "west"`},
		"cutting from no node": {func(ctx context.Context) (Status, error) { return client.Cut(ctx, "west", "hub") }, `the lab has no node "west"`},
		"healing what is off":  {func(ctx context.Context) (Status, error) { return client.Heal(ctx, "hub", "east") }, "hub is off"},
		"something not offered": {func(ctx context.Context) (Status, error) {
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

func TestNoLab(t *testing.T) {
	dead := t.TempDir()
	listener, err := net.Listen("unix", socketIn(dead))
	if err != nil {
		t.Fatal(err)
	}
	unix, ok := listener.(*net.UnixListener)
	if !ok {
		t.Fatal("no Unix socket")
	}
	unix.SetUnlinkOnClose(false) // as who is killed leaves it
	if err := unix.Close(); err != nil {
		t.Fatal(err)
	}
	for name, dir := range map[string]string{"no folder": filepath.Join(dead, "none"), "a dead socket": dead} {
		if err := Of(dir).Down(t.Context()); !errors.Is(err, ErrNone) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
