package audit

import (
	"cmp"
	"slices"
	"strings"
)

// Kind is one kind of request.
type Kind struct {
	Identity Identity
	Verb     string
	Resource string
}

// IsPolling tells whether requests of this kind are an agent that waits for its credential.
func (k Kind) IsPolling() bool {
	return k.Identity == Import && k.Resource == "secrets" && (k.Verb == "get" || k.Verb == "watch")
}

// IsLease tells whether requests of this kind belong to a lease: they come at their own pace, whatever happens.
func (k Kind) IsLease() bool { return k.Resource == "leases" }

// IsWrite tells whether requests of this kind change objects, or would have if they had not been refused. Leases are
// renewed for ever, and a review is a question.
func (k Kind) IsWrite() bool {
	if k.IsLease() || strings.HasSuffix(k.Resource, "reviews") {
		return false
	}
	return slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, k.Verb)
}

// IsCost tells whether requests of this kind are what a registration costs: not the measurement's own, not the polling,
// not leases.
func (k Kind) IsCost() bool { return k.Identity != Bench && !k.IsPolling() && !k.IsLease() }

// Count is how many requests there were, and how many of them were answered by an error.
type Count struct {
	Requests, Refused int
}

// Counts are requests by their kind.
type Counts map[Kind]Count

// Add counts an event, if it stands for a request.
func (c Counts) Add(who Identity, e Event) {
	if !e.Counts() {
		return
	}
	kind := e.Kind(who)
	count := c[kind]
	count.Requests++
	if e.IsRefused() {
		count.Refused++
	}
	c[kind] = count
}

// Only are those counts of which the given holds.
func (c Counts) Only(is func(Kind) bool) Counts {
	some := Counts{}
	for kind, count := range c {
		if is(kind) {
			some[kind] = count
		}
	}
	return some
}

// Total is the sum.
func (c Counts) Total() (sum Count) {
	for _, count := range c {
		sum.Requests += count.Requests
		sum.Refused += count.Refused
	}
	return sum
}

// Kinds are those counted: by identity, then the most frequent first.
func (c Counts) Kinds() []Kind {
	var kinds []Kind
	for kind := range c {
		kinds = append(kinds, kind)
	}
	slices.SortFunc(kinds, func(a, b Kind) int {
		return cmp.Or(
			cmp.Compare(a.Identity, b.Identity), -cmp.Compare(c[a].Requests, c[b].Requests),
			cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Verb, b.Verb),
		)
	})
	return kinds
}
