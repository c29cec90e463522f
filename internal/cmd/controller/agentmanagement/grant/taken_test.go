package grant

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/hubtest"
	"github.com/fleet-hub/fleet/internal/rules/grant"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

func expectTaken(t *testing.T, hub *hubtest.Hub, granted bool, what string) {
	t.Helper()
	got := current(t, hub)
	said := conditions.Get(got.Status.Conditions, conditions.Granted)
	if said == nil || said.Status != "False" || said.Reason != "NameTaken" || !strings.HasPrefix(said.Message, what+" exists") ||
		!strings.Contains(said.Message, "kubectl") || got.Status.Granted != granted {
		t.Errorf("granted %v, condition %+v", got.Status.Granted, said)
		return
	}
	for command, want := range map[string]bool{" label ": granted, " delete role": granted, "kubectl -n ws delete clusterregistrations.fleet.cattle.io r1": !granted} {
		if strings.Contains(said.Message, command) != want {
			t.Errorf("granted %v, so that it is %v that the message offers %q: %s", granted, want, command, said.Message)
		}
	}
}

// A client chooses the name of its request, and with it that of the Role and the RoleBindings.
func TestRequestNamedAfterARole_TakesNothing(t *testing.T) {
	rules := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"list"}}}
	meta := func(namespace string, labels map[string]string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: "r1", Labels: labels}
	}
	managed := map[string]string{fleet.LabelManaged: "true"}
	bound := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"}
	tests := map[string]struct {
		there hubtest.Object
		want  string
	}{
		"a Role":                                 {&rbacv1.Role{ObjectMeta: meta("ws", nil), Rules: rules}, "Role ws/r1"},
		"a Role that a cache has":                {&rbacv1.Role{ObjectMeta: meta("ws", managed), Rules: rules}, "Role ws/r1"},
		"a RoleBinding":                          {&rbacv1.RoleBinding{ObjectMeta: meta("ws", nil), RoleRef: bound}, "RoleBinding ws/r1"},
		"a RoleBinding in the cluster namespace": {&rbacv1.RoleBinding{ObjectMeta: meta(clusterNamespace, managed), RoleRef: bound}, "RoleBinding " + clusterNamespace + "/r1"},
		"a Role of the credential's reader":      {&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: registration, Name: "r1-creds", Labels: managed}, Rules: rules}, "Role " + registration + "/r1-creds"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			hub := start(t, request(), cluster(), asked(), test.there)
			before := hub.Live(test.there)
			for range 3 {
				handle(t, hub)
				catchUp(t, hub)
			}
			expectTaken(t, hub, false, test.want)
			if diff := cmp.Diff(before, hub.Live(test.there)); diff != "" {
				t.Errorf("it changed (-want +got):\n%s", diff)
			}
			if _, is := test.there.(*rbacv1.Role); is && hubtest.Get[*rbacv1.RoleBinding](hub, test.there.GetNamespace(), test.there.GetName()) != nil && test.there.GetNamespace() == "ws" {
				t.Error("the Role is bound to the agent's account")
			}
			if strings.Contains(strings.Join(hub.Requests(), " "), "mint") {
				t.Error("a token was made")
			}
			if woken := hub.Woken(); !slices.Contains(woken, kindRequest+" ws/r1 in 15s") {
				t.Errorf("woken: %v", woken)
			}

			hub.Remove(request())
			handle(t, hub)
			if diff := cmp.Diff(before, hub.Live(test.there)); diff != "" {
				t.Errorf("it changed with the request's end (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTakenNameIsGivenUp_RequestIsGranted(t *testing.T) {
	theirs := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "r1"}}
	hub := start(t, request(), cluster(), asked(), theirs)
	handle(t, hub)
	expectTaken(t, hub, false, "Role ws/r1")
	hub.Remove(theirs)
	settle(t, hub, 3)
	if got := current(t, hub); !got.Status.Granted {
		t.Errorf("the request says %+v", got.Status)
	}
}

// A granted request whose Role lost the label of its set says so. Its rights stay as they are, and it heals once the label
// is back.
func TestRoleLosesItsMarks_IsReportedAndHeals(t *testing.T) {
	hub := grantedHub(t)
	stripped := hubtest.MustGet[*rbacv1.Role](t, hub, "ws", "r1")
	whole := stripped.DeepCopy()
	delete(stripped.Labels, fleet.LabelSetHash)
	hub.Put(stripped)
	handle(t, hub)
	expectTaken(t, hub, true, "Role ws/r1")
	if hubtest.Get[*rbacv1.RoleBinding](hub, "ws", "r1") == nil {
		t.Error("the Role has the same rules, and is bound no longer")
	}
	if said := conditions.Get(current(t, hub).Status.Conditions, conditions.Granted).Message; !strings.Contains(said, fleet.LabelSetHash+"="+whole.Labels[fleet.LabelSetHash]) {
		t.Errorf("the condition does not name the label: %s", said)
	}
	hub.Put(whole)
	settle(t, hub, 2)
	if said := conditions.Get(current(t, hub).Status.Conditions, conditions.Granted); said.Status != "True" {
		t.Errorf("condition %+v", said)
	}
}

// The Role of a granted request is deleted, and the workspace creates another one of its name with rules of its own. The
// agent's account must not have these.
func TestRoleIsReplacedByAnother_LosesOurBinding(t *testing.T) {
	hub := grantedHub(t)
	hub.Remove(hubtest.MustGet[*rbacv1.Role](t, hub, "ws", "r1"))
	theirs := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "r1"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"list"}}},
	}
	hub.Put(theirs)
	settle(t, hub, 2)
	expectTaken(t, hub, true, "Role ws/r1")
	if hubtest.Get[*rbacv1.RoleBinding](hub, "ws", "r1") != nil {
		t.Error("the Role of another is bound to the agent's account")
	}
	if hubtest.Get[*rbacv1.RoleBinding](hub, clusterNamespace, "r1") == nil {
		t.Error("the agent lost its right to work, which has nothing to do with that Role")
	}
	hub.Remove(theirs)
	settle(t, hub, 3)
	if said := conditions.Get(current(t, hub).Status.Conditions, conditions.Granted); said.Status != "True" {
		t.Errorf("condition %+v", said)
	}
	if hubtest.Get[*rbacv1.RoleBinding](hub, "ws", "r1") == nil {
		t.Error("its own Role is bound no longer")
	}
}

func TestTakenNameForADay_RequestIsDeleted(t *testing.T) {
	old := request(func(r *fleet.ClusterRegistration) {
		r.CreationTimestamp = metav1.NewTime(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))
	})
	hub := start(t, old, cluster(), asked(), &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "r1"}})
	handle(t, hub)
	expectTaken(t, hub, false, "Role ws/r1")
	hub.Pass(grant.RejectionLife)
	catchUp(t, hub)
	handle(t, hub)
	if hubtest.Get[*fleet.ClusterRegistration](hub, "ws", "r1") != nil {
		t.Error("the request is still there")
	}
}
