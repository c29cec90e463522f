// Package faults lets requests to an API server meet what can happen to them on their way: refusals, lost
// connections, silence, certificates of somebody else, a client that is killed while its request takes effect.
//
//	client ─► Plan.Transport ─► API server      within the client: http.RoundTripper, of rest.Config.Wrap
//	process ─► Proxy ─► API server              sees requests; the same faults, and what becomes of the process
//	process ─► Wire ─► API server               sees bytes: a cable that can be cut, or go silent
//
// Nothing here waits for a time unless it is told one: what is held is held until it is let go.
package faults

import (
	"context"
	"net/http"
	"slices"
	"sync"
)

// Match says which requests are meant. A field that is empty means all.
type Match struct {
	// Verb is one of Request.Verb's, or "write" for all that ask for a change.
	Verb string
	// Resource is "secrets", "clusters/status"; Namespace and Name are the object's, as far as the path has them.
	Resource, Namespace, Name string
	// If must agree, too; nil does.
	If func(Request) bool
}

func (m Match) means(r Request) bool {
	is := func(want, got string) bool { return want == "" || want == got }
	verb := is(m.Verb, r.Verb) || m.Verb == "write" && r.Writes()
	return verb && is(m.Resource, r.Resource) && is(m.Namespace, r.Namespace) && is(m.Name, r.Name) && (m.If == nil || m.If(r))
}

// Rule lets requests meet a fault.
type Rule struct {
	Match
	// Skip is how many requests are let through before the first that meets the fault.
	Skip int
	// Times is how many meet it then; 0 means all.
	Times int
	Fault Fault
}

// Plan is what is to happen. It starts without faults, and can be changed while requests are on their way.
type Plan struct {
	mu    sync.Mutex
	rules []*Active
}

// Active is a rule in force.
type Active struct {
	rule Rule
	plan *Plan

	seen, met int           // guarded by plan.mu
	changed   chan struct{} // closed and made anew with each request that meets the fault
}

// Add puts a rule into force. A request that several mean meets the first one's fault, and the next one's when that
// lets it through.
func (p *Plan) Add(rule Rule) *Active {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := &Active{rule: rule, plan: p, changed: make(chan struct{})}
	p.rules = append(p.rules, a)
	return a
}

// First is Add for a rule that requests meet before those in force.
func (p *Plan) First(rule Rule) *Active {
	a := p.Add(rule)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = append([]*Active{a}, p.rules[:len(p.rules)-1]...)
	return a
}

// On is Add for all requests of a verb and resource, from now on.
func (p *Plan) On(verb, resource string, fault Fault) *Active {
	return p.Add(Rule{Match: Match{Verb: verb, Resource: resource}, Fault: fault})
}

// Clear ends all rules. Requests that meet their faults already are not let go.
func (p *Plan) Clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = nil
}

// End ends a rule.
func (a *Active) End() {
	a.plan.mu.Lock()
	defer a.plan.mu.Unlock()
	a.plan.rules = slices.DeleteFunc(a.plan.rules, func(other *Active) bool { return other == a })
}

// Met is how many requests have met the fault, those it is happening to included.
func (a *Active) Met() int {
	a.plan.mu.Lock()
	defer a.plan.mu.Unlock()
	return a.met
}

// Await returns when so many requests have met the fault, or when ctx ends, with its error.
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

// take is the next rule after those given that a request meets, and the rules after it.
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

// Transport is what a client's requests go through: rest.Config.Wrap(plan.Transport).
func (p *Plan) Transport(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		return p.meet(request, Read(request), p.current(), next)
	})
}

// meet sends a request through the faults it meets, to the API server if none of them keeps it.
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
