package leader

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

func TestLowerResourceVersion_IsReportedOnce(t *testing.T) {
	lease := func(version string) string { return `{"metadata":{"name":"lock","resourceVersion":"` + version + `"}}` }
	type answer struct {
		lease, body string
		code        int
	}
	tests := map[string]struct {
		answers []answer
		noticed int
	}{
		"growing versions":                                {[]answer{{"a", lease("9"), 200}, {"a", lease("10"), 200}}, 0},
		"the same version":                                {[]answer{{"a", lease("9"), 200}, {"a", lease("9"), 200}}, 0},
		"lower version: reported":                         {[]answer{{"a", lease("10"), 200}, {"a", lease("9"), 200}}, 1},
		"two lower versions: reported once":               {[]answer{{"a", lease("10"), 200}, {"a", lease("8"), 200}, {"a", lease("9"), 200}}, 1},
		"versions of two leases are not compared":         {[]answer{{"a", lease("10"), 200}, {"b", lease("9"), 200}, {"a", lease("11"), 200}}, 0},
		"one of two leases has a lower version: reported": {[]answer{{"a", lease("10"), 200}, {"b", lease("9"), 200}, {"b", lease("8"), 200}}, 1},
		"error responses are ignored":                     {[]answer{{"a", lease("10"), 200}, {"a", lease("9"), 409}, {"a", lease("11"), 200}}, 0},
		"responses without a version are ignored":         {[]answer{{"a", lease("10"), 200}, {"a", `{}`, 200}, {"a", lease("9"), 200}}, 1},
		"responses that are not JSON are ignored":         {[]answer{{"a", lease("10"), 200}, {"a", `<html>`, 200}, {"a", lease("11"), 200}}, 0},
		"versions that are not numbers are not compared":  {[]answer{{"a", lease("x"), 200}, {"a", lease("9"), 200}}, 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			noticed := 0
			r := &restoreDetector{versions: map[string]string{}}
			r.notify(func() { noticed++ })
			for _, a := range test.answers {
				server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					w.WriteHeader(a.code)
					_, _ = io.WriteString(w, a.body)
				}))
				client, err := rest.HTTPClientFor(r.watch(&rest.Config{}, a.lease))
				if err != nil {
					t.Fatal(err)
				}
				got, err := client.Get(server.URL)
				if err != nil {
					t.Fatal(err)
				}
				body, err := io.ReadAll(got.Body)
				if err != nil || string(body) != a.body || got.StatusCode != a.code {
					t.Errorf("the election gets %d %q, %v", got.StatusCode, body, err)
				}
				server.Close()
			}
			if noticed != test.noticed {
				t.Errorf("noticed %d times", noticed)
			}
		})
	}
}

func TestTruncatedResponse_IsAnError(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, "less")
	}))
	defer server.Close()
	client, err := rest.HTTPClientFor((&restoreDetector{versions: map[string]string{}}).watch(&rest.Config{}, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Get(server.URL); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("it is %v", err)
	}
	server.Close()
	if _, err := client.Get(server.URL); err == nil {
		t.Error("nobody answers, and yet no error")
	}
}

func TestOlderVersionWhileStandingBy_IsIgnored(t *testing.T) {
	r := &restoreDetector{versions: map[string]string{}}
	r.compare("lock", "10")
	r.compare("lock", "9") // of one that stands by
	err := r.run(t.Context(), func(ctx context.Context) error {
		r.compare("lock", "10")
		return ctx.Err()
	})
	if err != nil {
		t.Error(err)
	}
	r.compare("lock", "9") // after it
}

func TestLowerResourceVersion_EndsTheWork(t *testing.T) {
	failure := errors.New("something else")
	tests := map[string]struct {
		work func(context.Context) error
		also error
	}{
		"returns the error of the context": {func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, nil},
		"returns nil":                      {func(ctx context.Context) error { <-ctx.Done(); return nil }, nil},
		"returns an error of its own":      {func(ctx context.Context) error { <-ctx.Done(); return failure }, failure},
		"had failed before":                {func(context.Context) error { return failure }, failure},
		"returns the cause":                {func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }, ErrStateRestored},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := &restoreDetector{versions: map[string]string{"lock": "10"}}
			err := r.run(t.Context(), func(ctx context.Context) error {
				r.compare("lock", "9")
				return test.work(ctx)
			})
			if !errors.Is(err, ErrStateRestored) || test.also != nil && !errors.Is(err, test.also) || errors.Is(err, context.Canceled) {
				t.Errorf("it is %v", err)
			}
		})
	}
}

func TestRestoredHub_EndsTheLeadership(t *testing.T) {
	l := &leases{lease: heldByAnother()}
	l.lease.ResourceVersion, l.lease.Spec.HolderIdentity = "9", new(string) // free
	o := election(t, l, "one")
	err := Lead(t.Context(), o, func(ctx context.Context) error {
		l.mu.Lock()
		l.lease.ResourceVersion = "9" // as before it was taken; the next renewal meets it
		l.mu.Unlock()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Minute):
			return errors.New("nobody told")
		}
	})
	if !errors.Is(err, ErrStateRestored) {
		t.Errorf("it is %v", err)
	}
}

func TestLead_ReportsARestoredStoreOnStandby(t *testing.T) {
	l := &leases{lease: heldByAnother()}
	l.lease.ResourceVersion = "9"
	o := election(t, l, "two")
	o.OnStandby = func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.lease = heldByAnother() // with an older version
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	restored := false
	o.OnStateRestored = func() {
		restored = true
		cancel()
	}
	if err := Lead(ctx, o, func(context.Context) error { return errors.New("must not run") }); err != nil {
		t.Error(err)
	}
	if !restored {
		t.Error("it was not reported")
	}
}
