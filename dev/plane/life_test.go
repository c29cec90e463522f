package plane

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/e2e/framework/await"
)

// goodbye limits the time until everything of a killed caller is removed.
const goodbye = time.Minute

// caller is another process that has started a plane.
type caller struct {
	cmd        *exec.Cmd
	supervisor int
	data       string
	tmp, logs  string
}

// startCaller returns when the caller reports that it has reached the stage far.
func startCaller(t *testing.T, far string) caller {
	t.Helper()
	c := caller{tmp: t.TempDir(), logs: t.TempDir()}
	c.cmd = exec.Command(callMe(t.TempDir(), fakeCaller), c.logs)
	c.cmd.Env = append(os.Environ(), "TMPDIR="+c.tmp)
	var said strings.Builder
	c.cmd.Stderr = &said
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.cmd.Process.Kill() // it may have ended
		_ = c.cmd.Wait()
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		switch what, value, _ := strings.Cut(lines.Text(), " "); what {
		case "data":
			c.data = value
		case "supervisor":
			_, err := fmt.Sscan(value, &c.supervisor)
			if err != nil {
				t.Fatal(err)
			}
		case far:
			return c
		}
	}
	t.Fatalf("the caller ended early: %v\n%s", lines.Err(), &said)
	return c
}

// left returns an error that names what still exists of the plane.
func (c caller) left() error {
	if _, err := os.Stat(c.data); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the data directory %s exists: %s", c.data, fmt.Sprint(err))
	}
	// The supervisor leads a process group with all processes it has started.
	if err := syscall.Kill(-c.supervisor, 0); !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("processes of group %d exist: %s", c.supervisor, fmt.Sprint(err))
	}
	return nil
}

func TestCallerEnds_NothingOfThePlaneIsLeft(t *testing.T) {
	tests := map[string]struct {
		far  string
		logs []string
	}{
		"killed":                  {ready, []string{"default_agent.log", "kube-apiserver.log", "kube-controller-manager.log"}},
		"killed during the start": {halfWay, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := startCaller(t, test.far)
			if err := c.left(); err == nil {
				t.Fatal("want the plane to exist before the caller ends")
			}
			if err := c.cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = c.cmd.Wait() // the process state contains the signal
			within(t, goodbye, c.left)
			if got := names(t, c.tmp); len(got) != 0 {
				t.Errorf("left in the temporary directory: %q", got)
			}
			logs := names(t, filepath.Join(c.logs, HubName))
			if test.logs != nil && !slices.Equal(test.logs, logs) || !slices.Contains(logs, "kube-apiserver.log") {
				t.Errorf("logs %q", logs)
			}
		})
	}
}

// within calls check until it returns nil, or fails the test after the limit.
func within(t *testing.T, limit time.Duration, check func() error) {
	t.Helper()
	await.Until(t, "waiting", limit, func(context.Context) error { return check() })
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, entry := range entries {
		all = append(all, entry.Name())
	}
	slices.Sort(all)
	return all
}

func TestStop_LeavesOnlyTheLogs(t *testing.T) {
	tmp, logs := t.TempDir(), t.TempDir()
	t.Setenv("TMPDIR", tmp)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	p, err := Start(ctx, Options{LogDir: logs, Binaries: map[string]string{fakeAgent: callMe(t.TempDir(), fakeAgent)}})
	if err != nil {
		t.Fatal(err)
	}
	c := caller{data: p.dataDir, supervisor: p.supervisor.PID()}
	if err := runAgentPod(ctx, p.Hub); err != nil {
		t.Fatal(err)
	}
	cancel() // the plane does not depend on the context of its start
	if _, err := clientFor(t, p.Hub).Discovery().ServerVersion(); err != nil {
		t.Errorf("after the end of the context: %v", err)
	}
	for range 2 {
		if err := p.Stop(); err != nil {
			t.Fatal(err)
		}
		if err := c.left(); err != nil {
			t.Errorf("left after Stop: %v", err)
		}
	}
	if err := p.RemoveLogs(); err != nil {
		t.Fatal(err)
	}
	if got := names(t, tmp); len(got) != 0 {
		t.Errorf("left in the temporary directory: %q", got)
	}
	if diff := cmp.Diff([]string{"etcd.log", HubName, "supervisor.log"}, names(t, logs)); diff != "" {
		t.Errorf("logs (-want +got):\n%s", diff)
	}
	if err := p.Hub.Resume(t.Context()); err == nil {
		t.Error("resuming a cluster of a stopped plane: want an error")
	}
}

func TestLaterCluster_StartsAndEndsAloneAndKeepsItsData(t *testing.T) {
	p := control.Plane(t)
	c := p.Cluster("later")
	client := clientFor(t, c)
	expectEnded := func() {
		t.Helper()
		if _, err := client.Discovery().ServerVersion(); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("reading from the cluster: %v", err)
		}
		if pids, err := p.PodPIDs("later", metav1.NamespaceDefault, "agent"); err != nil || len(pids) > 0 {
			t.Errorf("processes %v, %v", pids, err)
		}
	}
	if _, err := client.Discovery().ServerVersion(); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("before the start: %v", err)
	}
	for start := range 2 {
		if err := c.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		pods, err := client.CoreV1().Pods(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{})
		if err != nil || len(pods.Items) != start {
			t.Fatalf("start %d: %d pods, %v", start, len(pods.Items), err)
		}
		if err := runAgentPod(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		if err := c.End(); err != nil {
			t.Fatal(err)
		}
		expectEnded()
	}
}

func TestKilledSupervisor_EndsThePlane(t *testing.T) {
	p, err := Start(t.Context(), Options{LogDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	c := caller{data: p.dataDir, supervisor: p.supervisor.PID()}
	if err := syscall.Kill(c.supervisor, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}
	within(t, goodbye, c.left)
}

func TestFailedStart_NamesTheCauseAndTheLogs(t *testing.T) {
	never := errors.New("the hook failed")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	tests := map[string]struct {
		ctx     context.Context //nolint:containedctx // an argument of the case
		options Options
		is      error
		says    []string
		silent  bool // nothing was started, so there are no logs to name
	}{
		"API server ends: error quotes its log": {
			options: Options{APIServerArgs: func(string) []string { return []string{"--no-such-flag"} }},
			says:    []string{"hub: kube-apiserver ended (exit status 1)", "unknown flag: --no-such-flag"},
		},
		"hook fails: error names the cluster": {
			options: Options{BeforeControllers: func(context.Context, *Cluster) error { return never }},
			is:      never,
			says:    []string{"running the BeforeControllers hook of hub: the hook failed"},
		},
		"context has ended: nothing is started": {ctx: ended, is: context.Canceled, silent: true},
		"downstream has the hub's name: nothing is started": {
			options: Options{Downstreams: []string{HubName}}, is: ErrOptions, silent: true,
			says: []string{`downstream "hub" has the hub's name`},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			tmp := t.TempDir()
			t.Setenv("TMPDIR", tmp)
			test.options.LogDir = t.TempDir()
			if test.ctx == nil {
				test.ctx = t.Context()
			}
			p, err := Start(test.ctx, test.options)
			if err == nil {
				_ = p.Stop()
				t.Fatal("want an error, but the plane started")
			}
			if test.is != nil && !errors.Is(err, test.is) {
				t.Errorf("error is not %v: %v", test.is, err)
			}
			says := test.says
			if !test.silent {
				says = append(says, "logs: "+test.options.LogDir)
			}
			for _, part := range says {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error lacks %q:\n%v", part, err)
				}
			}
			if got := names(t, tmp); len(got) != 0 {
				t.Errorf("left in the temporary directory: %q", got)
			}
		})
	}
}
