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

// news is a line from serve to up: something to tell, or the end of the waiting.
type news struct {
	Say   string          `json:"say,omitempty"`
	Error string          `json:"error,omitempty"`
	Ready *control.Status `json:"ready,omitempty"`
}

// newsDescriptor is where serve writes them. Not its output: who writes there when up is gone is killed for it.
const newsDescriptor = 3

// up starts serve, detached, and waits until the lab is ready.
func (t *tool) up(cmd *cobra.Command, args []string) error {
	if status, err := control.Of(t.dir).Status(cmd.Context()); err == nil {
		return errors.Join(errors.New("a lab is up already: end it with make lab-down, or use another --dir"), t.print(status))
	}
	serve, from, err := t.detach(args)
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }() // only read
	stop := context.AfterFunc(cmd.Context(), func() { _ = serve.Process.Signal(syscall.SIGTERM) })
	defer stop()
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var n news
		if err := json.Unmarshal(lines.Bytes(), &n); err != nil {
			return fmt.Errorf("reading what the lab says: %w", err)
		}
		switch {
		case n.Error != "":
			_ = serve.Wait() // said
			return errors.New(n.Error)
		case n.Ready != nil:
			_, _ = fmt.Fprintf(t.progress, "ready in %.1fs; logs: %s\n", n.Ready.Seconds, n.Ready.Logs) // nowhere to say that nothing can be said
			return t.print(*n.Ready)
		default:
			_, _ = fmt.Fprintln(t.progress, n.Say) // likewise
		}
	}
	return errors.Join(fmt.Errorf("the lab ended before it was ready; its log: %s", t.serveLog()), lines.Err(), serve.Wait())
}

func (t *tool) serveLog() string { return filepath.Join(t.dir, "serve.log") }

// detach starts serve out of reach of this terminal.
func (t *tool) detach(args []string) (*exec.Cmd, *os.File, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, fmt.Errorf("finding this executable: %w", err)
	}
	if err := os.MkdirAll(t.dir, 0o700); err != nil {
		return nil, nil, fmt.Errorf("making the lab's folder: %w", err)
	}
	log, err := os.Create(t.serveLog())
	if err != nil {
		return nil, nil, fmt.Errorf("making the lab's log: %w", err)
	}
	defer func() { _ = log.Close() }() // the child has its own copy
	from, to, err := os.Pipe()
	if err != nil {
		return nil, nil, fmt.Errorf("piping from the lab: %w", err)
	}
	defer func() { _ = to.Close() }() // likewise
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

// serve holds the lab until down, or until it is told to end.
func (t *tool) serve(cmd *cobra.Command, args []string) error {
	syscall.CloseOnExec(newsDescriptor)
	to := os.NewFile(newsDescriptor, "news")
	tell := func(n news) {
		_ = json.NewEncoder(to).Encode(n) // up is gone
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
		_ = to.Close() // up needs no more
	}
	return server.Serve(cmd.Context(), t.dir, listening)
}
