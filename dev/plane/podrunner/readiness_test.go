package podrunner

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// next returns the next reported state.
func next(t *testing.T, told <-chan bool) bool {
	t.Helper()
	select {
	case ready := <-told:
		return ready
	case <-time.After(2 * time.Minute):
		t.Fatal("no change was reported")
		return false
	}
}

func TestWatchReadiness_FollowsReadyz(t *testing.T) {
	var code, path atomic.Value
	code.Store(http.StatusServiceUnavailable)
	asked := make(chan struct{}, 1000)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path.Store(r.URL.Path)
		w.WriteHeader(code.Load().(int))
		asked <- struct{}{}
	}))
	defer server.Close()
	ctx, stop := context.WithCancel(t.Context())
	told, done := make(chan bool, 10), make(chan struct{})
	go func() {
		defer close(done)
		watchReadiness(ctx, strings.TrimPrefix(server.URL, "http://"), time.Minute, func(ready bool) { told <- ready })
	}()
	<-asked
	if len(told) != 0 {
		t.Error("unexpected report for a process that was never ready:", <-told)
	}
	for _, step := range []struct {
		code int
		want bool
	}{{http.StatusOK, true}, {http.StatusInternalServerError, false}, {http.StatusOK, true}} {
		code.Store(step.code)
		if got := next(t, told); got != step.want {
			t.Errorf("answering %d: ready %t", step.code, got)
		}
	}
	stop()
	<-done
	if diff := cmp.Diff("/readyz", path.Load()); diff != "" {
		t.Errorf("path (-want +got):\n%s", diff)
	}
}

func TestFewFailures_KeepTheProcessReady(t *testing.T) {
	var answers atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if n := answers.Add(1); n%failures != 0 { // never enough consecutive failures
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	defer server.Close()
	ctx, stop := context.WithCancel(t.Context())
	told := make(chan bool, 100)
	go func() {
		for answers.Load() < 20 {
			select {
			case <-time.After(time.Millisecond):
			case <-ctx.Done():
			}
		}
		stop()
	}()
	watchReadiness(ctx, strings.TrimPrefix(server.URL, "http://"), time.Minute, func(ready bool) { told <- ready })
	close(told)
	var all []bool
	for ready := range told {
		all = append(all, ready)
	}
	if diff := cmp.Diff([]bool{true}, all); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}

func TestNoServer_IsNotReady(t *testing.T) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	if isReady(t.Context(), http.DefaultClient, address) {
		t.Error("want not ready")
	}
	if isReady(t.Context(), http.DefaultClient, "no address\n") {
		t.Error("want an invalid address not to be ready")
	}
}
