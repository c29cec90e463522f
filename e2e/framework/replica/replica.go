// Package replica runs the controllers as separate processes, for tests that stop, kill and freeze them.
//
//	TestMain: Play ◄─ the test binary, called fleetcontroller ◄─ Start ─► Kill, Stop, Freeze, Thaw; Log
//
// It is for tests only.
package replica

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/fleet-hub/fleet/dev/plane/supervise"
	"github.com/fleet-hub/fleet/internal/cmd/controller"
	"github.com/fleet-hub/fleet/internal/cmd/env"
	"github.com/fleet-hub/fleet/internal/protocol/names"
)

// program is the name under which the test binary runs as fleetcontroller.
const program = "fleetcontroller"

// Play runs cmd/controller if this process was started by Start, and returns its exit code. Otherwise played is
// false. TestMain calls it first.
func Play() (code int, played bool) {
	if filepath.Base(os.Args[0]) != program {
		return 0, false
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := controller.New(env.OS, os.Stderr).ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, program+":", err)
		return 1, true
	}
	return 0, true
}

// Options configures a replica.
type Options struct {
	// Name is the replica's name in leases. It must be unique in Folder.
	Name string
	// Folder is the directory of the log <Name>.log, in which slashes of the name become hyphens. It has to
	// exist.
	Folder string
	// Kubeconfig is the path of a kubeconfig for the hub.
	Kubeconfig string
	// Args are the arguments of fleetcontroller.
	Args []string
	// Env holds additional variables as NAME=value. The test's environment is not inherited.
	Env []string
	// Election holds the times of the leader election. The default is LongLeases.
	Election Election
}

// Election holds the times of a leader election.
type Election struct{ LeaseDuration, RenewDeadline, RetryPeriod time.Duration }

// LongLeases returns times with which a living replica keeps its leases, even on a busy machine.
func LongLeases() Election {
	return Election{LeaseDuration: 5 * time.Minute, RenewDeadline: 4 * time.Minute, RetryPeriod: 2 * time.Second}
}

// Replica is a process of the controllers. It ends at the latest with the test's process.
type Replica struct {
	// Name is the name from Options.
	Name string

	cmd   *exec.Cmd
	log   string // path of the log file
	ended chan struct{}
}

// Start starts a process.
func Start(o Options) (*Replica, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	link := filepath.Join(o.Folder, program)
	if err := os.Symlink(self, link); err != nil && !os.IsExist(err) {
		return nil, err
	}
	file := strings.ReplaceAll(o.Name, "/", "-") + ".log"
	r := &Replica{Name: o.Name, cmd: exec.Command(link, o.Args...), log: filepath.Join(o.Folder, file), ended: make(chan struct{})}
	log, err := os.Create(r.log)
	if err != nil {
		return nil, err
	}
	defer log.Close() // the process has its own copy
	r.cmd.Env, r.cmd.Stderr, r.cmd.SysProcAttr = o.environment(), log, supervise.Tied()
	if err := r.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = r.cmd.Wait() // the process state contains the result
		close(r.ended)
	}()
	return r, nil
}

func (o Options) environment() []string {
	times := o.Election
	if times == (Election{}) {
		times = LongLeases()
	}
	return append([]string{
		"KUBECONFIG=" + o.Kubeconfig, "NAMESPACE=" + names.SystemNamespace, "POD_NAME=" + o.Name,
		"CATTLE_ELECTION_LEASE_DURATION=" + times.LeaseDuration.String(),
		"CATTLE_ELECTION_RENEW_DEADLINE=" + times.RenewDeadline.String(),
		"CATTLE_ELECTION_RETRY_PERIOD=" + times.RetryPeriod.String(),
		"FLEET_HEALTHPROBE_BIND_ADDRESS=127.0.0.1:0", "FLEET_METRICS_BIND_ADDRESS=127.0.0.1:0",
	}, o.Env...)
}

// Ended is closed when the process has ended.
func (r *Replica) Ended() <-chan struct{} { return r.ended }

// ExitCode returns the exit code of an ended process, or -1 if a signal ended it.
func (r *Replica) ExitCode() int { return r.cmd.ProcessState.ExitCode() }

// Log returns what the process has logged so far.
func (r *Replica) Log() string {
	text, err := os.ReadFile(r.log)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// Stop sends SIGTERM to the process.
func (r *Replica) Stop() {
	_ = r.cmd.Process.Signal(syscall.SIGTERM) // it may have ended already
}

// Kill sends SIGKILL to the process and returns when it has ended.
func (r *Replica) Kill() {
	_ = r.cmd.Process.Kill() // it may have ended already
	<-r.ended
}

// Freeze stops the process with SIGSTOP and returns when it has stopped. It requires Linux.
func (r *Replica) Freeze() error {
	if err := r.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	for {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", r.cmd.Process.Pid))
		if err != nil {
			return err
		}
		// The state follows the command in parentheses. T means stopped.
		if _, state, _ := strings.Cut(string(stat), ") "); strings.HasPrefix(state, "T") {
			return nil
		}
		runtime.Gosched()
	}
}

// Thaw continues a frozen process.
func (r *Replica) Thaw() error { return r.cmd.Process.Signal(syscall.SIGCONT) }
