package footprint

import (
	"context"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestWhenMemoryIsGivenBack(t *testing.T) {
	const mib = 1 << 20
	for name, test := range map[string]struct {
		// allocated is what was allocated in each interval.
		allocated []uint64
		want      []bool
		live      uint64
	}{
		"after the start":                        {[]uint64{20 * mib, 0, 0}, []bool{false, true, false}, 6 * mib},
		"not while it works":                     {[]uint64{20 * mib, 2 * mib, mib, mib, 0}, []bool{false, false, false, false, true}, 6 * mib},
		"once for one deployment":                {[]uint64{20 * mib, 0, 0, 30 * mib, 0, 0}, []bool{false, true, false, false, true, false}, 6 * mib},
		"not for little":                         {[]uint64{20 * mib, 0, 3 * mib, 0, 0}, []bool{false, true, false, false, false}, 6 * mib},
		"for little that adds up":                {[]uint64{20 * mib, 0, 3 * mib, mib / 2, mib / 2, 0}, []bool{false, true, false, false, true, false}, 6 * mib},
		"a start that needs nothing":             {[]uint64{mib, mib - 1, mib - 1}, []bool{false, false, false}, 6 * mib},
		"a start that needs little, for a while": {[]uint64{mib, mib - 1, mib - 1, mib - 1, mib - 1}, []bool{false, false, false, false, true}, 6 * mib},
		"a runtime that does not count":          {[]uint64{0, 0, 0}, []bool{false, false, false}, 0},
		"a large hub with heartbeats":            {[]uint64{900 * mib, 20 * mib, 19 * mib, 19 * mib, 19 * mib}, []bool{false, true, false, false, true}, 400 * mib},
		"a large hub where clusters join":        {[]uint64{900 * mib, 25 * mib, 200 * mib, 24 * mib}, []bool{false, false, false, true}, 400 * mib},
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

// TestEachTickIsALook plays ticks, and sees when memory is given back.
func TestEachTickIsALook(t *testing.T) {
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
		t.Errorf("%d looks; memory was given back at (-want +got):\n%s", looks, diff)
	}
}

func TestKeepEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	Keep(ctx)
}

// kept keeps what is allocated by a test from being optimised away.
type kept struct{ bytes []byte }

func TestTheRuntimeCounts(t *testing.T) {
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
		"nobody has set a target": {100, 75},
		"GOGC has set one":        {50, 50},
		"GOGC is off":             {-1, -1},
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
