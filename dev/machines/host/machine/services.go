package machine

import (
	"context"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fleet-hub/fleet/dev/machines/host"
)

const (
	// firstPause is the pause before the first restart. It doubles at each restart, up to longestPause. A process
	// that has run for steady resets it.
	firstPause   = 100 * time.Millisecond
	longestPause = 10 * time.Second
	steady       = 10 * time.Second
)

// services runs the services of a machine. The first definition of a name counts until the machine ends.
type services struct {
	root    *os.Root
	starter *starter
	folder  Folder
	clock   func() time.Time
	report  func([]host.Service)
	warn    func(format string, args ...any)

	running sync.WaitGroup

	mu     sync.Mutex // guards the fields below
	known  map[string]*host.Service
	ended  bool
	warned string
}

// load starts the services that are defined and not running yet.
func (s *services) load(ctx context.Context) {
	defined, err := readDefinitions(s.root)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil && err.Error() != s.warned {
		s.warned = err.Error()
		s.warn("%s", err)
	}
	for name, d := range defined {
		if s.ended || s.known[name] != nil || len(s.known) >= maxServices {
			continue
		}
		s.known[name] = &host.Service{Name: name}
		s.running.Go(func() { s.supervise(ctx, name, d) })
	}
}

// end waits until all services have ended. The context of load must be done.
func (s *services) end() {
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	s.running.Wait()
}

// supervise runs a service until ctx is done.
func (s *services) supervise(ctx context.Context, name string, d definition) {
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		began := s.clock()
		how := s.once(ctx, name, d)
		if ctx.Err() != nil {
			return
		}
		s.set(name, func(service *host.Service) {
			service.PID, service.LastEnd = 0, how
			service.Restarts++
		})
		if s.clock().Sub(began) >= steady {
			pause = firstPause
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}

// once runs the process of a service until it ends and returns how it ended.
func (s *services) once(ctx context.Context, name string, d definition) string {
	cmd, err := s.starter.start(ctx, d.Command, s.folder.log(name))
	if err != nil {
		return err.Error()
	}
	s.set(name, func(service *host.Service) { service.PID = cmd.Process.Pid })
	if err := wait(ctx, cmd); err != nil {
		return err.Error()
	}
	return "exit status 0"
}

func (s *services) set(name string, change func(*host.Service)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s.known[name])
	all := make([]host.Service, 0, len(s.known))
	for _, service := range s.known {
		all = append(all, *service)
	}
	slices.SortFunc(all, func(a, b host.Service) int { return strings.Compare(a.Name, b.Name) })
	s.report(all)
}
