//go:build linux

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/fleet-hub/fleet/dev/lab/control"
	"github.com/fleet-hub/fleet/dev/lab/nodes"
)

// news is a message from serve to up: a progress line, an error, or the status of the ready lab.
type news struct {
	Say   string          `json:"say,omitempty"`
	Error string          `json:"error,omitempty"`
	Ready *control.Status `json:"ready,omitempty"`
}

// newsDescriptor is the file descriptor on which serve writes its messages. It does not use standard output,
// because a process that writes to a closed standard output is killed by SIGPIPE, and up may have ended.
const newsDescriptor = 3

// up starts serve as a detached process and waits until the lab is ready.
func (t *tool) up(cmd *cobra.Command, args []string) error {
	if status, err := control.Of(t.dir).Status(cmd.Context()); err == nil {
		return errors.Join(errors.New("a lab is already running: stop it with make lab-down, or use another --dir"), t.print(status))
	}
	serve, from, err := t.detach(args)
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }() // the descriptor is only read
	stop := context.AfterFunc(cmd.Context(), func() { _ = serve.Process.Signal(syscall.SIGTERM) })
	defer stop()
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var n news
		if err := json.Unmarshal(lines.Bytes(), &n); err != nil {
			return fmt.Errorf("reading a message of the lab: %w", err)
		}
		switch {
		case n.Error != "":
			_ = serve.Wait() // the error is already in the message
			return errors.New(n.Error)
		case n.Ready != nil:
			_, _ = fmt.Fprintf(t.progress, "ready in %.1fs; logs: %s\n", n.Ready.Seconds, n.Ready.Logs) // a failed write cannot be reported
			return t.print(*n.Ready)
		default:
			_, _ = fmt.Fprintln(t.progress, n.Say) // see above
		}
	}
	return errors.Join(fmt.Errorf("the lab ended before it was ready: see %s", t.serveLog()), lines.Err(), serve.Wait())
}

func (t *tool) serveLog() string { return filepath.Join(t.dir, "serve.log") }

// detach starts serve in a session of its own, so that signals of this terminal do not reach it.
func (t *tool) detach(args []string) (*exec.Cmd, *os.File, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, fmt.Errorf("finding this executable: %w", err)
	}
	if err := os.MkdirAll(t.dir, 0o700); err != nil {
		return nil, nil, fmt.Errorf("creating the lab's directory: %w", err)
	}
	log, err := os.Create(t.serveLog())
	if err != nil {
		return nil, nil, fmt.Errorf("creating the lab's log: %w", err)
	}
	defer func() { _ = log.Close() }() // the child has its own copy of the descriptor
	from, to, err := os.Pipe()
	if err != nil {
		return nil, nil, fmt.Errorf("creating a pipe for the lab's messages: %w", err)
	}
	defer func() { _ = to.Close() }() // see above
	args = append([]string{"serve", "--dir", t.dir}, args...)
	for _, archive := range t.archives {
		whole, err := filepath.Abs(archive)
		if err != nil {
			return nil, nil, err
		}
		args = append(args, "--image", whole)
	}
	serve := exec.Command(self, args...)
	serve.Stdout, serve.Stderr, serve.ExtraFiles = log, log, []*os.File{to}
	serve.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := serve.Start(); err != nil {
		return nil, nil, fmt.Errorf("starting the lab: %w", err)
	}
	return serve, from, nil
}

// serve runs the lab until it is stopped by down or by a signal.
func (t *tool) serve(cmd *cobra.Command, args []string) error {
	syscall.CloseOnExec(newsDescriptor)
	to := os.NewFile(newsDescriptor, "news")
	tell := func(n news) {
		_ = json.NewEncoder(to).Encode(n) // the reader may have ended
		_, _ = fmt.Fprintf(t.progress, "%s%s\n", n.Say, n.Error)
	}
	clock := time.Now //nolint:forbidigo // this is where the clock is made
	began := clock()
	lab, err := nodes.Start(cmd.Context(), nodes.Options{
		Names: args, Archives: t.archives, LogDir: filepath.Join(t.dir, "logs"),
		Progress: func(format string, args ...any) { tell(news{Say: fmt.Sprintf(format, args...)}) },
	})
	if err != nil {
		tell(news{Error: err.Error()})
		return err
	}
	server := control.Server{Lab: lab, Seconds: clock().Sub(began).Seconds()}
	listening := func() {
		status := control.StatusOf(lab, server.Seconds)
		tell(news{Ready: &status})
		_ = to.Close() // up reads only until the lab is ready
	}
	return server.Serve(cmd.Context(), t.dir, listening)
}
