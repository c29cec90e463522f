package machine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/fleet-hub/fleet/dev/machines/host"
)

// process is a machine's own process.
type process struct {
	folder   Folder
	root     *os.Root
	starter  *starter
	services *services

	mu    sync.Mutex // guards the fields below
	state Record
}

// Options configures Run.
type Options struct {
	// Folder has been filled by Folder.Prepare.
	Folder Folder
	// Parent, if it is set, is a pipe. When it closes, the machine ends and removes its folder.
	Parent io.Reader
	// Clock returns the time.
	Clock func() time.Time
	// Log receives the messages of the process.
	Log io.Writer
}

// Run is the machine's process. It returns when bootstrapping has failed or Options.Parent has closed; a machine that
// runs is ended by killing it. The process must lead its process group, and its environment and working directory are
// those of the machine.
func Run(o Options) error {
	lock, err := TakeLock(o.Folder.lock())
	if err != nil {
		return fmt.Errorf("starting the machine: %w", err)
	}
	defer func() { _ = lock.Close() }() // closing unlocks
	root, err := os.OpenRoot(o.Folder.Root())
	if err != nil {
		return fmt.Errorf("opening the machine's root: %w", err)
	}
	defer func() { _ = root.Close() }() // files in it are closed already
	m := &process{folder: o.Folder, root: root, starter: newStarter()}
	m.services = &services{root: root, starter: m.starter, folder: o.Folder, clock: o.Clock, report: m.reportServices,
		known: map[string]*host.Service{}, warn: func(format string, args ...any) { _, _ = fmt.Fprintf(o.Log, format+"\n", args...) }}
	if m.state, err = o.Folder.Record(); err != nil {
		return err
	}
	ctx, end := context.WithCancel(context.Background())
	defer end()
	closed := whenClosed(o.Parent, end)
	go m.live(ctx, end)
	m.starter.serve(ctx)
	m.services.end()
	err = endOthers(o.Folder)
	if closed() {
		err = errors.Join(err, os.RemoveAll(string(o.Folder)))
	}
	return err
}

// whenClosed calls end when the pipe closes. The returned function reports whether it has closed.
func whenClosed(pipe io.Reader, end func()) (closed func() bool) {
	if pipe == nil {
		return func() bool { return false }
	}
	var mu sync.Mutex
	isClosed := false
	go func() {
		_, _ = io.Copy(io.Discard, pipe) // any end of it is the end of the parent
		mu.Lock()
		isClosed = true
		mu.Unlock()
		end()
	}()
	return func() bool {
		mu.Lock()
		defer mu.Unlock()
		return isClosed
	}
}

// live decides by the record what the machine does. It calls end if bootstrapping has failed.
func (m *process) live(ctx context.Context, end func()) {
	switch m.state.Phase {
	case NotStarted:
		// From here on the data is never executed again.
		m.record(func(r *Record) { r.Phase = Bootstrapping })
		m.follow(ctx)
		if failed := m.bootstrap(ctx); failed != nil {
			if ctx.Err() == nil {
				m.record(func(r *Record) { r.fail(*failed) })
			}
			end()
			return
		}
		m.record(func(r *Record) { r.Phase, r.Command, r.Line = Bootstrapped, 0, 0 })
		m.services.load(ctx)
	case Bootstrapping:
		m.record(func(r *Record) { *r = Interrupted(*r) })
		end()
	case Bootstrapped:
		m.record(func(r *Record) { r.Services = nil })
		m.follow(ctx)
		m.services.load(ctx)
	case Failed:
		end()
	}
}

// Interrupted returns the record of a machine that ended while it was bootstrapping.
func Interrupted(r Record) Record {
	cause := "the machine ended before the first command ran"
	if r.Command > 0 {
		cause = fmt.Sprintf("the machine ended while command %d (line %d) ran", r.Command, r.Line)
	}
	r.fail(failure{cause: cause, line: r.Line})
	return r
}

func (r *Record) fail(f failure) {
	r.Phase, r.Cause, r.Line, r.Output, r.Services = Failed, f.cause, f.line, f.output, nil
}

// follow loads services whenever the command service has sent SIGHUP.
func (m *process) follow(ctx context.Context) {
	requests := make(chan os.Signal, 1)
	signal.Notify(requests, syscall.SIGHUP)
	go func() {
		for {
			select {
			case <-requests:
				m.services.load(ctx)
			case <-ctx.Done():
				return
			}
		}
	}()
}

// record changes the record and writes it. If writing fails, the host sees the former record.
func (m *process) record(change func(*Record)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change(&m.state)
	if err := writeJSON(m.folder.state(), m.state); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
	}
}

func (m *process) reportServices(all []host.Service) {
	m.record(func(r *Record) {
		if r.Phase != Failed {
			r.Services = all
		}
	})
}
