package plane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
)

// Shared is one plane for all tests of a package, started by the first test that asks for it:
//
//	var control = plane.Share(plane.Options{Downstreams: []string{"east"}})
//
//	func TestMain(m *testing.M) { os.Exit(control.Main(m)) }
//
//	func TestSomething(t *testing.T) { p := control.Plane(t); … }
type Shared struct {
	options Options
	out     io.Writer
	start   func() (*Plane, error)

	mu    sync.Mutex // guards what follows
	plane *Plane
}

// T is what Plane needs of *testing.T or GinkgoT().
type T interface {
	Helper()
	Fatalf(format string, args ...any)
}

// Share prepares a plane to share; it starts nothing. Where options have no Progress, it goes to
// standard error.
func Share(options Options) *Shared {
	s := &Shared{options: options, out: os.Stderr}
	if s.options.Progress == nil {
		s.options.Progress = func(format string, args ...any) {
			_, _ = fmt.Fprintf(s.out, format+"\n", args...) // nowhere to say that nothing can be said
		}
	}
	s.start = sync.OnceValues(s.begin)
	return s
}

func (s *Shared) begin() (*Plane, error) {
	p, err := Start(context.Background(), s.options) // it lasts longer than the test that starts it
	s.mu.Lock()
	defer s.mu.Unlock()
	s.plane = p
	return p, err
}

// Plane returns the shared plane, starting it the first time. Where that fails the test fails, and
// every other that asks, with the reason and the log folder.
func (s *Shared) Plane(t T) *Plane {
	t.Helper()
	p, err := s.start()
	if err != nil {
		t.Fatalf("starting control planes: %v", err)
	}
	return p
}

// Main runs the package's tests, stops the plane if one was started, and returns the exit code. It
// keeps the logs of a run that failed, and says where they are.
func (s *Shared) Main(m interface{ Run() int }) int {
	code := m.Run()
	if err := s.Stop(code != 0); err != nil {
		_, _ = fmt.Fprintln(s.out, err)
		return max(code, 1)
	}
	return code
}

// Stop stops the plane if one was started, and removes its logs unless they are to be kept: what
// Main does at the end, for those who have their own end (a ginkgo suite).
func (s *Shared) Stop(keepLogs bool) error {
	s.mu.Lock()
	p := s.plane
	s.mu.Unlock()
	if p == nil {
		return nil // never started, or Start has cleaned up
	}
	err := p.Stop()
	if err != nil || keepLogs {
		_, _ = fmt.Fprintf(s.out, "logs of the control planes: %s\n", p.LogDir)
		return err
	}
	return errors.Join(err, p.RemoveLogs())
}
