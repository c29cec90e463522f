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

// reaper starts processes and buries all that end, its own and those whose parents are gone: the first process of
// a PID namespace has to. That is why nothing here uses os/exec to start anything: it would wait for itself.
type reaper struct {
	mu       sync.Mutex
	children map[int]*child
}

// child is a process that was started here.
type child struct {
	name string
	pid  int
	done chan struct{}
	// status may be read when done is closed.
	status syscall.WaitStatus
}

func newReaper() *reaper {
	r := &reaper{children: map[int]*child{}}
	signals := make(chan os.Signal, 1) // one is enough: each empties the graveyard
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
		// The lock is for a child that ends before start has entered it.
		r.mu.Lock()
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		ended := r.children[pid]
		delete(r.children, pid)
		r.mu.Unlock()
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil || pid <= 0:
			return // no more for now
		case ended != nil:
			ended.status = status
			close(ended.done)
		}
	}
}

// program is what to start.
type program struct {
	name string // as messages call it
	path string
	args []string
	env  []string
	log  string
}

// start starts a program with its output appended to its log.
func (r *reaper) start(p program) (*child, error) {
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening the log of %s: %w", p.name, err)
	}
	defer func() { _ = log.Close() }() // the child has its own copy
	nothing, err := os.Open(os.DevNull)
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", p.name, err)
	}
	defer func() { _ = nothing.Close() }() // likewise
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

// run runs a command to its end, which has to be success.
func (r *reaper) run(ctx context.Context, log string, env []string, command ...string) error {
	path, err := exec.LookPath(command[0])
	if err != nil {
		return fmt.Errorf("looking for %s: %w", command[0], err)
	}
	c, err := r.start(program{name: command[0], path: path, args: command[1:], env: env, log: log})
	if err != nil {
		return err
	}
	select {
	case <-c.done:
	case <-ctx.Done():
		_ = syscall.Kill(c.pid, syscall.SIGKILL) // it has ended, or it will
		return fmt.Errorf("%s: %w", strings.Join(command, " "), context.Cause(ctx))
	}
	if c.status.ExitStatus() != 0 {
		return fmt.Errorf("%s: %s; its output: %s", strings.Join(command, " "), describe(c.status), log)
	}
	return nil
}

// describe says how a process ended.
func describe(status syscall.WaitStatus) string {
	if status.Signaled() {
		return "signal: " + status.Signal().String()
	}
	return fmt.Sprintf("exit status %d", status.ExitStatus())
}
