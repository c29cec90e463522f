// Package faults simulates failures of requests to an API server: refused requests, lost connections, missing
// responses, untrusted certificates, and a client that is killed while its request takes effect.
//
//	client ─► Plan.Transport ─► API server      within the client: http.RoundTripper, of rest.Config.Wrap
//	process ─► Proxy ─► API server              sees requests; the same faults, for a separate process
//	process ─► Wire ─► API server               sees bytes: a cable that can be cut, or go silent
//
// Nothing here waits for a time unless a time is given: a held request is held until it is released.
package faults

import (
	"context"
	"net/http"
	"slices"
	"sync"
)

// Match selects requests. An empty field matches all.
type Match struct {
	// Verb is one of Request.Verb's, or "write" for all requests that change something.
	Verb string
	// Resource is for example "secrets" or "clusters/status". Namespace and Name are the object's, as far as the
	// path contains them.
	Resource, Namespace, Name string
	// If must return true for the request. Nil matches all.
	If func(Request) bool
}

func (m Match) means(r Request) bool {
	is := func(want, got string) bool { return want == "" || want == got }
	verb := is(m.Verb, r.Verb) || m.Verb == "write" && r.Writes()
	return verb && is(m.Resource, r.Resource) && is(m.Namespace, r.Namespace) && is(m.Name, r.Name) && (m.If == nil || m.If(r))
}

// Rule applies a fault to requests.
type Rule struct {
	Match
	// Skip is the number of matching requests that pass before the first one meets the fault.
	Skip int
	// Times is the number of requests that meet the fault. 0 means all.
	Times int
	Fault Fault
}

// Plan is a list of rules. It is empty at first, and may be changed while requests are running.
type Plan struct {
	mu    sync.Mutex
	rules []*Active
}

// Active is a rule of a plan.
type Active struct {
	rule Rule
	plan *Plan

	seen, met int           // guarded by plan.mu
	changed   chan struct{} // closed and replaced at each request that meets the fault
}

// Add adds a rule. If several rules match a request, the first one's fault comes first. If that calls next, the
// next rule's fault follows.
func (p *Plan) Add(rule Rule) *Active {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := &Active{rule: rule, plan: p, changed: make(chan struct{})}
	p.rules = append(p.rules, a)
	return a
}

// First adds a rule before the existing ones.
func (p *Plan) First(rule Rule) *Active {
	a := p.Add(rule)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = append([]*Active{a}, p.rules[:len(p.rules)-1]...)
	return a
}

// On adds a rule for all requests with this verb and resource.
func (p *Plan) On(verb, resource string, fault Fault) *Active {
	return p.Add(Rule{Match: Match{Verb: verb, Resource: resource}, Fault: fault})
}

// Clear removes all rules. Requests that are already held stay held.
func (p *Plan) Clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = nil
}

// End removes the rule.
func (a *Active) End() {
	a.plan.mu.Lock()
	defer a.plan.mu.Unlock()
	a.plan.rules = slices.DeleteFunc(a.plan.rules, func(other *Active) bool { return other == a })
}

// Met returns how many requests have met the fault, including running ones.
func (a *Active) Met() int {
	a.plan.mu.Lock()
	defer a.plan.mu.Unlock()
	return a.met
}

// Await returns nil when this number of requests has met the fault, or an error when ctx ends.
func (a *Active) Await(ctx context.Context, requests int) error {
	for {
		a.plan.mu.Lock()
		met, changed := a.met, a.changed
		a.plan.mu.Unlock()
		if met >= requests {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// take returns the first of the given rules that applies to a request, and the rules after it.
func (p *Plan) take(r Request, rules []*Active) (*Active, []*Active) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, a := range rules {
		if !slices.Contains(p.rules, a) || !a.rule.means(r) {
			continue
		}
		a.seen++
		if a.seen <= a.rule.Skip || a.rule.Times > 0 && a.met >= a.rule.Times {
			continue
		}
		a.met++
		close(a.changed)
		a.changed = make(chan struct{})
		return a, rules[i+1:]
	}
	return nil, nil
}

func (p *Plan) current() []*Active {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.rules)
}

// Transport wraps a client's transport: rest.Config.Wrap(plan.Transport).
func (p *Plan) Transport(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		return p.meet(request, Read(request), p.current(), next)
	})
}

// meet sends a request through its faults, and then to the API server unless a fault keeps it.
func (p *Plan) meet(request *http.Request, about Request, rules []*Active, next http.RoundTripper) (*http.Response, error) {
	rule, others := p.take(about, rules)
	if rule == nil {
		return next.RoundTrip(request)
	}
	return rule.rule.Fault(request, about, func() (*http.Response, error) {
		return p.meet(request, about, others, next)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (r roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return r(request) }
