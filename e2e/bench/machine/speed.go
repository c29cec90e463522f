package machine

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// usualPercent is Go's default for GOGC. It makes the speeds of different versions of this command comparable.
const usualPercent = 100

// speedTime is the duration of a speed measurement.
const speedTime = 500 * time.Millisecond

// Speeds are the machine's speeds before and after a run: how many documents like a hub's objects one processor
// encodes and decodes per second, while all processors do the same. Shared machines are sometimes half as fast as
// at other times. Interpret times and processor times with these speeds.
type Speeds struct {
	Before int `json:"before"`
	After  int `json:"after"`
}

// OnlySpeed is the argument with which the command measures the machine's speed, and nothing else.
const OnlySpeed = "speed-of-this-machine"

// Speed measures the current speed in a process of its own, which runs this command with OnlySpeed: with thousands of
// simulated agents, this process would collect garbage most of the time.
func Speed(ctx context.Context) (int, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, fmt.Errorf("finding this command: %w", err)
	}
	printed, err := exec.CommandContext(ctx, self, OnlySpeed).Output()
	if err != nil {
		return 0, fmt.Errorf("measuring the machine's speed: %w", err)
	}
	return strconv.Atoi(strings.TrimSpace(string(printed)))
}

// SpeedHere measures the current speed in this process.
func SpeedHere(clock func() time.Time) int {
	defer debug.SetGCPercent(debug.SetGCPercent(usualPercent))
	document := speedDocument()
	var done atomic.Int64
	var all sync.WaitGroup
	began := clock()
	for range runtime.NumCPU() {
		all.Go(func() {
			for clock().Sub(began) < speedTime {
				encoded, err := json.Marshal(document)
				if err != nil {
					return // strings and maps can always be encoded
				}
				var decoded map[string]any
				if json.Unmarshal(encoded, &decoded) == nil {
					done.Add(1)
				}
			}
		})
	}
	all.Wait()
	return int(float64(done.Load()) / clock().Sub(began).Seconds() / float64(runtime.NumCPU()))
}

// speedDocument returns some kilobytes of nested maps, similar to a Bundle or a Cluster.
func speedDocument() map[string]any {
	document := map[string]any{"content": strings.Repeat("kind: ConfigMap\n", 256)}
	for _, field := range strings.Fields("metadata spec status conditions resources targets summary display") {
		inner := map[string]any{}
		for _, key := range strings.Fields("name namespace labels annotations type reason message count ready") {
			inner[key] = []any{field, key, true, 1}
		}
		document[field] = inner
	}
	return document
}
