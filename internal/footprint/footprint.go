// Package footprint gives memory back to the system that a process at rest has no use for.
//
//	every ten seconds ─► what was allocated ─► calm, and worth it? ─► the heap's free pages
//	                                                              └─► the executable's pages
//
// An agent works for moments and rests for hours, and a hub where no cluster joins has little to do. Go returns what it
// has freed slowly, and pages of the executable stay mapped which only the start needed: each of a thousand packages has
// touched some. A hub, in turn, may use more of it while there is much to do (Slack).
package footprint

import (
	"context"
	"log/slog"
	"runtime"
	"runtime/debug"
	"time"
)

const (
	// Interval is the time between two looks.
	Interval = 10 * time.Second
	// calmBytes is what a process at rest allocates at most in an Interval, for leases, watches and scrapes.
	calmBytes = 1 << 20
	// worthBytes is how much has to have been allocated since memory was last given back for it to be worth doing again.
	worthBytes = 4 << 20
)

// allocated is the runtime's count of bytes allocated on the heap since the process started.
const allocated = "/gc/heap/allocs:bytes"

// Keep gives memory back whenever the process has come to rest, until ctx ends.
func Keep(ctx context.Context, log *slog.Logger) {
	ticker := time.NewTicker(Interval)
	defer ticker.Stop()
	keep(ctx, ticker.C, allocatedBytes, func() {
		// Pools keep what they have for one collection more: buffers as large as the largest chart.
		runtime.GC()
		debug.FreeOSMemory()
		if err := unmapExecutable(); err != nil {
			log.Debug("the executable's pages stay in memory", "error", err)
		}
	})
}

// keep looks with each tick.
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

// allocatedBytes is 0 where the runtime does not count: then nothing is given back.
func allocatedBytes() uint64 { return read(allocated) }

// rest knows when it is time.
type rest struct {
	// looked and given are the bytes allocated at the last look, and when memory was last given back.
	looked, given uint64
}

// due is told the bytes allocated so far, once in an Interval, and tells whether memory is to be given back now.
func (r *rest) due(allocated uint64) bool {
	calm := allocated-r.looked < calmBytes
	r.looked = allocated
	if !calm || allocated-r.given < worthBytes {
		return false
	}
	r.given = allocated
	return true
}
