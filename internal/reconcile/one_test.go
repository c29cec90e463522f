package reconcile

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func called(a *corev1.ServiceAccount, name string) *corev1.ServiceAccount {
	a.Name = name
	return a
}

// The child "a" has the sibling "b", which must not change.
func TestApplyOneAndRemoveOne_KeepSiblings(t *testing.T) {
	errServer := errors.New("the server is busy")
	const deletes = "delete ServiceAccount fleet-default/a Background uid uid-a"
	foreign := func(a *corev1.ServiceAccount) { a.Labels[fleet.LabelSetHash] = "theirs" }
	apply := func(w *world) error { return w.set.ApplyOne(owner(), account()) }
	remove := func(w *world) error { return w.set.RemoveOne(owner(), account()) }
	tests := map[string]struct {
		seen     []func(*corev1.ServiceAccount) // how the child is not as it was written
		missing  bool
		do       func(*world) error
		fail     string
		requests []string
	}{
		"apply, missing: created, sibling stays": {missing: true, do: apply, requests: []string{"create ServiceAccount fleet-default/a"}},
		"apply, unchanged: no request":           {do: apply},
		"apply, changed: patched": {
			seen: []func(*corev1.ServiceAccount){func(a *corev1.ServiceAccount) { a.Labels[fleet.LabelManaged] = "no" }}, do: apply,
			requests: []string{`patch ServiceAccount fleet-default/a {"metadata":{"labels":{"fleet.cattle.io/managed":"true"}}}`},
		},
		"apply, failure: error names the object": {missing: true, do: apply, fail: "create ServiceAccount fleet-default/a", requests: []string{"create ServiceAccount fleet-default/a"}},
		"remove: deleted, sibling stays":         {do: remove, requests: []string{deletes}},
		"remove, missing: no request":            {missing: true, do: remove},
		"remove, object of another owner: stays": {seen: []func(*corev1.ServiceAccount){foreign}, do: remove},
		"remove, being deleted: no request": {
			seen: []func(*corev1.ServiceAccount){func(a *corev1.ServiceAccount) { a.DeletionTimestamp = &metav1.Time{} }}, do: remove,
		},
		"remove, marked to stay: stays": {
			seen: []func(*corev1.ServiceAccount){func(a *corev1.ServiceAccount) { a.Labels[fleet.LabelSetPrune] = "false" }}, do: remove,
		},
		"remove, failure: error": {do: remove, fail: "delete ServiceAccount fleet-default/a", requests: []string{deletes}},
		"remove by the reference of a deleted owner: deleted": {
			do: func(w *world) error {
				o := owner()
				return w.set.RemoveOne(GoneOwner(o.GVK, o.Namespace, o.Name), account())
			},
			requests: []string{deletes},
		},
		"remove, child of another owner: stays": {
			do: func(w *world) error {
				o := owner()
				return w.set.RemoveOne(GoneOwner(o.GVK, o.Namespace, "other"), account())
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			w.put(t, true, asWritten(w, called(account(), "b")))
			if !test.missing {
				w.put(t, true, asWritten(w, account(), test.seen...))
			}
			if test.fail != "" {
				w.fail = map[string]error{test.fail: errServer}
			}
			if err := test.do(w); errors.Is(err, errServer) != (test.fail != "") || test.fail == "" && err != nil {
				t.Errorf("error %v", err)
			}
			if diff := cmp.Diff(test.requests, w.requests); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}

func TestApplyOne_UndeclaredKindIsAnError(t *testing.T) {
	w := newWorld()
	for name, do := range map[string]func(Owner, runtime.Object) error{"apply": w.set.ApplyOne, "remove": w.set.RemoveOne} {
		if err := do(owner(), &fleet.Bundle{}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestRemoveOne_KeepsNeverPrunedKinds(t *testing.T) {
	w := newWorld()
	w.put(t, true, asWritten(w, namespace()))
	if err := w.set.RemoveOne(owner(), namespace()); err != nil || len(w.requests) > 0 {
		t.Errorf("error %v, requests %q", err, w.requests)
	}
}

func TestCreateOnce(t *testing.T) {
	errServer := errors.New("the server is busy")
	const creates = "create ServiceAccount fleet-default/a"
	tests := map[string]struct {
		onServer, inCache bool
		times             int
		fail              error
		made              bool // the first time
		requests          []string
	}{
		"missing: created": {times: 1, made: true, requests: []string{creates}},
		"created, cache is behind: not created again": {times: 3, made: true, requests: []string{creates}},
		"existing: stays":                  {onServer: true, inCache: true, times: 1},
		"existing, cache is behind: stays": {onServer: true, times: 1, requests: []string{creates}},
		"refused: retried":                 {times: 2, fail: errServer, requests: []string{creates, creates}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			w.accounts.informer.GetIndexer().Bookmark("1") // the cache is behind
			kind := KindOf(w.accounts)
			if test.onServer {
				w.put(t, test.inCache, account())
			}
			w.fail = map[string]error{creates: test.fail}
			for i := range test.times {
				object := account()
				object.ResourceVersion = "2" // which a server would say in its answer
				made, err := kind.CreateOnce(object)
				if !errors.Is(err, test.fail) || made != (test.made && i == 0) {
					t.Errorf("made %v, error %v", made, err)
				}
			}
			if diff := cmp.Diff(test.requests, w.requests); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}
