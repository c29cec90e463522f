package footprint

import (
	"context"
	"math"
	"runtime/debug"
	"time"
)

const (
	// leastLimit is the memory that an agent may use before garbage is collected earlier than usual. Small Bundles need
	// less.
	leastLimit = 36 << 20
	// bookkeeping is what the runtime needs beside the heap.
	bookkeeping = 12 << 20
	// limitInterval is the time between two checks of what is in use: longer than most deployments take.
	limitInterval = 10 * time.Second
)

// Limit limits the garbage of a process that deploys large charts now and then, until ctx ends. The limit is soft:
// when little is left, garbage is collected more often, for at most half of the processor time. What stays in use
// raises the limit. It does nothing if the environment sets a limit (GOMEMLIMIT).
func Limit(ctx context.Context) {
	if debug.SetMemoryLimit(-1) != math.MaxInt64 {
		return
	}
	ticker := time.NewTicker(limitInterval)
	defer ticker.Stop()
	limit(ctx, ticker.C, func() uint64 { return heap().live }, func(bytes int64) { debug.SetMemoryLimit(bytes) })
}

// limit sets the limit at first and on each tick.
func limit(ctx context.Context, ticks <-chan time.Time, live func() uint64, set func(int64)) {
	set(leastLimit)
	var before uint64
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks:
			now := live()
			set(limitFor(before, now))
			before = now
		}
	}
}

// limitFor returns the limit for the bytes that were in use at the last two checks. A deployment that is in hand at
// one of them does not count.
func limitFor(before, now uint64) int64 {
	lasting := int64(min(before, now)) //nolint:gosec // the memory of a process
	return max(leastLimit, lasting*3/2+bookkeeping)
}
