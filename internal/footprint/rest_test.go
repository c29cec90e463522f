package footprint

import (
	"context"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestIdleProcess_ReturnsMemory(t *testing.T) {
	const mib = 1 << 20
	for name, test := range map[string]struct {
		// allocated is what was allocated in each interval.
		allocated []uint64
		want      []bool
		live      uint64
	}{
		"after the start: collects":                       {[]uint64{20 * mib, 0, 0}, []bool{false, true, false}, 6 * mib},
		"busy: waits until idle":                          {[]uint64{20 * mib, 2 * mib, mib, mib, 0}, []bool{false, false, false, false, true}, 6 * mib},
		"idle after each deployment: collects once":       {[]uint64{20 * mib, 0, 0, 30 * mib, 0, 0}, []bool{false, true, false, false, true, false}, 6 * mib},
		"few allocations: does not collect":               {[]uint64{20 * mib, 0, 3 * mib, 0, 0}, []bool{false, true, false, false, false}, 6 * mib},
		"few allocations that add up: collects":           {[]uint64{20 * mib, 0, 3 * mib, mib / 2, mib / 2, 0}, []bool{false, true, false, false, true, false}, 6 * mib},
		"start with few allocations: waits":               {[]uint64{mib, mib - 1, mib - 1}, []bool{false, false, false}, 6 * mib},
		"few allocations for several ticks: collects":     {[]uint64{mib, mib - 1, mib - 1, mib - 1, mib - 1}, []bool{false, false, false, false, true}, 6 * mib},
		"no counts from the runtime: never collects":      {[]uint64{0, 0, 0}, []bool{false, false, false}, 0},
		"large hub with heartbeats: collects":             {[]uint64{900 * mib, 20 * mib, 19 * mib, 19 * mib, 19 * mib}, []bool{false, true, false, false, true}, 400 * mib},
		"large hub where clusters join: waits until idle": {[]uint64{900 * mib, 25 * mib, 200 * mib, 24 * mib}, []bool{false, false, false, true}, 400 * mib},
	} {
		t.Run(name, func(t *testing.T) {
			var r rest
			var total uint64
			var got []bool
			for _, n := range test.allocated {
				total += n
				got = append(got, r.due(usage{total, test.live}))
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestEachTick_ReadsUsageOnce(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	ticks, looks, given := make(chan time.Time), 0, []int{}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		keep(ctx, ticks, func() usage {
			looks++
			return usage{allocated: 10 << 20}
		}, func() { given = append(given, looks) })
	}()
	for range 5 {
		ticks <- time.Time{}
	}
	cancel()
	<-ended
	if diff := cmp.Diff([]int{2}, given); diff != "" || looks != 5 {
		t.Errorf("usage was read %d times; memory was returned after these (-want +got):\n%s", looks, diff)
	}
}

func TestKeep_ReturnsWhenContextEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	Keep(ctx)
}

// kept keeps what is allocated by a test from being optimised away.
type kept struct{ bytes []byte }

func TestHeap_CountsAllocatedAndLiveBytes(t *testing.T) {
	before := heap()
	k := &kept{bytes: make([]byte, 3<<20)}
	runtime.GC()
	after := heap()
	if after.allocated-before.allocated < uint64(len(k.bytes)) || before.allocated == 0 || after.live < uint64(len(k.bytes)) {
		t.Errorf("after %d bytes: %+v, before %+v", len(k.bytes), after, before)
	}
	runtime.KeepAlive(k)
}

func TestCollect(t *testing.T) {
	for name, test := range map[string]struct{ set, want int }{
		"default target: is lowered":  {100, 75},
		"lower target by GOGC: stays": {50, 50},
		"GOGC is off: stays":          {-1, -1},
	} {
		t.Run(name, func(t *testing.T) {
			before := debug.SetGCPercent(test.set)
			Collect(75)
			if got := debug.SetGCPercent(before); got != test.want {
				t.Errorf("got %d", got)
			}
		})
	}
}
