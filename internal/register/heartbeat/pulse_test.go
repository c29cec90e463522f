package heartbeat

import (
	"testing"
	"time"
)

func TestPulse(t *testing.T) {
	at := func(text string) time.Time {
		t.Helper()
		parsed, err := time.Parse(time.RFC3339Nano, "2026-01-01T00:00:"+text+"Z")
		if err != nil {
			t.Fatal(err)
		}
		return parsed
	}
	tests := map[string]struct {
		last, now string
		want      time.Duration
	}{
		"the first heartbeat does not wait":                       {"", "10.5", 0},
		"a heartbeat a second later does not wait":                {"10.9", "11", 0},
		"heartbeat in the same second waits for the next":         {"10.1", "10.7", 300 * time.Millisecond},
		"heartbeat at the start of a second waits a whole second": {"10", "10", time.Second},
		"clock set back: does not wait":                           {"20", "10.5", 0},
		"last nanosecond of the same second waits":                {"10", "10.999999999", time.Nanosecond},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			pulse := &Pulse{}
			if test.last != "" {
				pulse.beat(at(test.last))
			}
			if got := pulse.left(at(test.now)); got != test.want {
				t.Errorf("waits %s, want %s", got, test.want)
			}
		})
	}
}
