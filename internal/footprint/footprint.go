// Package footprint returns memory to the system when the process is idle, and reads how much the process has.
//
//	every ten seconds ─► bytes allocated ─► idle, and worth it? ─► the heap's free pages
//	/proc, /sys/fs/cgroup ─► Read ─► Memory
//
// An agent works for moments and is idle for hours, and a hub where no cluster joins has little to do. Go returns
// freed memory slowly. Pages of the executable are left to the kernel, which can drop them at any time.
package footprint

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// Interval is the time between two checks.
	Interval = 10 * time.Second
	// calmBytes is the most that an idle process allocates in an Interval, for leases, watches and scrapes.
	calmBytes = 1 << 20
	// worthBytes is how much must have been allocated since memory was last returned before it is returned again.
	worthBytes = 4 << 20
)

// allocated is the runtime metric for bytes allocated on the heap since the process started.
const allocated = "/gc/heap/allocs:bytes"

// Keep returns memory to the system whenever the process has become idle, until ctx ends.
func Keep(ctx context.Context) {
	ticker := time.NewTicker(Interval)
	defer ticker.Stop()
	keep(ctx, ticker.C, allocatedBytes, func() {
		// Pools survive one collection: they may contain buffers as large as the largest chart.
		runtime.GC()
		debug.FreeOSMemory()
	})
}

// keep checks on each tick.
func keep(ctx context.Context, ticks <-chan time.Time, allocated func() uint64, giveBack func()) {
	var r rest
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks:
			if r.due(allocated()) {
				giveBack()
			}
		}
	}
}

// allocatedBytes returns 0 if the runtime does not provide the metric. Then memory is never returned.
func allocatedBytes() uint64 {
	sample := []metrics.Sample{{Name: allocated}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return sample[0].Value.Uint64()
}

// rest decides when to return memory.
type rest struct {
	// looked is the number of bytes allocated at the last check, given the number when memory was last returned.
	looked, given uint64
}

// due reports whether to return memory now. It is called once per Interval with the bytes allocated so far.
func (r *rest) due(allocated uint64) bool {
	calm := allocated-r.looked < calmBytes
	r.looked = allocated
	if !calm || allocated-r.given < worthBytes {
		return false
	}
	r.given = allocated
	return true
}
