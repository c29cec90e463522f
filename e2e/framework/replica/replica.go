// Package replica runs the controllers as processes of their own, for tests which end, kill and freeze them.
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

// program is the name under which the test binary plays fleetcontroller.
const program = "fleetcontroller"

// Play is what cmd/controller does, in a process that Start has started; elsewhere nothing. A TestMain begins with it,
// and exits with the code if it was played.
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

// Options say what a replica is.
type Options struct {
	// Name is what it calls itself in leases. In a Folder, no other replica has it.
	Name string
	// Folder is where its log is written, as <Name>.log with - for each slash. It has to be there.
	Folder string
	// Kubeconfig is a file: how it reaches the hub.
	Kubeconfig string
	// Args are those of fleetcontroller.
	Args []string
	// Env are more variables, NAME=value. It has none of the test's.
	Env []string
	// Election are its times; LongLeases if they are empty.
	Election Election
}

// Election are the times of a leader election.
type Election struct{ LeaseDuration, RenewDeadline, RetryPeriod time.Duration }

// LongLeases are never lost by a replica that lives, however busy the machine is.
func LongLeases() Election {
	return Election{LeaseDuration: 5 * time.Minute, RenewDeadline: 4 * time.Minute, RetryPeriod: 2 * time.Second}
}

// Replica is one process of the controllers. It ends with the test's process, at the latest.
type Replica struct {
	// Name is that of its Options.
	Name string

	cmd   *exec.Cmd
	log   string // its file
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
	defer log.Close() // the process has it, too
	r.cmd.Env, r.cmd.Stderr, r.cmd.SysProcAttr = o.environment(), log, supervise.Tied()
	if err := r.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = r.cmd.Wait() // how it ended is in its state
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

// ExitCode is that of a process that has ended, -1 if a signal ended it.
func (r *Replica) ExitCode() int { return r.cmd.ProcessState.ExitCode() }

// Log is what it has logged so far.
func (r *Replica) Log() string {
	text, err := os.ReadFile(r.log)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// Stop asks the process to end.
func (r *Replica) Stop() {
	_ = r.cmd.Process.Signal(syscall.SIGTERM) // one that has ended already is what was wanted
}

// Kill ends the process as kill -9 does, and returns when it has ended.
func (r *Replica) Kill() {
	_ = r.cmd.Process.Kill() // one that has ended already is what was wanted
	<-r.ended
}

// Freeze stops the process where it is, and returns when it does nothing any more. It works on Linux.
func (r *Replica) Freeze() error {
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

// Thaw lets a frozen process go on.
func (r *Replica) Thaw() error { return r.cmd.Process.Signal(syscall.SIGCONT) }
