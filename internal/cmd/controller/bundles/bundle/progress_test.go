package bundle

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fleet-hub/fleet/internal/rules/selection"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func TestRoundResult_HasMore(t *testing.T) {
	tests := map[string]struct {
		result       roundResult
		again, gated bool
		want         bool
	}{
		"everything was written":                               {result: roundResult{written: 3}},
		"maxNew were created":                                  {result: roundResult{written: 50}, again: true, want: true},
		"some creations were refused":                          {result: roundResult{written: 48, refused: 2}, again: true, want: true},
		"all creations were refused":                           {result: roundResult{refused: 50}, again: true, want: true},
		"nothing written and nothing learned":                  {again: true, gated: true},
		"a refused promotion counted against the limit":        {result: roundResult{written: 1, refused: 1}, gated: true, want: true},
		"a refused write counted against no limit":             {result: roundResult{written: 1, refused: 1}},
		"others wait for written targets":                      {result: roundResult{written: 1}, gated: true},
		"other writes would fail too":                          {result: roundResult{written: 40, refused: 2, over: true}, again: true, gated: true},
		"other writes would fail too, and nothing was written": {result: roundResult{over: true}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := test.result.hasMore(test.again, test.gated); got != test.want {
				t.Errorf("has more: %v, want %v", got, test.want)
			}
		})
	}
}

func TestConcernsAll(t *testing.T) {
	tests := map[string]struct {
		err  error
		want bool
	}{
		"no answer":                               {errDown, true},
		"no answer to one of several":             {fmt.Errorf("creating the values secret: %w", errDown), true},
		"the process is stopping":                 {context.Canceled, true},
		"an invalid credential":                   {apierrors.NewUnauthorized("no"), true},
		"an API server that is starting":          {apierrors.NewServiceUnavailable("no"), true},
		"a quota":                                 {errQuota, false},
		"an invalid object":                       {apierrors.NewInvalid(schema.GroupKind{Kind: "BundleDeployment"}, "web", nil), false},
		"an object that is too large":             {apierrors.NewRequestEntityTooLargeError("no"), false},
		"a webhook that denies":                   {errDenied, false},
		"a webhook that does not answer":          {errWebhook, false},
		"a conflict":                              {fmt.Errorf("patching: %w", errFaster), false},
		"a missing namespace":                     {apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "c-one"), false},
		"a BundleDeployment of another Bundle":    {errForeign, false},
		"a BundleDeployment missing in the cache": {errors.Join(apierrors.NewAlreadyExists(deployments, "web"), errForeign), false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := concernsAll(test.err); got != test.want {
				t.Errorf("concerns all: %v, want %v", got, test.want)
			}
		})
	}
}

// The BundleDeployment exists when its Secret gets the owner.
func TestSecretThatGetsNoOwner_CountsAsWritten(t *testing.T) {
	for name, fails := range map[string]error{"refused": errDenied, "no answer": errDown} {
		t.Run(name, func(t *testing.T) {
			p := newProgress(nil, nil)
			err := p.add(&fleet.BundleDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "web"}}, fmt.Errorf("%w: %w", errNoOwner, fails))
			if !errors.Is(err, fails) {
				t.Errorf("error = %v, want it to be retried", err)
			}
			if got, want := p.result(), (roundResult{written: 1}); got != want {
				t.Errorf("result %+v, want %+v", got, want)
			}
			if !p.failedWrites["a"] {
				t.Error("the write counts as certainly not applied")
			}
		})
	}
}

func TestProgress_ReportsFailures(t *testing.T) {
	targets := func(failures ...string) selection.Outcome {
		out := selection.Outcome{}
		for i, failure := range failures {
			out.Targets = append(out.Targets, selection.Target{Namespace: string(rune('a' + i)), Failure: failure})
		}
		return out
	}
	p := newProgress(nil, failures{"a": {message: "before"}, "b": {message: "before"}})
	p.begin(targets("", "", ""), failures{"c": {message: "no template"}})
	if diff := cmp.Diff(targets("before", "before", "no template"), p.reported()); diff != "" {
		t.Errorf("at the beginning (-want +got):\n%s", diff)
	}
	if err := p.add(&fleet.BundleDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "web"}}, errQuota); err == nil || !strings.HasPrefix(err.Error(), "writing a/web: ") {
		t.Errorf("error = %v", err)
	}
	p.begin(targets("", "", ""), nil)
	now := "write error: " + errQuota.Error()
	if diff := cmp.Diff(targets(now, "before", "no template"), p.reported()); diff != "" {
		t.Errorf("in the second round (-want +got):\n%s", diff)
	}
	outcome, changed := p.end()
	if diff := cmp.Diff(targets(now, "", "no template"), outcome); diff != "" || !changed {
		t.Errorf("at the end, changed %v (-want +got):\n%s", changed, diff)
	}
	if diff := cmp.Diff(map[string]bool{"a": false, "c": false}, p.failedWrites); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
	if _, changed := newProgress(nil, nil).end(); changed {
		t.Error("a pass without failures changes what is told")
	}
}
