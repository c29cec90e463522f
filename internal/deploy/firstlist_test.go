package deploy

import (
	"context"
	"testing"
	"time"
)

func TestFirstList_AnswersOncePerRelease(t *testing.T) {
	key, other := releaseKey{"web", "a"}, releaseKey{"web", "b"}
	listed := map[releaseKey]revisionSecret{key: {number: 3}}
	tests := map[string]struct {
		listed map[releaseKey]revisionSecret
		before func(*beginning)
		key    releaseKey
		after  time.Duration
		want   bool
	}{
		"release in first list: is valid":                 {listed: listed, key: key, want: true},
		"just before the list expires: is valid":          {listed: listed, key: key, after: beginningLasts - 1, want: true},
		"after the list expired: is invalid":              {listed: listed, key: key, after: beginningLasts},
		"release not in first list: is invalid":           {listed: listed, key: other},
		"list failed: is invalid":                         {key: key},
		"second lookup of a release: is invalid":          {listed: listed, key: key, before: func(b *beginning) { b.newestOf(t.Context(), key, noon) }},
		"lookup of another release before: is valid":      {listed: listed, key: key, before: func(b *beginning) { b.newestOf(t.Context(), other, noon) }, want: true},
		"release written to since: is invalid":            {listed: listed, key: key, before: func(b *beginning) { b.spend(key) }},
		"release only in a later list: is invalid":        {listed: listed, key: other, before: func(b *beginning) { b.know(map[releaseKey]revisionSecret{other: {number: 1}}, noon) }},
		"first list failed, second succeeded: is invalid": {key: key, before: func(b *beginning) { b.know(listed, noon) }},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBeginning()
			b.know(test.listed, noon)
			if test.before != nil {
				test.before(b)
			}
			got, counts := b.newestOf(t.Context(), test.key, noon.Add(test.after))
			if counts != test.want || counts && got.number != 3 {
				t.Errorf("got revision %d, which counts: %t", got.number, counts)
			}
		})
	}
}

func TestFirstListPending_LookupWaits(t *testing.T) {
	key := releaseKey{"web", "a"}
	b := newBeginning()
	b.spend(releaseKey{"web", "made-meanwhile"})
	answer := make(chan bool)
	go func() {
		_, counts := b.newestOf(t.Context(), key, noon)
		answer <- counts
	}()
	select {
	case counts := <-answer:
		t.Fatalf("there was no list, and an answer: %t", counts)
	default:
	}
	b.know(map[releaseKey]revisionSecret{key: {number: 1}, {"web", "made-meanwhile"}: {number: 1}}, noon)
	if !receive(t, answer) {
		t.Error("it does not count")
	}
	if _, counts := b.newestOf(t.Context(), releaseKey{"web", "made-meanwhile"}, noon); counts {
		t.Error("what was written to before the list came counts")
	}
}

func TestCancelledContext_EndsWaitForFirstList(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, counts := newBeginning().newestOf(ctx, releaseKey{"web", "a"}, noon); counts {
		t.Error("something counts that was never listed")
	}
}
