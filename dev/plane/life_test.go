package plane

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fleet-hub/fleet/e2e/framework/await"
)

// goodbye is the time within which nothing may be left of a caller that was killed.
const goodbye = time.Minute

// caller is another process that started a plane.
type caller struct {
	cmd        *exec.Cmd
	supervisor int
	data       string
	tmp, logs  string
}

// startCaller returns when the caller says that it is as far as given.
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

// left is what there is still of the plane: nil, or what.
func (c caller) left() error {
	if _, err := os.Stat(c.data); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the data folder %s: %s", c.data, fmt.Sprint(err))
	}
	// The supervisor leads a group of its own, with all it started in it.
	if err := syscall.Kill(-c.supervisor, 0); !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("processes of group %d: %s", c.supervisor, fmt.Sprint(err))
	}
	return nil
}

func TestNothingIsLeftOfACallerThatEnds(t *testing.T) {
	tests := map[string]struct {
		far    string
		signal syscall.Signal
		logs   []string
	}{
		"killed, as by kill -9":               {ready, syscall.SIGKILL, []string{"default_agent.log", "kube-apiserver.log", "kube-controller-manager.log"}},
		"killed half-way":                     {halfWay, syscall.SIGKILL, nil},
		"interrupted, as by Ctrl-C, half-way": {halfWay, syscall.SIGINT, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if signal.Ignored(test.signal) {
				t.Skip("whoever has started this test has it ignore the signal, and so does the caller")
			}
			c := startCaller(t, test.far)
			if err := c.left(); err == nil {
				t.Fatal("nothing there in the first place")
			}
			if err := c.cmd.Process.Signal(test.signal); err != nil {
				t.Fatal(err)
			}
			_ = c.cmd.Wait() // its state is the signal
			within(t, goodbye, c.left)
			if got := names(t, c.tmp); len(got) != 0 {
				t.Errorf("left in the temporary folder: %q", got)
			}
			logs := names(t, filepath.Join(c.logs, HubName))
			if test.logs != nil && !slices.Equal(test.logs, logs) || !slices.Contains(logs, "kube-apiserver.log") {
				t.Errorf("logs %q", logs)
			}
		})
	}
}

// within asks until check says nil, for as long as given.
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

func TestNothingIsLeftAfterStop(t *testing.T) {
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
	cancel() // the end of the context of the start is not the plane's
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
		t.Errorf("left in the temporary folder: %q", got)
	}
	if diff := cmp.Diff([]string{"etcd.log", HubName, "supervisor.log"}, names(t, logs)); diff != "" {
		t.Errorf("logs (-want +got):\n%s", diff)
	}
	if err := p.Hub.Resume(t.Context()); err == nil {
		t.Error("a stopped plane's cluster was resumed")
	}
}

func TestAKilledSupervisorTakesAllWithIt(t *testing.T) {
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

func TestAStartThatFails(t *testing.T) {
	never := errors.New("this hook never likes it")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	tests := map[string]struct {
		ctx     context.Context //nolint:containedctx // an argument of the case
		options Options
		is      error
		says    []string
		silent  bool // nothing was started yet, so there are no logs to name
	}{
		"an API server that ends is named, with its last words": {
			options: Options{APIServerArgs: func(string) []string { return []string{"--no-such-flag"} }},
			says:    []string{"hub: kube-apiserver ended (exit status 1)", "unknown flag: --no-such-flag"},
		},
		"a hook's error says for which cluster": {
			options: Options{BeforeControllers: func(context.Context, *Cluster) error { return never }},
			is:      never,
			says:    []string{"hub: before its controllers start: this hook never likes it"},
		},
		"a context that has ended": {ctx: ended, is: context.Canceled, silent: true},
		"a downstream called like the hub": {
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
				t.Fatal("it started")
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
				t.Errorf("left in the temporary folder: %q", got)
			}
		})
	}
}
