package faults_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fleet-hub/fleet/e2e/framework/faults"
)

// answers sends requests through a plan and returns the response codes. 200 is the server's code.
func answers(t *testing.T, plan *faults.Plan, requests ...string) (codes []int) {
	t.Helper()
	through := plan.Transport(roundTrip(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
	}))
	for _, line := range requests {
		var method, path string
		if _, err := fmt.Sscan(line, &method, &path); err != nil {
			t.Fatal(err)
		}
		request, err := http.NewRequestWithContext(t.Context(), method, "https://hub"+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := through.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		codes = append(codes, answer.StatusCode)
		_ = answer.Body.Close()
	}
	return codes
}

type roundTrip func(*http.Request) (*http.Response, error)

func (r roundTrip) RoundTrip(request *http.Request) (*http.Response, error) { return r(request) }

const (
	postSecret  = "POST /api/v1/namespaces/ws/secrets"
	patchSecret = "PATCH /api/v1/namespaces/ws/secrets/one"
	getSecret   = "GET /api/v1/namespaces/ws/secrets/one"
	getOther    = "GET /api/v1/namespaces/other/secrets/two"
	getRole     = "GET /apis/rbac.authorization.k8s.io/v1/namespaces/ws/roles/one"
)

func TestRule_AppliesToMatchingRequests(t *testing.T) {
	rule := func(match faults.Match, code int) faults.Rule {
		return faults.Rule{Match: match, Fault: faults.Answer(code)}
	}
	times := func(r faults.Rule, skip, times int) faults.Rule {
		r.Skip, r.Times = skip, times
		return r
	}
	tests := map[string]struct {
		rules    []faults.Rule
		requests []string
		want     []int
	}{
		"no rule: all pass": {nil, []string{getSecret, postSecret}, []int{200, 200}},
		"empty match: all requests": {
			[]faults.Rule{rule(faults.Match{}, 500)}, []string{getSecret, postSecret, "GET /readyz"}, []int{500, 500, 500},
		},
		"verb": {
			[]faults.Rule{rule(faults.Match{Verb: "get"}, 500)}, []string{getSecret, getRole, postSecret}, []int{500, 500, 200},
		},
		"verb write: all requests that change something": {
			[]faults.Rule{rule(faults.Match{Verb: "write"}, 500)}, []string{getSecret, postSecret, patchSecret}, []int{200, 500, 500},
		},
		"resource": {
			[]faults.Rule{rule(faults.Match{Resource: "secrets"}, 500)}, []string{getSecret, getRole, postSecret}, []int{500, 200, 500},
		},
		"namespace": {
			[]faults.Rule{rule(faults.Match{Namespace: "ws"}, 500)}, []string{getSecret, getOther, getRole}, []int{500, 200, 500},
		},
		"name": {
			[]faults.Rule{rule(faults.Match{Name: "one"}, 500)}, []string{getSecret, getOther, getRole}, []int{500, 200, 500},
		},
		"If function": {
			[]faults.Rule{rule(faults.Match{Verb: "get", If: func(r faults.Request) bool { return r.Group != "" }}, 500)},
			[]string{getSecret, getRole}, []int{200, 500},
		},
		"Skip: the first requests pass": {
			[]faults.Rule{times(rule(faults.Match{Verb: "get"}, 500), 2, 0)},
			[]string{getSecret, postSecret, getRole, getSecret, getSecret}, []int{200, 200, 200, 500, 500},
		},
		"Times: later requests pass": {
			[]faults.Rule{times(rule(faults.Match{Verb: "get"}, 500), 1, 2)},
			[]string{getSecret, getSecret, getSecret, getSecret}, []int{200, 500, 500, 200},
		},
		"two rules: the second counts only requests that reach it": {
			[]faults.Rule{times(rule(faults.Match{Verb: "get"}, 500), 0, 1), times(rule(faults.Match{Resource: "secrets"}, 403), 0, 2)},
			[]string{getSecret, getSecret, getSecret, getSecret}, []int{500, 403, 403, 200},
		},
		"fault that calls next: the next rule applies": {
			[]faults.Rule{{Fault: faults.After(func(faults.Request, int) {})}, rule(faults.Match{Verb: "get"}, 500)},
			[]string{getSecret, postSecret}, []int{500, 200},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			plan := &faults.Plan{}
			for _, rule := range test.rules {
				plan.Add(rule)
			}
			if diff := cmp.Diff(test.want, answers(t, plan, test.requests...)); diff != "" {
				t.Errorf("codes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEnd_RemovesTheRule(t *testing.T) {
	plan := &faults.Plan{}
	first, second := plan.On("get", "", faults.Answer(500)), plan.On("get", "", faults.Answer(403))
	got := answers(t, plan, getSecret)
	first.End()
	got = append(got, answers(t, plan, getSecret)...)
	first.End() // a second End has no effect
	plan.Clear()
	got = append(got, answers(t, plan, getSecret)...)
	if diff := cmp.Diff([]int{500, 403, 200}, got); diff != "" {
		t.Errorf("codes (-want +got):\n%s", diff)
	}
	if first.Met() != 1 || second.Met() != 1 {
		t.Errorf("met %d and %d", first.Met(), second.Met())
	}
}

func TestFirst_AddsTheRuleBeforeOthers(t *testing.T) {
	plan := &faults.Plan{}
	plan.On("get", "", faults.Answer(500))
	first := plan.First(faults.Rule{Match: faults.Match{Verb: "get"}, Fault: faults.Answer(403)})
	got := answers(t, plan, getSecret)
	first.End()
	if diff := cmp.Diff([]int{403, 500}, append(got, answers(t, plan, getSecret)...)); diff != "" {
		t.Errorf("codes (-want +got):\n%s", diff)
	}
}

func TestRuleEndedDuringARequest_IsNotApplied(t *testing.T) {
	plan := &faults.Plan{}
	var late *faults.Active
	plan.On("get", "", faults.Before(func(faults.Request) { late.End() }))
	late = plan.On("get", "", faults.Answer(500))
	if got := answers(t, plan, getSecret); got[0] != 200 {
		t.Errorf("codes %v", got)
	}
}

func TestAwait_ReturnsAfterEnoughRequests(t *testing.T) {
	plan := &faults.Plan{}
	active := plan.On("get", "", faults.Answer(500))
	ended := make(chan error)
	go func() { ended <- active.Await(t.Context(), 2) }()
	answers(t, plan, getSecret, postSecret, getSecret)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	ctx, giveUp := context.WithCancel(t.Context())
	giveUp()
	if err := active.Await(ctx, 3); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
