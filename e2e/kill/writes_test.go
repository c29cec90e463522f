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

// kind is a kind of write, told apart as far as the protocol does: "create roles, registration".
type kind string

// sharing is a kind of write that makes a ClusterRoleBinding that agents share, or changes or removes it: which, depends on
// who else shares it.
const sharing kind = "share clusterrolebindings"

// kindOf says what was written where.
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

// countsAsWrite leaves out what tells of what is done, and is not it: leases, Events, and reviews.
func countsAsWrite(r faults.Request) bool {
	return r.Resource != "leases" && r.Resource != "events" && r.Group != "authorization.k8s.io" && r.Group != "authentication.k8s.io"
}

// isDelivery says whether a write is about what a cluster is given once it has joined, and no part of its grant.
func (k kind) isDelivery() bool {
	return strings.Contains(string(k), " bundle") || strings.Contains(string(k), " content")
}

// writes counts what the controllers have written, and waits for one of a kind.
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

// wrote is called when a write has taken effect and its writer does not know yet.
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
	t.spring(by) // under the lock: nothing is written while the writer ends
	w.mu.Unlock()
	t.sprung <- by
}

// set sets a trap for the next write of a kind: spring is called before the writer knows of its write.
func (w *writes) set(k kind, spring func(*slot)) *trap {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trap = &trap{kind: k, spring: spring, sprung: make(chan *slot, 1)}
	return w.trap
}

// unset takes a trap away, and says whether it was still there.
func (w *writes) unset(t *trap) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.trap != t {
		return false
	}
	w.trap = nil
	return true
}

// kinds are those of a grant that were written at least so often, sorted, with their counts.
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

// forget begins to count anew, and returns the kinds of a grant there were.
func (w *writes) forget() []kind {
	known := w.kinds(1)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts = map[kind]int{}
	return known
}

// total is how many writes there were.
func (w *writes) total() (sum int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, count := range w.counts {
		sum += count
	}
	return sum
}

// String has a line for each kind.
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
