package kill_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"

	"github.com/fleet-hub/fleet/internal/cmd/controller"
	"github.com/fleet-hub/fleet/internal/cmd/env"
	"github.com/fleet-hub/fleet/internal/names"
)

// program is the name under which the test binary plays fleetcontroller.
const program = "fleetcontroller"

// beController is what cmd/controller does.
func beController() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := controller.New(env.OS, os.Stderr).ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "fleetcontroller:", err)
		return 1
	}
	return 0
}

// replica is one process of the controllers.
type replica struct {
	name string
	cmd  *exec.Cmd
	log  *lines
	// done is closed when it has ended.
	done chan struct{}
}

// election are the times of one, as variables of the environment.
type election []string

// longLeases are never lost, however busy the machine is; shortLeases can be waited for until they end.
func longLeases() election {
	return election{"CATTLE_ELECTION_LEASE_DURATION=5m", "CATTLE_ELECTION_RENEW_DEADLINE=4m", "CATTLE_ELECTION_RETRY_PERIOD=2s"}
}

func shortLeases() election {
	return election{"CATTLE_ELECTION_LEASE_DURATION=2s", "CATTLE_ELECTION_RENEW_DEADLINE=1500ms", "CATTLE_ELECTION_RETRY_PERIOD=300ms"}
}

// startReplica starts a process with this kubeconfig. Its name is what it calls itself in leases.
func startReplica(folder, name, kubeconfig string, times election) (*replica, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	link := filepath.Join(folder, program)
	if err := os.Symlink(self, link); err != nil && !os.IsExist(err) {
		return nil, err
	}
	r := &replica{name: name, cmd: exec.Command(link, "--disable-bootstrap"), log: &lines{}, done: make(chan struct{})}
	r.cmd.Env = append(times,
		"KUBECONFIG="+kubeconfig, "NAMESPACE="+names.SystemNamespace, "POD_NAME="+name,
		"HTTP2_READ_IDLE_TIMEOUT_SECONDS=2", "HTTP2_PING_TIMEOUT_SECONDS=1", // so that a dead connection is soon noticed
		"FLEET_HEALTHPROBE_BIND_ADDRESS=127.0.0.1:0", "FLEET_METRICS_BIND_ADDRESS=127.0.0.1:0",
	)
	r.cmd.Stderr = r.log
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := r.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = r.cmd.Wait() // how it ended is in its state
		close(r.done)
	}()
	return r, nil
}

// kill ends the process as kill -9 does, and returns when it has ended.
func (r *replica) kill() {
	_ = r.cmd.Process.Kill() // one that has ended already is what was wanted
	<-r.done
}

// freeze stops the process where it is, and returns when it does nothing any more.
func (r *replica) freeze() error {
	if err := r.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	for {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", r.cmd.Process.Pid))
		if err != nil {
			return err
		}
		// After the command in brackets: T is stopped.
		if _, state, _ := strings.Cut(string(stat), ") "); strings.HasPrefix(state, "T") {
			return nil
		}
		runtime.Gosched()
	}
}

// thaw lets a frozen process go on.
func (r *replica) thaw() error { return r.cmd.Process.Signal(syscall.SIGCONT) }

// lines is a buffer for two goroutines.
type lines struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buffer.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buffer.String()
}
