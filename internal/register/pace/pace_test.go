package pace

import (
	"bytes"
	"errors"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestPace(t *testing.T) {
	noon := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	p := New(time.Second, 15*time.Second, middle{})
	now := noon
	var pauses []time.Duration
	for range 8 {
		p.Tried(now, nil)
		pauses = append(pauses, p.Until(now))
		now = now.Add(p.Until(now))
	}
	want := []time.Duration{1e9, 2e9, 4e9, 8e9, 15e9, 15e9, 15e9, 15e9}
	if diff := cmp.Diff(want, pauses); diff != "" {
		t.Errorf("pauses (-want +got):\n%s", diff)
	}
	p.Reset()
	if got := p.Until(now); got != 0 {
		t.Errorf("after a reset the next attempt is due in %s", got)
	}
	p.Tried(now, nil)
	if got := p.Until(now); got != time.Second {
		t.Errorf("after a reset the first pause is %s", got)
	}
}

func TestPaceSpare(t *testing.T) {
	noon := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	tests := map[string]struct {
		last time.Time
		want time.Duration
	}{
		"no attempt yet: due":                {time.Time{}, 0},
		"long after the last attempt: due":   {noon.Add(-time.Hour), 5*time.Second - time.Hour},
		"soon after the last attempt: waits": {noon.Add(-2 * time.Second), 3 * time.Second},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			p := New(time.Second, time.Minute, middle{})
			if !test.last.IsZero() {
				p.Tried(test.last, nil)
			}
			p.Spare(5 * time.Second)
			if got := p.Until(noon); got != test.want {
				t.Errorf("due in %s, want %s", got, test.want)
			}
		})
	}
}

func TestJitter(t *testing.T) {
	tests := map[string]struct {
		chance byte
		want   time.Duration
	}{
		"least":    {0, 500 * time.Millisecond},
		"none":     {128, time.Second},
		"almost":   {192, 1250 * time.Millisecond},
		"greatest": {255, 1496093750 * time.Nanosecond},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := Jitter(time.Second, bytes.NewReader([]byte{test.chance})); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
	if got := Jitter(time.Second, iotest.ErrReader(errors.New("dry"))); got != time.Second {
		t.Errorf("without chance %s, want 1s", got)
	}
}

// middle is a source of the number that changes no pause.
type middle struct{}

func (middle) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 128
	}
	return len(p), nil
}
