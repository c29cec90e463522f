package plane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/fleet-hub/fleet/dev/plane/supervise"
)

// pollEvery is how often a component that starts is asked whether it is ready.
const pollEvery = 20 * time.Millisecond

// program says what to run.
type program struct {
	name string // as messages call it: "hub: kube-apiserver"
	file string // in Plane.programs
	args []string
	log  string
}

// component is one process of the control planes.
type component struct {
	program
	process  *supervise.Process
	logStart int64       // where in the log this process begins
	expected atomic.Bool // its end is ours, or told
}

// run starts a component and has its unexpected end told.
func (p *Plane) run(what program) (*component, error) {
	c := &component{program: what}
	if info, err := os.Stat(c.log); err == nil {
		c.logStart = info.Size()
	}
	var err error
	c.process, err = p.supervisor.Start(supervise.Command{
		Path: filepath.Join(p.programs, c.file), Args: c.args, Log: c.log,
		// An API server's start is mostly allocation: collecting less often saves a quarter of its time.
		Env: []string{"HOME=" + p.dataDir, "TMPDIR=" + p.dataDir, "GOGC=300"},
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.name, err)
	}
	go p.watch(c)
	return c, nil
}

func (p *Plane) watch(c *component) {
	select {
	case <-c.process.Done():
	case <-p.supervisor.Gone():
		return // everything ends, and who stopped it knows, or is told by the next error
	}
	if status := c.process.Status(); !c.expected.Load() && !p.stopping.Load() {
		p.options.Progress("%s ended: %s; its log: %s", c.name, status.Text, c.log)
	}
}

// kill ends the component and waits for that.
func (c *component) kill() error {
	c.expected.Store(true)
	if err := c.process.Signal(syscall.SIGKILL); err != nil {
		return fmt.Errorf("killing %s: %w", c.name, err)
	}
	<-c.process.Done()
	return nil
}

// hold stops the component where it is, or lets it go on.
func (c *component) hold(hold bool) error {
	signal := syscall.SIGCONT
	if hold {
		signal = syscall.SIGSTOP
	}
	if err := c.process.Signal(signal); err != nil {
		return fmt.Errorf("holding %s: %w", c.name, err)
	}
	return nil
}

// await asks ready until it says nil, and fails when the component or etcd ends or ctx is done.
func (p *Plane) await(ctx context.Context, c *component, ready func(context.Context) error) error {
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	etcd := p.store()
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ticker.C:
		case <-c.process.Done():
			return c.failure()
		case <-etcd.process.Done():
			return etcd.failure()
		case <-ctx.Done():
			if cause := context.Cause(ctx); !errors.Is(cause, context.DeadlineExceeded) {
				return cause
			}
			return fmt.Errorf("%s did not become ready in time: %w; its last lines:\n%s", c.name, err, c.tail())
		}
	}
}

// failure says how a component ended that should not have.
func (c *component) failure() error {
	c.expected.Store(true) // told here
	return fmt.Errorf("%s ended (%s); its last lines:\n%s", c.name, c.process.Status().Text, c.tail())
}

// tail is the last lines of what the process wrote.
func (c *component) tail() string { return supervise.Tail(c.log, c.logStart) }
