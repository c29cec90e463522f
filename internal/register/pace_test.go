package register

import (
	"bytes"
	"crypto/rand"
	"errors"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestPace(t *testing.T) {
	noon := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	p := pace{first: time.Second, long: 15 * time.Second, random: zeros{}}
	now := noon
	var pauses []time.Duration
	for range 8 {
		p.tried(now, nil)
		pauses = append(pauses, p.until(now))
		now = now.Add(p.until(now))
	}
	want := []time.Duration{1e9, 2e9, 4e9, 8e9, 15e9, 15e9, 15e9, 15e9}
	if diff := cmp.Diff(want, pauses); diff != "" {
		t.Errorf("pauses (-want +got):\n%s", diff)
	}
	p.reset()
	if got := p.until(now); got != 0 {
		t.Errorf("after a reset the next attempt is due in %s", got)
	}
	p.tried(now, nil)
	if got := p.until(now); got != time.Second {
		t.Errorf("after a reset the first pause is %s", got)
	}
}

func TestPaceSpare(t *testing.T) {
	noon := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	tests := map[string]struct {
		last time.Time
		want time.Duration
	}{
		"before any attempt it is due":         {time.Time{}, 0},
		"long after the last attempt it is":    {noon.Add(-time.Hour), 5*time.Second - time.Hour},
		"soon after the last attempt it waits": {noon.Add(-2 * time.Second), 3 * time.Second},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			p := pace{first: time.Second, long: time.Minute, random: zeros{}}
			if !test.last.IsZero() {
				p.tried(test.last, nil)
			}
			p.spare(5 * time.Second)
			if got := p.until(noon); got != test.want {
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
			if got := jitter(time.Second, bytes.NewReader([]byte{test.chance})); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
	if got := jitter(time.Second, iotest.ErrReader(errors.New("dry"))); got != time.Second {
		t.Errorf("without chance %s, want 1s", got)
	}
}

func TestRandomToken(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		token, err := randomToken(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		if len(token) != 54 || strings.Trim(token, "bcdfghjklmnpqrstvwxz2456789") != "" || seen[token] {
			t.Fatalf("token %q is too short, of other characters, or not the first of its kind", token)
		}
		seen[token] = true
	}
}

// Bytes above the last whole round of the alphabet are thrown away, so that no character is likelier.
func TestRandomTokenIsEven(t *testing.T) {
	token, err := randomToken(&stepping{})
	if err != nil {
		t.Fatal(err)
	}
	// 243…255 are skipped: after 242, the last of the ninth round, comes 0 of the next.
	const alphabet = "bcdfghjklmnpqrstvwxz2456789"
	if want := alphabet[22:] + alphabet + alphabet[:22]; token != want {
		t.Errorf("token %q, want %q", token, want)
	}
}

// stepping yields 238, 239, … 255, 0, 1, …
type stepping struct{ n int }

func (s *stepping) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(238 + s.n)
		s.n++
	}
	return len(p), nil
}

func TestRandomTokenWithoutRandomness(t *testing.T) {
	dry := errors.New("dry")
	if token, err := randomToken(iotest.ErrReader(dry)); !errors.Is(err, dry) {
		t.Errorf("token %q, error %v, want %v", token, err, dry)
	}
}
