// Package footprint returns memory to the system when the process is idle, limits its garbage while it works, and
// reads how much it has.
//
//	every five seconds ─► bytes allocated ─► idle, and worth it? ─► the heap's free pages
//	every ten seconds ─► bytes in use ─► limit of the garbage collector
//	/proc, /sys/fs/cgroup ─► Read ─► Memory
//
// An agent works for moments and is idle for hours, and a hub where no cluster joins has little to do: heartbeats, whose
// number grows with the heap. Go returns freed memory slowly. Pages of the executable are left to the kernel, which can
// drop them at any time.
package footprint

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// Interval is the time between two checks.
	Interval = 5 * time.Second
	// calmBytes is the most that an idle process allocates in an Interval, for leases, watches and scrapes. With a large
	// heap it is calmPart of the heap.
	calmBytes, calmPart = 1 << 20, 16
	// worthBytes is how much must have been allocated since memory was last returned before it is returned again. With a
	// large heap it is worthPart of the heap, because to collect garbage takes longer.
	worthBytes, worthPart = 4 << 20, 8
	// poolsMatter is the heap in use below which garbage is collected twice. Pools survive one collection: they may contain
	// buffers as large as the largest chart. With the 300 MiB of 10,000 clusters, one more collection takes a second of
	// processor time.
	poolsMatter = 256 << 20
)

// The runtime's metrics for the bytes allocated on the heap since the process started, and those found in use by the
// last collection.
const (
	allocated = "/gc/heap/allocs:bytes"
	live      = "/gc/heap/live:bytes"
)

// usage is what the runtime says of the heap. It is 0 if the runtime does not provide the metrics.
type usage struct{ allocated, live uint64 }

// usual is the garbage collector's target if GOGC is not set.
const usual = 100

// Collect sets the garbage collector's target, in percent of the heap in use, unless the variable GOGC has set another.
func Collect(percent int) {
	if set := debug.SetGCPercent(percent); set != usual {
		debug.SetGCPercent(set)
	}
}

// Keep returns memory to the system whenever the process has become idle, until ctx ends.
func Keep(ctx context.Context) {
	ticker := time.NewTicker(Interval)
	defer ticker.Stop()
	keep(ctx, ticker.C, heap, func() {
		debug.FreeOSMemory()
		if heap().live < poolsMatter {
			debug.FreeOSMemory()
		}
	})
}

// keep checks on each tick.
func keep(ctx context.Context, ticks <-chan time.Time, heap func() usage, giveBack func()) {
	var r rest
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks:
			if r.due(heap()) {
				giveBack()
			}
		}
	}
}

// heap reads the runtime's metrics. Without them memory is never returned.
func heap() usage {
	samples := []metrics.Sample{{Name: allocated}, {Name: live}}
	metrics.Read(samples)
	return usage{allocated: bytesOf(samples[0].Value), live: bytesOf(samples[1].Value)}
}

func bytesOf(value metrics.Value) uint64 {
	if value.Kind() != metrics.KindUint64 {
		return 0
	}
	return value.Uint64()
}

// rest decides when to return memory.
type rest struct {
	// looked is the number of bytes allocated at the last check, given the number when memory was last returned.
	looked, given uint64
}

// due reports whether to return memory now. It is called once per Interval.
func (r *rest) due(now usage) bool {
	calm := now.allocated-r.looked < max(calmBytes, now.live/calmPart)
	r.looked = now.allocated
	if !calm || now.allocated-r.given < max(worthBytes, now.live/worthPart) {
		return false
	}
	r.given = now.allocated
	return true
}
