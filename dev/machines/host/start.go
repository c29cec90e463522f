package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/fleet-hub/fleet/dev/plane/build"
)

// StartOptions configures Start.
type StartOptions struct {
	// Dir is the folder of the host and its machines. Close removes it. Its path must be short, because it contains the
	// host's Unix socket: at most 90 bytes.
	Dir string
	// Executable is the machine host's program, whose name must be machinehost. If it is empty, it is built once.
	Executable string
	// Path are folders with programs for the machines. If it is nil, it is Programs.
	Path []string
	// Log is the file for the host's messages. If it is empty, they go to standard error.
	Log string
	// Progress receives messages about builds. It may be nil.
	Progress build.Progress
}

// Child is a machine host that runs as a child of this process. When this process ends for any reason, the host and all
// machines end and their folder is removed.
type Child struct {
	// Client sends requests to the host. It stays valid over Kill and Restart.
	*Client
	// Socket is the path of the host's Unix socket.
	Socket string

	options StartOptions
	// The host and its machines inherit the read end, so that they end when the write end closes.
	read, write *os.File
	cmd         *exec.Cmd
	ended       chan struct{}
}

// Start starts a machine host and returns when it answers. ctx limits only the start. The caller ends it with Close.
func Start(ctx context.Context, o StartOptions) (*Child, error) {
	if err := o.complete(ctx); err != nil {
		return nil, fmt.Errorf("preparing the machine host: %w", err)
	}
	c := &Child{Socket: filepath.Join(o.Dir, "host.sock"), options: o}
	c.Client = NewClient(c.Socket)
	var err error
	if c.read, c.write, err = os.Pipe(); err != nil {
		return nil, fmt.Errorf("creating the machine host's pipe: %w", err)
	}
	if err := c.Restart(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (o *StartOptions) complete(ctx context.Context) (err error) {
	if o.Dir, err = filepath.Abs(o.Dir); err != nil {
		return err
	}
	if o.Executable == "" {
		if o.Executable, err = build.MachineHost(ctx, o.Progress); err != nil {
			return err
		}
	}
	if o.Path == nil {
		if o.Path, err = Programs(ctx, o.Progress); err != nil {
			return err
		}
	}
	return nil
}

// Programs returns the folders of what every machine needs: the control plane's programs, hollow-node and podrunner. They
// are built once. Pods run the program fleetagent if a caller adds its folder.
func Programs(ctx context.Context, progress build.Progress) ([]string, error) {
	kube, err := build.Kube(ctx, progress)
	if err != nil {
		return nil, err
	}
	pods, err := build.PodRunner(ctx, progress)
	return []string{kube, pods}, err
}

// Restart starts the host again after Kill and returns when it answers.
func (c *Child) Restart(ctx context.Context) error {
	if err := c.launch(c.read); err != nil {
		return fmt.Errorf("starting the machine host: %w", err)
	}
	return c.awaitAnswer(ctx)
}

// launch starts the host. It ends when the file ends; nil has ended already.
func (c *Child) launch(stdin *os.File) error {
	log := os.Stderr
	if c.options.Log != "" {
		file, err := os.OpenFile(c.options.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }() // the child has its own copy of the descriptor
		log = file
	}
	path := strings.Join(c.options.Path, string(filepath.ListSeparator))
	cmd := exec.Command(c.options.Executable, "-path", path, "-end-machines", c.options.Dir)
	cmd.Stderr, cmd.SysProcAttr = log, ownGroup()
	if stdin != nil {
		cmd.Stdin = stdin
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	c.cmd, c.ended = cmd, ended
	go func() {
		_ = cmd.Wait() // its log says why it ended
		close(ended)
		runtime.KeepAlive(c) // the garbage collector would close the pipe
	}()
	return nil
}

func (c *Child) awaitAnswer(ctx context.Context) error {
	const atMost = time.Minute
	ctx, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for {
		_, err := c.Endpoints(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ticker.C:
		case <-c.ended:
			return errors.New("the machine host ended while it started; its log says why")
		case <-ctx.Done():
			return fmt.Errorf("waiting for the machine host, at most %s: %w", atMost, err)
		}
	}
}

// Kill kills the host with SIGKILL. Its machines continue until Close. Do not call Kill, Restart and Close at once.
func (c *Child) Kill() error {
	if err := c.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("killing the machine host: %w", err)
	}
	<-c.ended
	return nil
}

// Close ends the host and all machines, removes the folder, and returns when this is done. It may be called more than
// once.
func (c *Child) Close() error {
	if err := c.write.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("closing the machine host's pipe: %w", err)
	}
	_ = c.read.Close() // nothing was written to it
	if c.ended != nil {
		<-c.ended
	}
	if _, err := os.Stat(c.options.Dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	// The host had ended before. Another one ends at once, and with it the machines that the first one has left.
	if err := c.launch(nil); err != nil {
		return fmt.Errorf("ending the machines of a machine host that has ended: %w", err)
	}
	<-c.ended
	if err := os.RemoveAll(c.options.Dir); err != nil {
		return fmt.Errorf("removing the machine host's folder: %w", err)
	}
	return nil
}
