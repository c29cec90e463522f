package release

import (
	"context"
	"testing"
	"time"

	"github.com/fleet-hub/fleet/internal/deploy/deploytest"
	"github.com/fleet-hub/fleet/internal/deploy/placement"
)

func TestStartupList_AnswersOncePerRelease(t *testing.T) {
	key, other := placement.Release{Namespace: "web", Name: "a"}, placement.Release{Namespace: "web", Name: "b"}
	listed := map[placement.Release]RevisionSecret{key: {number: 3}}
	tests := map[string]struct {
		listed map[placement.Release]RevisionSecret
		before func(*startupList)
		key    placement.Release
		after  time.Duration
		want   bool
	}{
		"release in first list: is valid":            {listed: listed, key: key, want: true},
		"just before the list expires: is valid":     {listed: listed, key: key, after: startupListLasts - 1, want: true},
		"after the list expired: is invalid":         {listed: listed, key: key, after: startupListLasts},
		"release not in first list: is invalid":      {listed: listed, key: other},
		"list failed: is invalid":                    {key: key},
		"second lookup of a release: is invalid":     {listed: listed, key: key, before: func(l *startupList) { l.newestOf(t.Context(), key, deploytest.Noon()) }},
		"lookup of another release before: is valid": {listed: listed, key: key, before: func(l *startupList) { l.newestOf(t.Context(), other, deploytest.Noon()) }, want: true},
		"release written to since: is invalid":       {listed: listed, key: key, before: func(l *startupList) { l.claim(key) }},
		"release only in a later list: is invalid": {listed: listed, key: other, before: func(l *startupList) {
			l.set(map[placement.Release]RevisionSecret{other: {number: 1}}, deploytest.Noon())
		}},
		"first list failed, second succeeded: is invalid": {key: key, before: func(l *startupList) { l.set(listed, deploytest.Noon()) }},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			l := newStartupList()
			l.set(test.listed, deploytest.Noon())
			if test.before != nil {
				test.before(l)
			}
			got, valid := l.newestOf(t.Context(), test.key, deploytest.Noon().Add(test.after))
			if valid != test.want || valid && got.number != 3 {
				t.Errorf("got revision %d, valid: %t", got.number, valid)
			}
		})
	}
}

func TestStartupListPending_LookupWaits(t *testing.T) {
	key := placement.Release{Namespace: "web", Name: "a"}
	l := newStartupList()
	l.claim(placement.Release{Namespace: "web", Name: "made-meanwhile"})
	answer := make(chan bool)
	go func() {
		_, valid := l.newestOf(t.Context(), key, deploytest.Noon())
		answer <- valid
	}()
	select {
	case valid := <-answer:
		t.Fatalf("there was no list, and an answer: %t", valid)
	default:
	}
	l.set(map[placement.Release]RevisionSecret{key: {number: 1}, {Namespace: "web", Name: "made-meanwhile"}: {number: 1}}, deploytest.Noon())
	if !deploytest.Receive(t, answer) {
		t.Error("it does not count")
	}
	if _, valid := l.newestOf(t.Context(), placement.Release{Namespace: "web", Name: "made-meanwhile"}, deploytest.Noon()); valid {
		t.Error("what was written to before the list came is valid")
	}
}

func TestCancelledContext_EndsWaitForStartupList(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, valid := newStartupList().newestOf(ctx, placement.Release{Namespace: "web", Name: "a"}, deploytest.Noon()); valid {
		t.Error("a release that was never listed is valid")
	}
}
