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

// next is what is told next.
func next(t *testing.T, told <-chan bool) bool {
	t.Helper()
	select {
	case ready := <-told:
		return ready
	case <-time.After(30 * time.Second):
		t.Fatal("nothing was told")
		return false
	}
}

func TestReadinessIsWhatReadyzSays(t *testing.T) {
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
		t.Error("a process that was never ready is told to be", <-told)
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

func TestOneBadAnswerMakesNothingUnready(t *testing.T) {
	var answers atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if n := answers.Add(1); n%failures != 0 { // never as many in a row as it takes
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

func TestNobodyThereIsNotReady(t *testing.T) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	if isReady(t.Context(), http.DefaultClient, address) {
		t.Error("ready")
	}
	if isReady(t.Context(), http.DefaultClient, "no address\n") {
		t.Error("an address that is none is ready")
	}
}
