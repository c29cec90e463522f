package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/fleet-hub/fleet/dev/machines/host/machine"
	"github.com/fleet-hub/fleet/dev/plane/ports"
)

// SocketIn returns the path of the Unix socket of the host in a folder.
func SocketIn(dir string) string { return filepath.Join(dir, "host.sock") }

// Names of the host's links to its executable. A program that is called by such a name runs it (package programs).
const (
	ProgramMachine = "machine"
	ProgramService = "service"
	ProgramAwait   = "await"
)

// Options configures a host.
type Options struct {
	// Dir is the folder of all machines. It is created if it is missing.
	Dir string
	// Path are folders of programs for the machines, such as the control plane's.
	Path []string
	// Executable is the program with the names above.
	Executable string
	// Parent, if it is set, is a pipe that every machine inherits. When it closes, each machine ends, even if the host
	// has been killed.
	Parent *os.File
	// Clock returns the time.
	Clock func() time.Time
	// Log receives messages.
	Log func(format string, args ...any)
}

// Server is a machine host.
type Server struct {
	options Options
	lock    *os.File
	changed chan struct{} // a machine's process has ended

	deletions singleflight.Group // by ID of the machine

	mu    sync.Mutex // serializes changes; guards the fields below
	ports map[int]*ports.Port
	// attempts and problems are about machines that did not start, by ID.
	attempts map[string]attempt
	problems map[string]string
}

// attempt is the last start of a machine.
type attempt struct {
	running bool   // the process has not ended
	how     string // how it ended
	began   time.Time
	pause   time.Duration
}

// Open prepares a folder and continues what an earlier host has left in it.
func Open(o Options) (*Server, error) {
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("finding the host's folder: %w", err)
	}
	// Machines compare paths with those in environments, so there must be one name for the folder.
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("creating the host's folder: %w", err)
	}
	if o.Dir, err = filepath.EvalSymlinks(dir); err != nil {
		return nil, fmt.Errorf("finding the host's folder: %w", err)
	}
	s := &Server{options: o, changed: make(chan struct{}, 1), ports: map[int]*ports.Port{}, attempts: map[string]attempt{}, problems: map[string]string{}}
	if s.lock, err = machine.TakeLock(filepath.Join(o.Dir, "host.lock")); err != nil {
		return nil, fmt.Errorf("another machine host uses %s: %w", o.Dir, err)
	}
	if err := s.prepare(); err != nil {
		return nil, errors.Join(err, s.lock.Close())
	}
	return s, nil
}

func (s *Server) prepare() error {
	for _, dir := range []string{s.bin(), s.machines(), s.deleted(), s.endpoints()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("creating the host's folders: %w", err)
		}
	}
	for _, name := range []string{ProgramMachine, ProgramService, ProgramAwait} {
		link := filepath.Join(s.bin(), name)
		if err := errors.Join(os.RemoveAll(link), os.Symlink(s.options.Executable, link)); err != nil {
			return fmt.Errorf("linking the machine's programs: %w", err)
		}
	}
	return s.removeUnfinished()
}

func (s *Server) bin() string { return filepath.Join(s.options.Dir, "bin") }

func (s *Server) machines() string { return filepath.Join(s.options.Dir, "machines") }

func (s *Server) deleted() string { return filepath.Join(s.options.Dir, "deleted") }

func (s *Server) endpoints() string { return filepath.Join(s.options.Dir, "endpoints") }

// reconcileEvery is the interval at which folders are compared with processes, beside each change the host sees.
const reconcileEvery = 250 * time.Millisecond

// Serve handles requests until ctx is done. Machines stay.
func (s *Server) Serve(ctx context.Context) error {
	defer s.release()
	s.reconcile()
	listener, err := listen(ctx, SocketIn(s.options.Dir))
	if err != nil {
		return err
	}
	server := &http.Server{Handler: s.handler(), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, MaxHeaderBytes: 16 << 10}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	ticker := time.NewTicker(reconcileEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			s.reconcile()
		case <-s.changed:
			s.reconcile()
		case err := <-served:
			return fmt.Errorf("serving requests: %w", err)
		case <-ctx.Done():
			_ = server.Close() // clients see a closed connection, and repeat the request
			if err := <-served; !errors.Is(err, http.ErrServerClosed) {
				return fmt.Errorf("serving requests: %w", err)
			}
			return nil
		}
	}
}

// listen replaces the socket of an earlier host. The folder's lock excludes a living one.
func listen(ctx context.Context, socket string) (net.Listener, error) {
	const most = 107 // the kernel's limit
	if len(socket) > most {
		return nil, fmt.Errorf("the path of the socket %s has %d bytes; at most %d are possible: choose a shorter folder", socket, len(socket), most)
	}
	if err := os.RemoveAll(socket); err != nil {
		return nil, fmt.Errorf("removing the former socket: %w", err)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", socket)
	if err != nil {
		return nil, fmt.Errorf("listening for requests: %w", err)
	}
	return listener, nil
}

// release releases the folder and the ports. Machines keep theirs.
func (s *Server) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, port := range s.ports {
		port.Release()
	}
	clear(s.ports)
	_ = s.lock.Close() // closing unlocks
}

// RemoveAll ends all machines and removes everything in the folder, and the folder. Call it after Serve.
func (s *Server) RemoveAll() error {
	ids, err := s.ids()
	for _, id := range ids {
		err = errors.Join(err, machine.EndProcesses(s.folder(id)))
	}
	return errors.Join(err, machine.EndAll(s.machines()), removeFolder(s.options.Dir))
}
