//go:build linux

package inside

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
)

// reaper starts processes and waits for every process that ends, also for orphans: the first process of a PID
// namespace has to. os/exec cannot be used here, because it would wait for the same processes.
type reaper struct {
	mu       sync.Mutex
	children map[int]*child
}

// child is a process that the reaper has started.
type child struct {
	name string
	pid  int
	done chan struct{}
	// status must be read only after done is closed.
	status syscall.WaitStatus
}

func newReaper() *reaper {
	r := &reaper{children: map[int]*child{}}
	signals := make(chan os.Signal, 1) // a buffer of one suffices: each signal reaps all ended processes
	signal.Notify(signals, syscall.SIGCHLD)
	go func() {
		for range signals {
			r.reap()
		}
	}()
	return r
}

func (r *reaper) reap() {
	for {
		var status syscall.WaitStatus
		// start holds the lock until the child is registered. A child may end before that.
		r.mu.Lock()
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		ended := r.children[pid]
		delete(r.children, pid)
		r.mu.Unlock()
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil || pid <= 0:
			return // no other process has ended
		case ended != nil:
			ended.status = status
			close(ended.done)
		}
	}
}

// program describes a program to start.
type program struct {
	name string // used in messages
	path string
	args []string
	env  []string
	log  string
}

// start starts a program and appends its output to its log.
func (r *reaper) start(p program) (*child, error) {
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening the log of %s: %w", p.name, err)
	}
	defer func() { _ = log.Close() }() // the child has its own copy of the descriptor
	nothing, err := os.Open(os.DevNull)
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", p.name, err)
	}
	defer func() { _ = nothing.Close() }() // see above
	r.mu.Lock()
	defer r.mu.Unlock()
	pid, err := syscall.ForkExec(p.path, append([]string{p.path}, p.args...), &syscall.ProcAttr{
		Env: p.env, Files: []uintptr{nothing.Fd(), log.Fd(), log.Fd()},
	})
	if err != nil {
		return nil, fmt.Errorf("starting %s (%s): %w", p.name, p.path, err)
	}
	c := &child{name: p.name, pid: pid, done: make(chan struct{})}
	r.children[pid] = c
	return c, nil
}

// run runs a command and returns an error unless it succeeds.
func (r *reaper) run(ctx context.Context, log string, env []string, command ...string) error {
	path, err := exec.LookPath(command[0])
	if err != nil {
		return fmt.Errorf("finding %s: %w", command[0], err)
	}
	c, err := r.start(program{name: command[0], path: path, args: command[1:], env: env, log: log})
	if err != nil {
		return err
	}
	select {
	case <-c.done:
	case <-ctx.Done():
		_ = syscall.Kill(c.pid, syscall.SIGKILL) // fails only if the process has ended
		return fmt.Errorf("%s: %w", strings.Join(command, " "), context.Cause(ctx))
	}
	if c.status.ExitStatus() != 0 {
		return fmt.Errorf("%s: %s: see %s", strings.Join(command, " "), describe(c.status), log)
	}
	return nil
}

// describe returns the cause of a process' end: a signal or an exit status.
func describe(status syscall.WaitStatus) string {
	if status.Signaled() {
		return "signal: " + status.Signal().String()
	}
	return fmt.Sprintf("exit status %d", status.ExitStatus())
}
