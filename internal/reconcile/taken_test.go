package reconcile

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// saysTaken reports whether the error says that a name is taken, with a remedy. By its text, not its type.
func saysTaken(err error) bool {
	return err != nil && strings.Contains(err.Error(), "was not created by the hub for this object") && strings.Contains(err.Error(), "kubectl")
}

// An object without the hash of exactly this set and owner is never changed, replaced or deleted.
func TestObjectOfAnother_IsLeftAsItIs(t *testing.T) {
	hashed := func(value string) func(metav1.Object) {
		return func(o metav1.Object) {
			o.SetLabels(map[string]string{fleet.LabelManaged: "true", fleet.LabelSetHash: value})
		}
	}
	another := NewSet(setID).Hash(Owner{GVK: owner().GVK, Namespace: owner().Namespace, Name: "another"})
	otherSet := NewSet("another").Hash(owner())
	marks := map[string]func(metav1.Object){
		"no labels":                                 func(o metav1.Object) { o.SetLabels(nil); o.SetAnnotations(nil) },
		"only the label that it is managed":         func(o metav1.Object) { o.SetLabels(map[string]string{fleet.LabelManaged: "true"}) },
		"the hash of another owner":                 hashed(another),
		"the hash of another set":                   hashed(otherSet),
		"an empty hash":                             hashed(""),
		"our annotations, but the hash was removed": func(o metav1.Object) { o.SetLabels(map[string]string{fleet.LabelManaged: "true"}) },
	}
	objects := map[string]struct {
		there   func(*world) Object
		desired runtime.Object
	}{
		"Role with other rules":            {func(w *world) Object { return asWritten(w, role("*")) }, role("get")},
		"Role with the same rules":         {func(w *world) Object { return asWritten(w, role("get")) }, role("get")},
		"RoleBinding with another roleRef": {func(w *world) Object { return asWritten(w, binding("admin")) }, binding("r")},
		"Secret of another type": {func(w *world) Object {
			return asWritten(w, secret("v"), func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque })
		}, secret("v")},
		"Secret with other data": {func(w *world) Object { return asWritten(w, secret("theirs")) }, secret("v")},
		"account":                {func(w *world) Object { return asWritten(w, account()) }, account()},
		"Cluster":                {func(w *world) Object { return asWritten(w, cluster(nil, "theirs")) }, cluster(nil, "")},
	}
	for mark, set := range marks {
		for what, test := range objects {
			for where, seen := range map[string]bool{"in the cache": true, "in no cache": false} {
				t.Run(what+", "+mark+", "+where, func(t *testing.T) {
					w := newWorld()
					there := test.there(w)
					set(there)
					w.put(t, seen, there)
					err := w.set.Apply(owner(), test.desired)
					err = errors.Join(err, w.set.ApplyOne(owner(), test.desired))
					if !saysTaken(err) {
						t.Errorf("error %v, want that the name is taken", err)
					}
					if err := errors.Join(w.set.RemoveOne(owner(), test.desired), w.set.Apply(owner())); err != nil {
						t.Error(err)
					}
					for _, request := range w.requests {
						if !strings.HasPrefix(request, "get ") && !strings.HasPrefix(request, "create ") {
							t.Errorf("it is written: %s", request)
						}
					}
					for _, left := range w.objects {
						if diff := cmp.Diff(there, left); diff != "" {
							t.Errorf("it changed (-want +got):\n%s", diff)
						}
					}
				})
			}
		}
	}
}

// A binding to a Role that is not a child would grant the rights of that Role.
func TestRoleOfAnother_GetsNoBinding(t *testing.T) {
	for where, seen := range map[string]bool{"in the cache": true, "in no cache": false} {
		t.Run(where, func(t *testing.T) {
			w := newWorld()
			w.put(t, seen, &rbacv1.Role{ObjectMeta: meta("r")})
			if err := w.set.Parallel().Apply(owner(), binding("r"), account(), role("get")); !saysTaken(err) {
				t.Errorf("error %v", err)
			}
			if _, made := w.objects["RoleBinding fleet-default/b"]; made {
				t.Error("it is bound all the same")
			}
		})
	}
}

// An existing binding to a Role that was replaced by another one is deleted. It stays if the Role only lost its marks.
func TestRoleBecomesAnothers_ItsBindingGoes(t *testing.T) {
	tests := map[string]struct {
		rules []rbacv1.PolicyRule
		binds string
		stays bool
	}{
		"other rules":                         {role("*").Rules, "r", false},
		"no rules":                            {nil, "r", false},
		"the same rules":                      {role("get").Rules, "r", true},
		"other rules, but another Role bound": {role("*").Rules, "another", true},
	}
	for name, test := range tests {
		for where, seen := range map[string]bool{"in the cache": true, "in no cache": false} {
			t.Run(name+", "+where, func(t *testing.T) {
				w := newWorld()
				w.put(t, true, asWritten(w, binding(test.binds)))
				w.put(t, seen, &rbacv1.Role{ObjectMeta: meta("r"), Rules: test.rules})
				if err := w.set.Parallel().Apply(owner(), role("get"), binding(test.binds)); !saysTaken(err) {
					t.Errorf("error %v", err)
				}
				if _, stays := w.objects["RoleBinding fleet-default/b"]; stays != test.stays {
					t.Errorf("the binding stays: %v, want %v", stays, test.stays)
				}
			})
		}
	}
}

func TestAdopting(t *testing.T) {
	w := newWorld()
	w.put(t, true, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
	if err := w.set.Apply(owner(), namespace()); err != nil {
		t.Fatal(err)
	}
	marked := func(o Object) bool { return o.GetLabels()["mine"] == "yes" }
	for label, taken := range map[string]bool{"yes": false, "no": true} {
		kind := KindOf(w.roles).Adopting(marked)
		there := &rbacv1.Role{ObjectMeta: meta("r")}
		there.Labels["mine"] = label
		w.objects = map[string]Object{}
		w.put(t, false, there)
		if err := kind.Ensure(role("get")); saysTaken(err) != taken || !taken && err != nil {
			t.Errorf("mine: %s: error %v", label, err)
		}
	}
}

func TestTakenError(t *testing.T) {
	role, clusterRole := rbacv1.SchemeGroupVersion.WithKind("Role"), rbacv1.SchemeGroupVersion.WithKind("ClusterRole")
	tests := map[string]struct {
		err  TakenError
		want string
	}{
		"of a set": {
			TakenError{GVK: role, Namespace: "ws", Name: "r1", Hash: "abc"},
			"Role ws/r1 exists and was not created by the hub for this object, and is not changed: if nothing else needs it, run `kubectl -n ws delete role.rbac.authorization.k8s.io r1`; " +
				"if the hub made it and its label was removed, run `kubectl -n ws label role.rbac.authorization.k8s.io r1 objectset.rio.cattle.io/hash=abc`",
		},
		"of no set and no namespace": {
			TakenError{GVK: clusterRole, Name: "r1"},
			"ClusterRole r1 exists and was not created by the hub for this object, and is not changed: if nothing else needs it, run `kubectl delete clusterrole.rbac.authorization.k8s.io r1`",
		},
		"of the core group": {
			TakenError{GVK: corev1.SchemeGroupVersion.WithKind("Secret"), Namespace: "ws", Name: "t1"},
			"Secret ws/t1 exists and was not created by the hub for this object, and is not changed: if nothing else needs it, run `kubectl -n ws delete secret t1`",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, test.err.Error()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
