//go:build linux

package inside

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fleet-hub/fleet/e2e/framework/golden"
)

// west returns the spec of a node as the lab writes it.
func west(dir string) Spec {
	return Spec{
		Name: "west", Address: "10.99.0.4/24", Gateway: "10.99.0.1", Dir: dir, LogDir: filepath.Join(dir, "logs"),
		Programs: "/cache/kube", Plugins: "/usr/lib/cni", CgroupRoot: "/fleet-lab0-west", Snapshotter: "overlayfs",
		Pause: "docker.io/fleethub/pause:lab", Archives: []string{"/data/pause.tar"},
	}
}

func TestLoad_ReturnsTheSavedSpec(t *testing.T) {
	spec := west(t.TempDir())
	file, err := spec.Save()
	if err != nil {
		t.Fatal(err)
	}
	got, err := Load(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(spec, got); diff != "" {
		t.Errorf("spec (-written +read):\n%s", diff)
	}
	for name, content := range map[string]string{"no file": "", "no JSON": "{"} {
		bad := filepath.Join(t.TempDir(), fileSpec)
		if content != "" {
			if err := os.WriteFile(bad, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := Load(bad); err == nil {
			t.Errorf("%s: want an error", name)
		}
	}
	if _, err := west("/no/such/folder").Save(); err == nil {
		t.Error("saving to a missing directory: want an error")
	}
}

func TestComponents_RunWithTheNodesFiles(t *testing.T) {
	spec := west("/data/west")
	var text strings.Builder
	for _, p := range []program{spec.etcd(), spec.apiServer(), spec.controllerManager(), spec.scheduler(), spec.nodeAgent(), spec.proxy()} {
		fmt.Fprintf(&text, "%s > %s\n  %s\n", p.path, p.log, strings.Join(p.args, "\n  "))
	}
	fmt.Fprintf(&text, "environment\n  %s\n", strings.Join(spec.env(), "\n  "))
	golden.Expect(t, "components.golden", text.String())
}

func TestConfiguration(t *testing.T) {
	dir := t.TempDir()
	if err := west(dir).configure(); err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, file := range []string{fileContainerd, fileKubelet, fileResolv, filepath.Join(dirNetworks, "10-pods.conflist")} {
		content, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&text, "# %s\n%s\n", file, strings.ReplaceAll(string(content), dir, "/data/west"))
	}
	golden.Expect(t, "configuration.golden", text.String())
	if err := west("/proc/no/such/folder").configure(); err == nil {
		t.Error("configuring in a missing directory: want an error")
	}
}

func TestMainOutsideAPIDNamespace_Fails(t *testing.T) {
	err := Main(west(t.TempDir()), slog.New(slog.DiscardHandler))
	if err == nil || !strings.Contains(err.Error(), "first process") {
		t.Errorf("got %v", err)
	}
}

// TestReaper runs all cases in one process and starts no other child: the reaper waits for all children of the
// process.
func TestReaper(t *testing.T) {
	r, dir := newReaper(), t.TempDir()
	log := filepath.Join(dir, "log")
	tests := map[string]struct {
		command []string
		want    string // substring of the error; empty if none
	}{
		"command succeeds: no error":                     {[]string{"sh", "-c", "echo said"}, ""},
		"command fails: error names exit status and log": {[]string{"sh", "-c", "exit 3"}, "sh -c exit 3: exit status 3: see " + log},
		"command is killed: error names the signal":      {[]string{"sh", "-c", "kill -KILL $$"}, "signal: killed"},
		"command does not exist: error names it":         {[]string{"no-such-command"}, "finding no-such-command"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			err := r.run(t.Context(), log, []string{"PATH=/usr/bin:/bin"}, test.command...)
			if (err == nil) != (test.want == "") || (err != nil && !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
	if said, err := os.ReadFile(log); err != nil || string(said) != "said\n" {
		t.Errorf("the log says %q, %v", said, err)
	}
	t.Run("command exceeds its timeout: it is killed", func(t *testing.T) {
		late := errors.New("too late")
		ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, late)
		defer cancel()
		if err := r.run(ctx, log, nil, "sleep", "1000"); !errors.Is(err, late) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("component ends: await fails", func(t *testing.T) {
		n := &node{Spec: west(dir), reaper: r, ended: make(chan *child, 1)}
		if err := n.launch(program{name: "etcd", path: "/bin/false", log: log}); err != nil {
			t.Fatal(err)
		}
		err := n.await(t.Context(), func(context.Context) error { return errors.New("not yet") })
		if err == nil || err.Error() != "etcd ended: exit status 1" {
			t.Errorf("got %v", err)
		}
	})
	t.Run("program does not exist: start fails", func(t *testing.T) {
		if _, err := r.start(program{name: "none", path: "/no/such/program", log: log}); !errors.Is(err, syscall.ENOENT) {
			t.Errorf("got %v", err)
		}
		if _, err := r.start(program{name: "none", path: "/bin/true", log: "/no/such/folder/log"}); err == nil {
			t.Error("starting without a log: want an error")
		}
	})
}

func TestAwait(t *testing.T) {
	n := &node{ended: make(chan *child, 1)}
	asked := 0
	if err := n.await(t.Context(), func(context.Context) error {
		if asked++; asked < 3 {
			return errors.New("not yet")
		}
		return nil
	}); err != nil || asked != 3 {
		t.Errorf("asked %d times, %v", asked, err)
	}
	cause, why := errors.New("not in time"), errors.New("no answer")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	if err := n.await(ctx, func(context.Context) error { return why }); !errors.Is(err, cause) || !errors.Is(err, why) {
		t.Errorf("got %v", err)
	}
}

func TestAnswers(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "socket")
	if err := answers(t.Context(), socket); err == nil {
		t.Error("nothing listens, want an error")
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	if err := answers(t.Context(), socket); err != nil {
		t.Error(err)
	}
}

func TestImported_IsKeptPerArchive(t *testing.T) {
	n := &node{Spec: west(t.TempDir())}
	if n.has("/images/fleet.tar") {
		t.Error("want not imported before the first import")
	}
	if err := os.WriteFile(n.imported("/images/fleet.tar"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if !n.has("/images/fleet.tar") || n.has("/images/fleet-agent.tar") {
		t.Error("want only fleet.tar to be imported")
	}
}

func TestKeptName_OmitsThePodUID(t *testing.T) {
	for log, want := range map[string]string{
		"/logs/var/pods/cattle-fleet-system_fleet-agent-abc_1234-5678/fleet-agent/0.log": "cattle-fleet-system_fleet-agent-abc_fleet-agent_0.log",
		"/logs/var/pods/odd/container/12.log":                                            "odd_container_12.log",
	} {
		if got := keptName(log); got != want {
			t.Errorf("keptName(%s) is %s, want %s", log, got, want)
		}
	}
}

func TestDescribe(t *testing.T) {
	for status, want := range map[syscall.WaitStatus]string{0: "exit status 0", 2 << 8: "exit status 2", 9: "signal: killed"} {
		if got := describe(status); got != want {
			t.Errorf("%#x is %q, want %q", status, got, want)
		}
	}
}
