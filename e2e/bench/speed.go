package main

import (
	"encoding/json"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// usualPercent is GOGC where nobody has set it: speeds are compared between versions of this command.
const usualPercent = 100

// speedTime is how long the machine's speed is measured.
const speedTime = 500 * time.Millisecond

// speeds are the machine's before and after a run: how often in a second one processor encodes and decodes a document
// like the objects of a hub, all processors at it. Shared machines are at times half as fast as at others, and
// times and processor times are to be read with that.
type speeds struct {
	Before int `json:"before"`
	After  int `json:"after"`
}

// speed measures it now.
func speed(clock func() time.Time) int {
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
					return // strings and maps can be encoded
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

// speedDocument is some kilobytes of nested maps, as a Bundle or a Cluster is.
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
