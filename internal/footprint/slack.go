package footprint

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// usualPercent is Go's default for GOGC: the growth of the heap between two collections, in percent of the live
// heap.
const usualPercent = 100

// inUse is the runtime metric for the live heap after the last collection, in bytes.
const inUse = "/gc/heap/live:bytes"

// Slack lets the heap grow by at least this many bytes between two collections. Otherwise a small heap is
// collected again and again under load, which costs a hub a tenth of its time while clusters join. Keep returns
// the memory when the process is idle. A GOGC setting overrides Slack. It cannot be undone.
func Slack(bytes uint64) {
	if before := debug.SetGCPercent(usualPercent); before != usualPercent {
		debug.SetGCPercent(before)
		return
	}
	afterEach(func() { debug.SetGCPercent(percentFor(bytes, liveBytes())) })
}

// percentFor returns the GOGC percentage that gives this much slack.
func percentFor(slack, live uint64) int {
	if live == 0 {
		return usualPercent // no collection yet
	}
	return int(max(usualPercent, slack*100/live)) //nolint:gosec // slack is a few megabytes
}

// collection lives until the next garbage collection.
type collection struct{ done func() }

// afterEach calls done after each garbage collection, from a goroutine of the runtime.
func afterEach(done func()) {
	runtime.SetFinalizer(&collection{done: done}, func(c *collection) {
		c.done()
		afterEach(c.done)
	})
}

func liveBytes() uint64 { return read(inUse) }

// read returns a runtime metric, or 0 if it is not available.
func read(name string) uint64 {
	sample := []metrics.Sample{{Name: name}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return sample[0].Value.Uint64()
}
