package footprint

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// usualPercent is how much a heap grows between two collections, in percent of what is alive, unless somebody says
// otherwise.
const usualPercent = 100

// inUse is the runtime's count of bytes that the last collection found alive.
const inUse = "/gc/heap/live:bytes"

// Slack lets the heap grow by at least so many bytes between two collections, however little is alive: a small heap is
// else collected again and again while there is much to do, which costs a hub where clusters join a tenth of its time.
// What it costs in memory is given back at rest. Where GOGC says something else, that holds. It cannot be undone.
func Slack(bytes uint64) {
	if before := debug.SetGCPercent(usualPercent); before != usualPercent {
		debug.SetGCPercent(before)
		return
	}
	afterEach(func() { debug.SetGCPercent(percentFor(bytes, liveBytes())) })
}

// percentFor is the growth that leaves so much slack.
func percentFor(slack, live uint64) int {
	if live == 0 {
		return usualPercent // nothing has been collected yet
	}
	return int(max(usualPercent, slack*100/live)) //nolint:gosec // slack is a few megabytes
}

// collection is alive until the next one.
type collection struct{ done func() }

// afterEach calls done after each collection from now on, from a goroutine of the runtime.
func afterEach(done func()) {
	runtime.SetFinalizer(&collection{done: done}, func(c *collection) {
		c.done()
		afterEach(c.done)
	})
}

func liveBytes() uint64 { return read(inUse) }

// read is a count of the runtime's; 0 if it does not count that.
func read(name string) uint64 {
	sample := []metrics.Sample{{Name: name}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return sample[0].Value.Uint64()
}
