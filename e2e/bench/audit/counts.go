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

// IsPolling reports whether such requests are those of an agent that waits for its credential.
func (k Kind) IsPolling() bool {
	return k.Identity == Import && k.Resource == "secrets" && (k.Verb == "get" || k.Verb == "watch")
}

// IsLease reports whether such requests belong to a lease. They do not depend on what is measured.
func (k Kind) IsLease() bool { return k.Resource == "leases" }

// IsWrite reports whether such requests change objects, also if they failed. Leases and reviews are not writes.
func (k Kind) IsWrite() bool {
	if k.IsLease() || strings.HasSuffix(k.Resource, "reviews") {
		return false
	}
	return slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, k.Verb)
}

// IsCost reports whether such requests are costs of a registration. Requests of the measurement, polling and
// leases are not.
func (k Kind) IsCost() bool { return k.Identity != Bench && !k.IsPolling() && !k.IsLease() }

// Count is a number of requests, and how many of them failed.
type Count struct {
	Requests, Refused int
}

// Counts maps kinds of requests to their counts.
type Counts map[Kind]Count

// Add counts an event, if it is to be counted.
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

// Only returns the counts of the kinds for which is returns true.
func (c Counts) Only(is func(Kind) bool) Counts {
	some := Counts{}
	for kind, count := range c {
		if is(kind) {
			some[kind] = count
		}
	}
	return some
}

// Total returns the sum of all counts.
func (c Counts) Total() (sum Count) {
	for _, count := range c {
		sum.Requests += count.Requests
		sum.Refused += count.Refused
	}
	return sum
}

// Kinds returns the kinds sorted by identity, and then by descending count.
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
