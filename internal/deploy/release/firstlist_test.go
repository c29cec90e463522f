package release

import (
	"context"
	"testing"
	"time"

	"github.com/fleet-hub/fleet/internal/deploy/deploytest"
	"github.com/fleet-hub/fleet/internal/deploy/placement"
)

func TestFirstList_AnswersOncePerRelease(t *testing.T) {
	key, other := placement.Release{Namespace: "web", Name: "a"}, placement.Release{Namespace: "web", Name: "b"}
	listed := map[placement.Release]RevisionSecret{key: {number: 3}}
	tests := map[string]struct {
		listed map[placement.Release]RevisionSecret
		before func(*beginning)
		key    placement.Release
		after  time.Duration
		want   bool
	}{
		"release in first list: is valid":            {listed: listed, key: key, want: true},
		"just before the list expires: is valid":     {listed: listed, key: key, after: beginningLasts - 1, want: true},
		"after the list expired: is invalid":         {listed: listed, key: key, after: beginningLasts},
		"release not in first list: is invalid":      {listed: listed, key: other},
		"list failed: is invalid":                    {key: key},
		"second lookup of a release: is invalid":     {listed: listed, key: key, before: func(b *beginning) { b.newestOf(t.Context(), key, deploytest.Noon()) }},
		"lookup of another release before: is valid": {listed: listed, key: key, before: func(b *beginning) { b.newestOf(t.Context(), other, deploytest.Noon()) }, want: true},
		"release written to since: is invalid":       {listed: listed, key: key, before: func(b *beginning) { b.spend(key) }},
		"release only in a later list: is invalid": {listed: listed, key: other, before: func(b *beginning) {
			b.know(map[placement.Release]RevisionSecret{other: {number: 1}}, deploytest.Noon())
		}},
		"first list failed, second succeeded: is invalid": {key: key, before: func(b *beginning) { b.know(listed, deploytest.Noon()) }},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBeginning()
			b.know(test.listed, deploytest.Noon())
			if test.before != nil {
				test.before(b)
			}
			got, counts := b.newestOf(t.Context(), test.key, deploytest.Noon().Add(test.after))
			if counts != test.want || counts && got.number != 3 {
				t.Errorf("got revision %d, which counts: %t", got.number, counts)
			}
		})
	}
}

func TestFirstListPending_LookupWaits(t *testing.T) {
	key := placement.Release{Namespace: "web", Name: "a"}
	b := newBeginning()
	b.spend(placement.Release{Namespace: "web", Name: "made-meanwhile"})
	answer := make(chan bool)
	go func() {
		_, counts := b.newestOf(t.Context(), key, deploytest.Noon())
		answer <- counts
	}()
	select {
	case counts := <-answer:
		t.Fatalf("there was no list, and an answer: %t", counts)
	default:
	}
	b.know(map[placement.Release]RevisionSecret{key: {number: 1}, {Namespace: "web", Name: "made-meanwhile"}: {number: 1}}, deploytest.Noon())
	if !deploytest.Receive(t, answer) {
		t.Error("it does not count")
	}
	if _, counts := b.newestOf(t.Context(), placement.Release{Namespace: "web", Name: "made-meanwhile"}, deploytest.Noon()); counts {
		t.Error("what was written to before the list came counts")
	}
}

func TestCancelledContext_EndsWaitForFirstList(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, counts := newBeginning().newestOf(ctx, placement.Release{Namespace: "web", Name: "a"}, deploytest.Noon()); counts {
		t.Error("something counts that was never listed")
	}
}
