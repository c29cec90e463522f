package rules_test

import (
	"flag"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fleet-hub/fleet/e2e/framework/golden"
)

var (
	seed   = flag.Uint64("seed", 0, "replay the transcripts in the one order of this seed")
	orders = flag.Uint64("orders", 40, "in how many random orders each transcript is replayed, and in an eighth of them after a deletion")
)

// TestTranscripts_MatchTheGoldens records each flow. All controllers act in turn.
func TestTranscripts_MatchTheGoldens(t *testing.T) {
	for name, flow := range flows() {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			flow(w)
			golden.Expect(t, filepath.Join("transcripts", name+".golden"), w.story.String())
		})
	}
}

// TestTranscripts_HaveTheSameResultInAnyOrder replays each flow in -orders random orders with interruptions, in ten with -short.
// The result is the same.
func TestTranscripts_HaveTheSameResultInAnyOrder(t *testing.T) {
	for name, flow := range flows() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inTurn := newWorld(t, nil)
			flow(inTurn)
			first, last := uint64(1), *orders
			if testing.Short() {
				last = 10
			}
			if *seed != 0 {
				first, last = *seed, *seed
			}
			for s := first; s <= last; s++ {
				w := newWorld(t, rand.New(rand.NewPCG(s, 0))) //nolint:gosec // an order, not a secret
				flow(w)
				if !reflect.DeepEqual(inTurn.objects, w.objects) {
					t.Fatalf("-seed %d ends otherwise (-in turn +at random):\n%s\nits story:\n%s", s, cmp.Diff(inTurn.state(), w.state()), w.story.String())
				}
			}
		})
	}
}
