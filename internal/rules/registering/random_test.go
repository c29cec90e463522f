package registering

import (
	"crypto/rand"
	"errors"
	"strings"
	"testing"
	"testing/iotest"
)

func TestNewClientRandom(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		token, err := NewClientRandom(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		if len(token) != 54 || strings.Trim(token, "bcdfghjklmnpqrstvwxz2456789") != "" || seen[token] {
			t.Fatalf("token %q is too short, of other characters, or not the first of its kind", token)
		}
		seen[token] = true
	}
}

// Bytes above the last whole round of the alphabet are discarded, so that all characters are equally likely.
func TestNewClientRandom_IsUniform(t *testing.T) {
	token, err := NewClientRandom(&stepping{})
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

func TestNewClientRandom_ReturnsTheErrorOfItsSource(t *testing.T) {
	dry := errors.New("dry")
	if token, err := NewClientRandom(iotest.ErrReader(dry)); !errors.Is(err, dry) {
		t.Errorf("token %q, error %v, want %v", token, err, dry)
	}
}
