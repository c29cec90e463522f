package machine

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"

	"github.com/fleet-hub/fleet/dev/plane/supervise"
)

// starter starts processes on one thread that lives as long as this process: on Linux a child ends when the thread
// that forked it ends.
type starter struct{ requests chan func() }

func newStarter() *starter { return &starter{requests: make(chan func())} }

// serve starts processes until ctx is done. It locks its goroutine to its thread and never unlocks it.
func (s *starter) serve(ctx context.Context) {
	runtime.LockOSThread()
	for {
		select {
		case start := <-s.requests:
			start()
		case <-ctx.Done():
			return
		}
	}
}

// start starts a program that ends with this process. It appends both outputs to log.
func (s *starter) start(ctx context.Context, args []string, log string) (*exec.Cmd, error) {
	path, err := exec.LookPath(args[0])
	if err != nil {
		return nil, fmt.Errorf("the program of the command was not found: %w", exec.ErrNotFound)
	}
	file, err := openLog(log)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // the child has its own copy of the descriptor
	cmd := &exec.Cmd{Path: path, Args: args, Stdout: file, Stderr: file, SysProcAttr: supervise.Tied()}
	done := make(chan error, 1)
	select {
	case s.requests <- func() { done <- cmd.Start() }:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if err := <-done; err != nil {
		return nil, fmt.Errorf("starting a program: %w", err)
	}
	return cmd, nil
}

// wait waits until the process has ended. It kills the process when ctx is done.
func wait(ctx context.Context, cmd *exec.Cmd) error {
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		_ = cmd.Process.Kill() // it may have ended
		if err := <-ended; err == nil {
			return nil // it ended by itself meanwhile
		}
		return context.Cause(ctx)
	}
}

// mostLog is the size over which a log is replaced when it is opened. The former content is kept once.
const mostLog = 16 << 20

func openLog(path string) (*os.File, error) {
	if info, err := os.Stat(path); err == nil && info.Size() > mostLog {
		_ = os.Rename(path, path+".1") // if it fails, the log grows
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening a log: %w", err)
	}
	return file, nil
}

// Tail returns the end of a file, from an offset on and at most so many bytes. A file that cannot be read has no end.
func Tail(path string, from, most int64) []byte {
	file, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer func() { _ = file.Close() }() // the file is only read
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil
	}
	from = max(from, info.Size()-most)
	content, _ := io.ReadAll(io.NewSectionReader(file, from, most)) // a part of it still helps
	return content
}

func sizeOf(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}
