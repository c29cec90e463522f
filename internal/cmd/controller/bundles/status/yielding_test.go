package status

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/controller/bundles/outcomes"
	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/hubtest"
)

// They run concurrently, and one at a time while BundleDeployments are being written.
func TestStatusUpdates_YieldToDeploymentWrites(t *testing.T) {
	for name, test := range map[string]struct {
		writing int32
		want    time.Duration
	}{
		"nothing is being written": {0, longestTurn / 10},
		"one is being written":     {1, 4 * longestTurn / 10},
		"many are being written":   {100, 4 * longestTurn / 10},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := &handler{outcomes: outcomes.New(), turn: make(chan struct{}, 1)}
				h.outcomes.Writing.Add(test.writing)
				tell := h.yielding(func(context.Context, types.NamespacedName) error {
					<-time.After(longestTurn / 10)
					return nil
				})
				began := time.Now()
				var all sync.WaitGroup
				for _, cluster := range []string{"a", "b", "c", "d"} {
					all.Go(func() {
						if err := tell(t.Context(), types.NamespacedName{Name: cluster}); err != nil {
							t.Error(err)
						}
					})
				}
				all.Wait()
				if took := time.Since(began); took != test.want {
					t.Errorf("four sums were told in %v, want %v", took, test.want)
				}
			})
		})
	}
}

// Whoever waits for its turn goes on when the writing is over, and what comes after that does not wait for it.
func TestWaitingUpdate_RunsAfterLongestTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &handler{outcomes: outcomes.New(), turn: make(chan struct{}, 1)}
		var told []string
		var mu sync.Mutex
		tell := h.yielding(func(_ context.Context, key types.NamespacedName) error {
			<-time.After(longestTurn / 10)
			mu.Lock()
			defer mu.Unlock()
			told = append(told, key.Name)
			return nil
		})
		var all sync.WaitGroup
		start := func(name string) {
			all.Go(func() { _ = tell(t.Context(), types.NamespacedName{Name: name}) })
			synctest.Wait()
		}
		h.outcomes.Writing.Add(1)
		start("first")
		start("waits")
		h.outcomes.Writing.Add(-1)
		began := time.Now()
		start("late")
		all.Wait()
		if took := time.Since(began); took != 2*longestTurn/10 || len(told) != 3 || told[2] != "waits" {
			t.Errorf("%v were told in %v, want the one that waited last, in %v", told, took, 2*longestTurn/10)
		}
	})
}

// An update whose write hangs delays the others only for longestTurn.
func TestHangingUpdate_DoesNotBlockOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &handler{outcomes: outcomes.New(), turn: make(chan struct{}, 1)}
		h.outcomes.Writing.Add(1)
		h.turn <- struct{}{} // who never gives it back
		began := time.Now()
		var all sync.WaitGroup
		for _, cluster := range []string{"a", "b", "c", "d"} {
			all.Go(func() {
				if err := h.yielding(func(context.Context, types.NamespacedName) error { return nil })(t.Context(), types.NamespacedName{Name: cluster}); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if took := time.Since(began); took != longestTurn {
			t.Errorf("four sums were told in %v, want %v", took, longestTurn)
		}
	})
}

func TestWaitingUpdate_EndsWithTheController(t *testing.T) {
	h := &handler{outcomes: outcomes.New(), turn: make(chan struct{}, 1)}
	h.outcomes.Writing.Add(1)
	h.turn <- struct{}{} // another update has the turn
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	told := false
	err := h.yielding(func(context.Context, types.NamespacedName) error {
		told = true
		return nil
	})(ctx, types.NamespacedName{Name: "a"})
	if !errors.Is(err, context.Canceled) || told {
		t.Errorf("told: %t, error %v; want only the end", told, err)
	}
}

// A tenant may have any number of Bundles, and agents that change their states all the time.
func TestSumsOfOneWorkspace_LeaveWorkersToOthers(t *testing.T) {
	h := &handler{app: hubtest.New(t).App}
	synctest.Test(t, func(t *testing.T) {
		handled := map[string]time.Duration{}
		var mu sync.Mutex
		began := time.Now()
		q := h.newSums("sums", 3, func(_ context.Context, key types.NamespacedName) error {
			mu.Lock()
			handled[key.String()] = time.Since(began)
			mu.Unlock()
			if key.Namespace == "busy" {
				<-time.After(time.Minute)
			}
			return nil
		})
		go q.Run(t.Context())
		for _, name := range []string{"a", "b", "c", "d"} {
			q.AddNow(types.NamespacedName{Namespace: "busy", Name: name})
		}
		<-time.After(time.Second)
		q.AddNow(types.NamespacedName{Namespace: "other", Name: "a"})
		<-time.After(time.Hour)
		mu.Lock()
		defer mu.Unlock()
		if after, isHandled := handled["other/a"]; !isHandled || after != time.Second || len(handled) != 5 {
			t.Errorf("handled %v", handled)
		}
	})
}
