package plane

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"sync"
)

// Shared is one plane for all tests of a package. The first test that needs it starts it:
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

	mu    sync.Mutex // guards the fields below
	plane *Plane
}

// T is the part of *testing.T and GinkgoT() that Plane needs.
type T interface {
	Helper()
	Fatalf(format string, args ...any)
}

// Share returns a plane to share, but does not start it. If options have no Progress, messages go to standard
// error.
func Share(options Options) *Shared {
	s := &Shared{options: options, out: os.Stderr}
	if s.options.Progress == nil {
		s.options.Progress = func(format string, args ...any) {
			_, _ = fmt.Fprintf(s.out, format+"\n", args...) // a failed write cannot be reported
		}
	}
	s.start = sync.OnceValues(s.begin)
	return s
}

func (s *Shared) begin() (*Plane, error) {
	p, err := Start(context.Background(), s.options) // the plane outlives the test that starts it
	s.mu.Lock()
	defer s.mu.Unlock()
	s.plane = p
	return p, err
}

// Plane returns the shared plane and starts it at the first call. If the start fails, every test that calls Plane
// fails with the reason and the log directory.
func (s *Shared) Plane(t T) *Plane {
	t.Helper()
	p, err := s.start()
	if err != nil {
		t.Fatalf("starting control planes: %v", err)
	}
	return p
}

// atOnce is how many parallel tests run at once, unless a flag says otherwise. They wait for control planes most of the time.
const atOnce = "6"

// Main runs the package's tests, stops the plane if one was started, and returns the exit code. If a test failed,
// it keeps the logs and prints their directory.
func (s *Shared) Main(m interface{ Run() int }) int {
	if err := flag.Set("test.parallel", atOnce); err != nil {
		_, _ = fmt.Fprintln(s.out, err)
		return 1
	}
	code := m.Run()
	if err := s.Stop(code != 0); err != nil {
		_, _ = fmt.Fprintln(s.out, err)
		return max(code, 1)
	}
	return code
}

// Stop stops the plane if one was started. It removes the logs unless keepLogs is set. Main calls it; suites with
// their own main (ginkgo) call it themselves.
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
