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

	"github.com/fleet-hub/fleet/internal/cmd/controller/bundles/ledger"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func TestTallyGoesOn(t *testing.T) {
	tests := map[string]struct {
		tally        tally
		again, gated bool
		want         bool
	}{
		"all that could be done was done":                      {tally: tally{written: 3}},
		"as many were created as may be":                       {tally: tally{written: 50}, again: true, want: true},
		"some of them were refused":                            {tally: tally{written: 48, refused: 2}, again: true, want: true},
		"all of them were refused":                             {tally: tally{refused: 50}, again: true, want: true},
		"nothing was achieved and nothing found out":           {again: true, gated: true},
		"what was refused has taken up room":                   {tally: tally{written: 1, refused: 1}, gated: true, want: true},
		"what was refused has taken up nothing":                {tally: tally{written: 1, refused: 1}},
		"others wait for what was written":                     {tally: tally{written: 1}, gated: true},
		"other writes would fail too":                          {tally: tally{written: 40, refused: 2, over: true}, again: true, gated: true},
		"other writes would fail too, and nothing was written": {tally: tally{over: true}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := test.tally.goesOn(test.again, test.gated); got != test.want {
				t.Errorf("goes on: %v, want %v", got, test.want)
			}
		})
	}
}

func TestConcernsAll(t *testing.T) {
	tests := map[string]struct {
		err  error
		want bool
	}{
		"no answer":                          {errDown, true},
		"no answer to one of several":        {fmt.Errorf("creating the values secret: %w", errDown), true},
		"the end of the process":             {context.Canceled, true},
		"a credential that is not valid":     {apierrors.NewUnauthorized("no"), true},
		"an API server that begins":          {apierrors.NewServiceUnavailable("no"), true},
		"a quota":                            {errQuota, false},
		"an object that is not valid":        {apierrors.NewInvalid(schema.GroupKind{Kind: "BundleDeployment"}, "web", nil), false},
		"a size":                             {apierrors.NewRequestEntityTooLargeError("no"), false},
		"a webhook's answer":                 {errDenied, false},
		"a webhook that does not answer":     {errWebhook, false},
		"a conflict":                         {fmt.Errorf("patching: %w", errFaster), false},
		"a namespace that is not there":      {apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "c-one"), false},
		"another Bundle's BundleDeployment":  {errForeign, false},
		"one that the cache did not know of": {errors.Join(apierrors.NewAlreadyExists(deployments, "web"), errForeign), false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := concernsAll(test.err); got != test.want {
				t.Errorf("concerns all: %v, want %v", got, test.want)
			}
		})
	}
}

func TestPass_ReportsFailures(t *testing.T) {
	targets := func(failures ...string) ledger.Outcome {
		out := ledger.Outcome{}
		for i, failure := range failures {
			out.Targets = append(out.Targets, ledger.Target{Namespace: string(rune('a' + i)), Failure: failure})
		}
		return out
	}
	p := newPass(nil, failures{"a": {message: "before"}, "b": {message: "before"}})
	p.begin(targets("", "", ""), failures{"c": {message: "no template"}})
	if diff := cmp.Diff(targets("before", "before", "no template"), p.told()); diff != "" {
		t.Errorf("at the beginning (-want +got):\n%s", diff)
	}
	if err := p.note(&fleet.BundleDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "web"}}, errQuota); err == nil || !strings.HasPrefix(err.Error(), "writing a/web: ") {
		t.Errorf("error = %v", err)
	}
	p.begin(targets("", "", ""), nil)
	now := "write error: " + errQuota.Error()
	if diff := cmp.Diff(targets(now, "before", "no template"), p.told()); diff != "" {
		t.Errorf("in the second round (-want +got):\n%s", diff)
	}
	outcome, changed := p.end()
	if diff := cmp.Diff(targets(now, "", "no template"), outcome); diff != "" || !changed {
		t.Errorf("at the end, changed %v (-want +got):\n%s", changed, diff)
	}
	if diff := cmp.Diff(map[string]bool{"a": false, "c": false}, p.left); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
	if _, changed := newPass(nil, nil).end(); changed {
		t.Error("a pass without failures changes what is told")
	}
}
