package plane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/fleet-hub/fleet/dev/plane/args"
	"github.com/fleet-hub/fleet/dev/plane/supervise"
)

// pollEvery is the interval between two readiness checks of a starting component. An API server answers several hundred
// with less, while its start needs the processor.
const pollEvery = 100 * time.Millisecond

// program describes a program to run.
type program struct {
	name string // used in messages: "hub: kube-apiserver"
	path string // of the executable
	args []string
	log  string
}

// component is a process of the control planes.
type component struct {
	program
	process  *supervise.Process
	logStart int64       // the offset in the log at which this process starts
	expected atomic.Bool // the end was requested, or is reported already
}

// runtime returns the environment of all components that configures Go's runtime. With the stock settings, an API server of
// ten thousand clusters stays below the limit.
func (o Options) runtime() []string {
	if o.Stock {
		return []string{"GOMEMLIMIT=14GiB"}
	}
	return args.Runtime()
}

// run starts a component. An unexpected end of it is reported to Options.Progress.
func (p *Plane) run(what program) (*component, error) {
	c := &component{program: what}
	if info, err := os.Stat(c.log); err == nil {
		c.logStart = info.Size()
	}
	var err error
	c.process, err = p.supervisor.Start(supervise.Command{
		Path: c.path, Args: c.args, Log: c.log,
		Env: append(p.options.runtime(), "HOME="+p.dataDir, "TMPDIR="+p.dataDir),
	})
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", c.name, err)
	}
	go p.watch(c)
	return c, nil
}

func (p *Plane) watch(c *component) {
	select {
	case <-c.process.Done():
	case <-p.supervisor.Gone():
		return // the plane is stopping, or the next error reports the cause
	}
	if status := c.process.Status(); !c.expected.Load() && !p.stopping.Load() {
		p.options.Progress("%s ended: %s; its log: %s", c.name, status.Text, c.log)
	}
}

// kill kills the component and waits until it has ended. It does nothing if the component has ended already.
func (c *component) kill() error {
	c.expected.Store(true)
	select {
	case <-c.process.Done():
		return nil
	default:
	}
	if err := c.process.Signal(syscall.SIGKILL); err != nil {
		return fmt.Errorf("killing %s: %w", c.name, err)
	}
	<-c.process.Done()
	return nil
}

// hold stops the component with SIGSTOP, or continues it.
func (c *component) hold(hold bool) error {
	signal := syscall.SIGCONT
	if hold {
		signal = syscall.SIGSTOP
	}
	if err := c.process.Signal(signal); err != nil {
		return fmt.Errorf("sending a signal to %s: %w", c.name, err)
	}
	return nil
}

// await calls ready until it returns nil. It fails when the component or etcd ends, or when ctx is done.
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
			return fmt.Errorf("%s did not become ready in time: %w; the last lines of its log:\n%s", c.name, err, c.tail())
		}
	}
}

// failure returns an error for a component that has ended unexpectedly.
func (c *component) failure() error {
	c.expected.Store(true) // the returned error reports it
	return fmt.Errorf("%s ended (%s); the last lines of its log:\n%s", c.name, c.process.Status().Text, c.tail())
}

// tail returns the last lines that the process has written.
func (c *component) tail() string { return supervise.Tail(c.log, c.logStart) }
