package hub

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fleet-hub/fleet/e2e/bench/audit"
)

// request returns a line of an audit log: a request of the controller, so many seconds after the start of the clock.
func request(verb, second string) string {
	return `{"stage":"ResponseComplete","verb":"` + verb + `","requestReceivedTimestamp":"2026-01-01T00:00:` + second + `.000000Z","user":{"username":"` +
		controllerAccount + `"},"objectRef":{"resource":"secrets"},"responseStatus":{"code":200}}` + "\n"
}

// logged returns a hub with these lines in its audit log. Its clock advances by a second at each call.
func logged(t *testing.T, lines string) *Hub {
	t.Helper()
	path := filepath.Join(t.TempDir(), "audit.log")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	log, err := audit.NewLog(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	clock := func() time.Time {
		now = now.Add(time.Second)
		return now
	}
	return &Hub{Options: Options{Quiet: 3 * time.Second, Patience: time.Minute, Clock: clock}, Whose: audit.Classifier{Controller: controllerAccount}, log: log}
}

func TestUntilQuiet_CountsUntilTheLastWriteIsOld(t *testing.T) {
	h := logged(t, request("create", "01")+request("update", "04")+request("get", "20"))
	got, err := h.UntilQuiet(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := audit.Counts{}
	for _, verb := range []string{"create", "update", "get"} {
		want[audit.Kind{Identity: audit.Controller, Verb: verb, Resource: "secrets"}] = audit.Count{Requests: 1}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// The clock was read at 1 s for the start, and then until it was 3 s after the write at 4 s.
	if now := h.Clock(); now.Second() != 8 {
		t.Errorf("ended at %s", now)
	}
}

func TestListen_EndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(io.EOF)
	var heard int
	err := logged(t, request("create", "01")).Listen(ctx, func(audit.Event) { heard++ }, func(time.Time) bool { return false })
	if !errors.Is(err, io.EOF) || heard != 1 {
		t.Errorf("got %v after %d requests", err, heard)
	}
}

func TestSkip_DropsRequests(t *testing.T) {
	h := logged(t, request("create", "01"))
	if err := h.Skip(); err != nil {
		t.Fatal(err)
	}
	if got, err := h.UntilQuiet(t.Context()); err != nil || len(got) != 0 {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestEvery_CallsUntilDone(t *testing.T) {
	canceled, cancel := context.WithCancelCause(t.Context())
	cancel(io.ErrUnexpectedEOF)
	for name, test := range map[string]struct {
		ended bool
		done  func(call int) (bool, error)
		calls int
		want  error
	}{
		"done at once":                      {false, func(int) (bool, error) { return true, nil }, 1, nil},
		"done at the third call":            {false, func(call int) (bool, error) { return call == 3, nil }, 3, nil},
		"an error ends it":                  {false, func(int) (bool, error) { return false, io.EOF }, 1, io.EOF},
		"ended context: its cause":          {true, func(int) (bool, error) { return false, nil }, 1, io.ErrUnexpectedEOF},
		"ended context, but done: no error": {true, func(int) (bool, error) { return true, nil }, 1, nil},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, calls := t.Context(), 0
			if test.ended {
				ctx = canceled
			}
			err := Every(ctx, time.Millisecond, func() (bool, error) {
				calls++
				return test.done(calls)
			})
			if !errors.Is(err, test.want) || test.want == nil && err != nil {
				t.Errorf("got %v", err)
			}
			if !test.ended && calls != test.calls {
				t.Errorf("called %d times", calls)
			}
		})
	}
}
