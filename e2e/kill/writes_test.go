package kill_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/e2e/framework/faults"
	"github.com/fleet-hub/fleet/internal/protocol/names"
)

// kind is a kind of write, as far as the protocol distinguishes them: "create roles, registration".
type kind string

// sharing is a write that creates, changes or deletes a ClusterRoleBinding that agents share. Which one it is
// depends on the other agents.
const sharing kind = "share clusterrolebindings"

// kindOf returns the kind of a write.
func kindOf(r faults.Request) kind {
	if r.Resource == "clusterrolebindings" {
		return sharing
	}
	where := "a cluster's namespace"
	switch r.Namespace {
	case "":
		return kind(r.Verb + " " + r.Resource)
	case framework.Workspace:
		where = "the workspace"
	case names.RegistrationNamespace(names.SystemNamespace):
		where = "the registration namespace"
	case names.SystemNamespace:
		where = "the system namespace"
	}
	return kind(r.Verb + " " + r.Resource + " in " + where)
}

// countsAsWrite excludes requests that do not change the result: leases, Events and reviews.
func countsAsWrite(r faults.Request) bool {
	return r.Resource != "leases" && r.Resource != "events" && r.Group != "authorization.k8s.io" && r.Group != "authentication.k8s.io"
}

// isDelivery reports whether a write belongs to the delivery to a registered cluster, and not to its grant.
func (k kind) isDelivery() bool {
	return strings.Contains(string(k), " bundle") || strings.Contains(string(k), " content")
}

// writes counts the controllers' writes, and waits for a write of a kind.
type writes struct {
	mu     sync.Mutex
	counts map[kind]int
	trap   *trap
}

// trap is sprung by the next write of a kind.
type trap struct {
	kind   kind
	spring func(*slot)
	sprung chan *slot
}

func newWrites() *writes { return &writes{counts: map[kind]int{}} }

// wrote is called after a write has taken effect and before the writer gets the response.
func (w *writes) wrote(by *slot, about faults.Request) {
	k := kindOf(about)
	w.mu.Lock()
	w.counts[k]++
	t := w.trap
	if t == nil || t.kind != k {
		w.mu.Unlock()
		return
	}
	w.trap = nil
	t.spring(by) // under the lock, so that there are no writes while the writer ends
	w.mu.Unlock()
	t.sprung <- by
}

// set sets a trap for the next write of a kind. spring is called before the writer gets the response.
func (w *writes) set(k kind, spring func(*slot)) *trap {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trap = &trap{kind: k, spring: spring, sprung: make(chan *slot, 1)}
	return w.trap
}

// unset removes a trap, and reports whether it was still set.
func (w *writes) unset(t *trap) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.trap != t {
		return false
	}
	w.trap = nil
	return true
}

// kinds returns the kinds of grant writes that occurred at least this often, sorted, with their counts.
func (w *writes) kinds(atLeast int) (found []kind) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for k, count := range w.counts {
		if count >= atLeast && !k.isDelivery() {
			found = append(found, k)
		}
	}
	slices.Sort(found)
	return found
}

// forget resets the counts, and returns the kinds of grant writes so far.
func (w *writes) forget() []kind {
	known := w.kinds(1)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts = map[kind]int{}
	return known
}

// total returns the number of writes.
func (w *writes) total() (sum int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, count := range w.counts {
		sum += count
	}
	return sum
}

// String returns one line per kind.
func (w *writes) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var text []string
	for k, count := range w.counts {
		text = append(text, fmt.Sprintf("%5d %s", count, k))
	}
	slices.Sort(text)
	return strings.Join(text, "\n")
}
