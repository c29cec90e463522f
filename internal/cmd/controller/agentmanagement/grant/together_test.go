package grant

import (
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/hubtest"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/reconcile"
	"github.com/fleet-hub/fleet/internal/rules/objects"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// answersOf are the Secret, Role and RoleBinding of the answer to ws/r<n>. label is the value of their label, "" for none.
func answersOf(n int, label string) []hubtest.Object {
	secret := &corev1.Secret{ObjectMeta: objects.Managed(registration, fmt.Sprintf("c-%d", n)), Type: protocol.SecretTypeCredential}
	name := fmt.Sprintf("r%d", n)
	role := objects.RoleOf(objects.Managed(registration, name+"-creds"))
	binding := objects.BindingOf(objects.Managed(registration, name+"-creds"), "Role", role.Name, rbacv1.Subject{})
	all := []hubtest.Object{secret, role, binding}
	for _, object := range all {
		object.SetUID(types.UID(fmt.Sprintf("u-%T-%d", object, n)))
		object.SetAnnotations(map[string]string{fleet.AnnotationClusterRegistration: name, fleet.AnnotationClusterRegistrationNamespace: "ws"})
		if label != "" {
			object.GetLabels()[fleet.LabelAnswers] = label
		}
	}
	return all
}

// ending is a hub with answers and a handler that knows that all but those of unused are used.
func ending(t *testing.T, answers [][]hubtest.Object, unused ...int) (*hubtest.Hub, *handler) {
	t.Helper()
	hub := hubtest.New(t)
	for _, objects := range answers {
		hub.Put(objects...)
	}
	a := hub.App
	h := &handler{app: a, warnForbidden: func() {}, access: credentialAccess{roles: reconcile.KindOf(a.Roles).Adopting(isCredentialAccess), bindings: reconcile.KindOf(a.RoleBindings).Adopting(isCredentialAccess)}}
	for i := range answers {
		h.used.Store(fmt.Sprintf("ws/r%d", i+1), use{account: "u"})
	}
	for _, n := range unused {
		h.used.Delete(fmt.Sprintf("ws/r%d", n))
	}
	hub.Requests()
	return hub, h
}

func TestUsedCredentials_AreDeletedTogether(t *testing.T) {
	single := func(n int) []string {
		return []string{
			fmt.Sprintf("delete RoleBinding %s/r%d-creds", registration, n), fmt.Sprintf("delete Role %s/r%d-creds", registration, n),
			fmt.Sprintf("delete Secret %s/c-%d", registration, n),
		}
	}
	together := func(selector string) (requests []string) {
		for _, kind := range []string{"RoleBinding", "Role", "Secret"} {
			requests = append(requests, fmt.Sprintf("deletecollection %s %s %s %s", kind, registration, fleet.LabelAnswers, selector))
		}
		return requests
	}
	for name, test := range map[string]struct {
		answers [][]hubtest.Object
		unused  []int
		fail    string
		want    []string
		left    int
	}{
		"two": {answers: [][]hubtest.Object{answersOf(1, "u1"), answersOf(2, "u2")}, want: together("in (u1,u2)")},
		"one": {answers: [][]hubtest.Object{answersOf(1, "u1")}, want: single(1)},
		"the other one is not used yet: stays": {
			answers: [][]hubtest.Object{answersOf(1, "u1"), answersOf(2, "u2")}, unused: []int{2}, want: single(1), left: 3,
		},
		"the other one is of an earlier release: has its own turn": {
			answers: [][]hubtest.Object{answersOf(1, "u1"), answersOf(2, "")}, want: single(1), left: 3,
		},
		"it is of an earlier release": {
			answers: [][]hubtest.Object{answersOf(1, ""), answersOf(2, "u2"), answersOf(3, "u3")}, want: single(1), left: 6,
		},
		"its Role has another label": {
			answers: [][]hubtest.Object{{answersOf(1, "u1")[0], answersOf(1, "u2")[1], answersOf(1, "u1")[2]}, answersOf(2, "u2")}, want: single(1), left: 3,
		},
		"the hub may not delete several: one after the other": {
			answers: [][]hubtest.Object{answersOf(1, "u1"), answersOf(2, "u2")}, fail: together("in (u1,u2)")[0],
			want: append(together("in (u1,u2)")[:1], single(1)...), left: 3,
		},
	} {
		t.Run(name, func(t *testing.T) {
			hub, h := ending(t, test.answers, test.unused...)
			if test.fail != "" {
				hub.Fail(test.fail, errServer)
			}
			first, _ := test.answers[0][0].(*corev1.Secret)
			if err := h.onCredential(t.Context(), first); err != nil {
				t.Fatal(err)
			}
			hubtest.ExpectOrder(t, hub.Requests(), test.want...)
			left := 0
			for n := range test.answers {
				name := fmt.Sprintf("r%d-creds", n+1)
				for _, there := range []bool{
					hubtest.Get[*corev1.Secret](hub, registration, fmt.Sprintf("c-%d", n+1)) != nil,
					hubtest.Get[*rbacv1.Role](hub, registration, name) != nil, hubtest.Get[*rbacv1.RoleBinding](hub, registration, name) != nil,
				} {
					if there {
						left++
					}
				}
			}
			if left != test.left {
				t.Errorf("%d objects are left, want %d", left, test.left)
			}
			if err := h.onCredential(t.Context(), first); err != nil || len(hub.Requests()) > 0 { // the cache still has it
				t.Errorf("deleted again: %v", err)
			}
		})
	}
}

func TestUsedCredentials_AtMost32AreDeletedTogether(t *testing.T) {
	var answers [][]hubtest.Object
	for n := 1; n <= 40; n++ {
		answers = append(answers, answersOf(n, fmt.Sprintf("u%d", n)))
	}
	hub, h := ending(t, answers)
	for _, answer := range answers {
		secret, _ := answer[0].(*corev1.Secret)
		if err := h.onCredential(t.Context(), secret); err != nil {
			t.Fatal(err)
		}
	}
	if got := hub.Requests(); len(got) != 6 {
		t.Errorf("%d requests, want two times three:\n%q", len(got), got)
	}
}

func TestUsedCredentials_ThatCannotBeDeletedStay(t *testing.T) {
	hub, h := ending(t, [][]hubtest.Object{answersOf(1, "u1"), answersOf(2, "u2")})
	for _, request := range []string{"deletecollection RoleBinding " + registration + " " + fleet.LabelAnswers + " in (u1,u2)", "delete RoleBinding " + registration + "/r1-creds"} {
		hub.Fail(request, errServer)
	}
	secret := hubtest.MustGet[*corev1.Secret](t, hub, registration, "c-1")
	if err := h.onCredential(t.Context(), secret); !errors.Is(err, errServer) {
		t.Errorf("error %v", err)
	}
	if hubtest.Get[*corev1.Secret](hub, registration, "c-1") == nil || hubtest.Get[*corev1.Secret](hub, registration, "c-2") == nil {
		t.Error("a Secret is gone, and nothing leads to what remains")
	}
}
