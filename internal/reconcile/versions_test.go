package reconcile

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
)

func TestVersions(t *testing.T) {
	tests := map[string]struct {
		happens func(*testing.T, *world)
		same    bool
	}{
		"no change":          {func(*testing.T, *world) {}, true},
		"a child changes":    {func(t *testing.T, w *world) { w.put(t, true, asWritten(w, role("get"), version[*rbacv1.Role]("8"))) }, false},
		"a child is created": {func(t *testing.T, w *world) { w.put(t, true, asWritten(w, binding("r"))) }, false},
		"a child is deleted": {func(t *testing.T, w *world) { unseen(t, w.roles, "r") }, false},
		"a child is recreated": {func(t *testing.T, w *world) {
			w.put(t, true, asWritten(w, role("get"), func(r *rbacv1.Role) { r.UID = "new" }))
		}, false},
		"child of another owner changes": {func(t *testing.T, w *world) { w.put(t, true, secret("v")) }, true},
		"child changes outside the set":  {func(t *testing.T, w *world) { w.put(t, false, asWritten(w, role("list"), version[*rbacv1.Role]("8"))) }, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			w.put(t, true, asWritten(w, account()), asWritten(w, role("get")))
			before, err := w.set.Versions(owner())
			if err != nil {
				t.Fatal(err)
			}
			test.happens(t, w)
			after, err := w.set.Versions(owner())
			if err != nil {
				t.Fatal(err)
			}
			if (before == after) != test.same {
				t.Errorf("the same: %t", before == after)
			}
		})
	}
	t.Run("no children", func(t *testing.T) {
		w := newWorld()
		none, err := w.set.Versions(owner())
		if err != nil {
			t.Fatal(err)
		}
		w.put(t, true, asWritten[*corev1.ServiceAccount](w, account()))
		if one, err := w.set.Versions(owner()); err != nil || one == none {
			t.Errorf("%d after %d (%v)", one, none, err)
		}
	})
}

func version[T Object](to string) func(T) { return func(obj T) { obj.SetResourceVersion(to) } }

func unseen[T Object](t *testing.T, c *fakeClient[T], name string) {
	t.Helper()
	found, there, err := c.informer.GetIndexer().GetByKey("fleet-default/" + name)
	if err != nil || !there {
		t.Fatalf("%s is not there (%v)", name, err)
	}
	if err := c.informer.GetIndexer().Delete(found); err != nil {
		t.Fatal(err)
	}
}
