package bundle

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

var web = types.NamespacedName{Namespace: "ws", Name: "web"}

func version(v string) func(*fleet.BundleDeployment) {
	return func(bd *fleet.BundleDeployment) { bd.ResourceVersion = v }
}

func anew(bd *fleet.BundleDeployment) { bd.UID += "-again" }

// remembered returns the namespaces with entries.
func remembered(of *mutationsOfBundle) map[string]bool {
	namespaces := map[string]bool{}
	for namespace := range of.written.All() {
		namespaces[namespace] = true
	}
	for namespace := range of.uncertain {
		namespaces[namespace] = true
	}
	return namespaces
}

func someDeployments(all ...*fleet.BundleDeployment) []*fleet.BundleDeployment { return all }

var (
	conflict = apierrors.NewConflict(schema.GroupResource{Resource: "bundledeployments"}, "web", errors.New("older"))
	errLost  = errors.New("connection reset")
)

func TestNewest(t *testing.T) {
	tests := map[string]struct {
		before    func(*mutations)
		cached    []*fleet.BundleDeployment
		later     time.Duration
		want      []string
		uncertain []string
		// left is how many are still remembered.
		left int
	}{
		"nothing written: the cache by namespace": {
			func(*mutations) {}, someDeployments(existing("two", version("2")), existing("one", version("1"))), 0, []string{"one 1", "two 2"}, nil, 0,
		},
		"written: newer than the cache": {
			func(m *mutations) { m.note(web, existing("one", version("10"))) }, someDeployments(existing("one", version("9"))), 0, []string{"one 10"}, nil, 1,
		},
		"versions are compared as numbers": {
			func(m *mutations) { m.note(web, existing("one", version("9"))) }, someDeployments(existing("one", version("10"))), 0, []string{"one 10"}, nil, 0,
		},
		"cache has the written or a later version: the cache": {
			func(m *mutations) { m.note(web, existing("one", version("9")), existing("two", version("8"))) },
			someDeployments(existing("one", version("9")), existing("two", version("11"))), 0, []string{"one 9", "two 11"}, nil, 0,
		},
		"late response: not the newest": {
			func(m *mutations) { m.note(web, existing("one", version("9")), existing("one", version("8"))) }, someDeployments(existing("one", version("7"))), 0, []string{"one 9"}, nil, 1,
		},
		"created: known before the cache has it": {
			func(m *mutations) { m.note(web, existing("one", version("9"))) }, nil, unseen, []string{"one 9"}, nil, 1,
		},
		"created, not in the cache for long: forgotten": {
			func(m *mutations) { m.note(web, existing("one", version("9"))) }, nil, unseen + time.Second, nil, nil, 0,
		},
		"created, then deleted: forgotten": {
			func(m *mutations) {
				m.note(web, existing("one", version("9")), existing("two", version("9")))
				m.gone(web, existing("one"))
				m.gone(web, existing("two", anew)) // another one of that name
				m.gone(types.NamespacedName{Name: "other"}, existing("two"))
			}, nil, 0, []string{"two 9"}, nil, 1,
		},
		"recreated: the new one": {
			func(m *mutations) { m.note(web, existing("one", anew, version("9"))) }, someDeployments(existing("one", version("8"))), 0, []string{"one-again 9"}, nil, 1,
		},
		"written, then recreated: the new one": {
			func(m *mutations) { m.note(web, existing("one", version("8"))) }, someDeployments(existing("one", anew, version("9"))), 0, []string{"one-again 9"}, nil, 0,
		},
		"uncertain write: in doubt": {
			func(m *mutations) { m.noteUncertain(web, existing("one", version("9")), errLost) }, someDeployments(existing("one", version("9"))), time.Minute, []string{"one 9"}, []string{"c-one"}, 1,
		},
		"uncertain write, request has timed out: no doubt": {
			func(m *mutations) { m.noteUncertain(web, existing("one", version("9")), errLost) }, someDeployments(existing("one", version("9"))), 2 * time.Minute, []string{"one 9"}, nil, 0,
		},
		"uncertain write twice: the last one counts": {
			func(m *mutations) {
				now := m.clock()
				m.clock = func() time.Time { return now.Add(-time.Hour) }
				m.noteUncertain(web, existing("one", version("9")), errLost)
				m.clock = func() time.Time { return now }
				m.noteUncertain(web, existing("one", version("9")), errLost)
			}, someDeployments(existing("one", version("9"))), 0, []string{"one 9"}, []string{"c-one"}, 1,
		},
		"conflict, perhaps with an own write: in doubt": {
			func(m *mutations) {
				m.noteUncertain(web, existing("one", version("9")), fmt.Errorf("patching: %w", conflict))
			},
			someDeployments(existing("one", version("8"))), 0, []string{"one 9"}, []string{"c-one"}, 1,
		},
		"uncertain write, later version in the cache: no doubt": {
			func(m *mutations) { m.noteUncertain(web, existing("one", version("9")), errLost) }, someDeployments(existing("one", version("10"))), 0, []string{"one 10"}, nil, 0,
		},
		"uncertain write, then deleted: no doubt": {
			func(m *mutations) { m.noteUncertain(web, existing("one", version("9")), errLost) }, nil, 0, nil, nil, 0,
		},
		"refused write: no doubt": {
			func(m *mutations) {
				m.noteUncertain(web, existing("one", version("9")), apierrors.NewForbidden(schema.GroupResource{}, "web", nil))
				m.noteUncertain(web, existing("one", version("9")), apierrors.NewNotFound(schema.GroupResource{}, "web"))
				m.noteUncertain(web, existing("one", version("9")), apierrors.NewInvalid(schema.GroupKind{}, "web", nil))
			}, someDeployments(existing("one", version("9"))), 0, []string{"one 9"}, nil, 0,
		},
		"entries of another Bundle are ignored": {
			func(m *mutations) {
				m.note(types.NamespacedName{Namespace: "ws", Name: "db"}, existing("one", version("9")))
			}, nil, 0, nil, nil, 0,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			now := gone.Time
			m := newMutations(func() time.Time { return now })
			test.before(m)
			now = now.Add(test.later)
			all, doubts := m.newest(web, test.cached)
			var got, uncertain []string
			for _, bd := range all {
				got = append(got, string(bd.UID[2:])+" "+bd.ResourceVersion)
			}
			for namespace := range doubts {
				uncertain = append(uncertain, namespace)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("newest (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.uncertain, uncertain); diff != "" {
				t.Errorf("in doubt (-want +got):\n%s", diff)
			}
			if left := len(remembered(m.of(web))); left != test.left {
				t.Errorf("%d are remembered, want %d", left, test.left)
			}
		})
	}
}

func TestIsListed_OncePerBundle(t *testing.T) {
	m := newMutations(func() time.Time { return gone.Time })
	if m.isListed(web) {
		t.Error("a new process knows what was written before it began")
	}
	m.noteAll(web, someDeployments(existing("one", version("9"))))
	if !m.isListed(web) || m.isListed(types.NamespacedName{Name: "other"}) {
		t.Error("a list is not remembered, or for another Bundle")
	}
	if all, _ := m.newest(web, nil); len(all) != 1 {
		t.Error("what was listed is not known")
	}
	m.forget(web)
	if m.isListed(web) {
		t.Error("a Bundle that is gone is remembered")
	}
}

func TestCachedMutations_AreForgotten(t *testing.T) {
	m := newMutations(func() time.Time { return gone.Time })
	m.cached(web, existing("one", version("9"))) // nothing was written
	if len(m.bundles) > 0 {
		t.Error("what only the cache has is remembered")
	}
	m.note(web, existing("one", version("9")), existing("two", version("9")))
	m.noteUncertain(web, existing("three", version("9")), errLost)
	for _, bd := range someDeployments(existing("one", version("8")), existing("two", version("9")), existing("three", version("9")), existing("four", version("9"))) {
		m.cached(web, bd)
	}
	if _, left := remembered(m.of(web))["c-two"]; left || len(remembered(m.of(web))) != 2 {
		t.Errorf("remembered: %v", remembered(m.of(web)))
	}
	m.cached(web, existing("one", version("9")))
	m.cached(web, existing("three", version("10")))
	if len(remembered(m.of(web))) > 0 {
		t.Errorf("remembered: %v", remembered(m.of(web)))
	}
}
