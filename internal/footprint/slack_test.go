package footprint

import (
	"runtime"
	"runtime/debug"
	"testing"
)

func TestPercentFor(t *testing.T) {
	tests := map[string]struct {
		slack, live uint64
		want        int
	}{
		"a small heap may grow to many times its size": {slack: 48 << 20, live: 4 << 20, want: 1200},
		"one that is nearly as large, by a little":     {slack: 48 << 20, live: 40 << 20, want: 120},
		"a large one grows as usual":                   {slack: 48 << 20, live: 200 << 20, want: 100},
		"one of the size of the slack, too":            {slack: 48 << 20, live: 48 << 20, want: 100},
		"so does one that was never collected":         {slack: 48 << 20, live: 0, want: 100},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := percentFor(test.slack, test.live); got != test.want {
				t.Errorf("%d %%, want %d", got, test.want)
			}
		})
	}
}

// TestAfterEach collects and waits for the call, more than once.
func TestAfterEach(t *testing.T) {
	called := make(chan struct{}, 16)
	afterEach(func() {
		select {
		case called <- struct{}{}:
		default: // collections that nobody here asked for
		}
	})
	for range 3 {
		runtime.GC()
		select {
		case <-called:
		case <-t.Context().Done():
			t.Fatal("a collection was not noticed")
		}
	}
}

// percent is the growth that holds.
func percent() int {
	now := debug.SetGCPercent(usualPercent)
	debug.SetGCPercent(now)
	return now
}

func TestSlack_LeavesExplicitSettings(t *testing.T) {
	before := debug.SetGCPercent(50)
	defer debug.SetGCPercent(before)
	Slack(1 << 40)
	runtime.GC()
	if got := percent(); got != 50 {
		t.Errorf("GOGC was 50 and is %d", got)
	}
}

func TestLiveBytes(t *testing.T) {
	runtime.GC()
	if liveBytes() == 0 {
		t.Error("the runtime does not count what is alive")
	}
}
