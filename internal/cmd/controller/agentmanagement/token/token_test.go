package token

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/hubtest"
	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/reconcile"
	tokenrule "github.com/fleet-hub/fleet/internal/rules/token"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

const (
	tokens  = "ClusterRegistrationToken"
	account = "t1-u1" // of ws/t1
)

var errServer = errors.New("the server is upset")

func token(modifiers ...func(*fleet.ClusterRegistrationToken)) *fleet.ClusterRegistrationToken {
	t := &fleet.ClusterRegistrationToken{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "t1", UID: "u1"}}
	for _, modify := range modifiers {
		modify(t)
	}
	return t
}

func withTTL(ttl time.Duration) func(*fleet.ClusterRegistrationToken) {
	return func(t *fleet.ClusterRegistrationToken) { t.Spec.TTL = &metav1.Duration{Duration: ttl} }
}

// start registers the controller on a hub with these objects.
func start(t *testing.T, objects ...hubtest.Object) *hubtest.Hub {
	t.Helper()
	hub := hubtest.New(t)
	hub.App.Config.Set(config.Config{APIServerURL: "https://hub", APIServerCA: []byte("PEM")})
	if err := Register(t.Context(), hub.App); err != nil {
		t.Fatal(err)
	}
	hub.Put(objects...)
	return hub
}

// settle lets the controller work and its caches follow, so many times.
func settle(t *testing.T, hub *hubtest.Hub, times int) {
	t.Helper()
	for range times {
		handle(t, hub)
		hub.Sync()
	}
}

func handle(t *testing.T, hub *hubtest.Hub) {
	t.Helper()
	if err := hub.Handle(tokens, "ws/t1"); err != nil {
		t.Fatal(err)
	}
}

func expectRequests(t *testing.T, hub *hubtest.Hub, want ...string) []string {
	t.Helper()
	return hubtest.ExpectRequests(t, hub, want...)
}

func values(t *testing.T, hub *hubtest.Hub) protocol.Values {
	t.Helper()
	values, err := protocol.ParseValues(hubtest.MustGet[*corev1.Secret](t, hub, "ws", "t1").Data[protocol.ValuesKey])
	if err != nil {
		t.Fatal(err)
	}
	return values
}

func expectReady(t *testing.T, hub *hubtest.Hub, want genericcondition.GenericCondition) {
	t.Helper()
	status := hubtest.MustGet[*fleet.ClusterRegistrationToken](t, hub, "ws", "t1").Status
	got := conditions.Get(status.Conditions, conditions.Ready)
	if got == nil {
		t.Fatalf("no condition Ready in %+v", status)
	}
	got.LastUpdateTime, want.Type = "", conditions.Ready
	if diff := cmp.Diff(want, *got); diff != "" {
		t.Errorf("condition (-want +got):\n%s", diff)
	}
}

func TestToken_GetsAccountRightsAndValues(t *testing.T) {
	hub := start(t, token())
	handle(t, hub)
	requests := expectRequests(t, hub,
		"create ServiceAccount ws/t1-u1", "create Role ws/t1-u1-role", "create RoleBinding ws/t1-u1-to-role",
		"update ClusterRegistrationToken/status ws/t1")
	hubtest.ExpectOrder(t, requests, "create Role ws/t1-u1-role", "create RoleBinding ws/t1-u1-to-role", "update ClusterRegistrationToken/status ws/t1")
	expectReady(t, hub, genericcondition.GenericCondition{Status: "False", Reason: conditions.ReasonAwaitingRights, Message: "the account of the token is being created"})
	hubtest.ExpectWoken(t, hub) // nothing about a token without end depends on the clock

	handle(t, hub) // the caches lag: what was made and told is remembered, and nothing is handed out
	expectRequests(t, hub)

	hub.Sync()
	handle(t, hub)
	requests = expectRequests(t, hub, "get Secret ws/t1", "mint ws/t1-u1 1193046h28m15s", "create Secret ws/t1", "update ClusterRegistrationToken/status ws/t1")
	hubtest.ExpectOrder(t, requests, "get Secret ws/t1", "mint ws/t1-u1 1193046h28m15s", "create Secret ws/t1", "update ClusterRegistrationToken/status ws/t1")
	expectReady(t, hub, genericcondition.GenericCondition{Status: "True"})
	uid := hubtest.MustGet[*corev1.ServiceAccount](t, hub, "ws", account).UID
	want := protocol.Values{
		ClusterNamespace: "ws", APIServerURL: "https://hub", APIServerCA: "PEM", TokenName: "t1", SystemNamespace: "cattle-fleet-system",
		SystemRegistrationNamespace: "cattle-fleet-clusters-system", Token: hubtest.Token(string(uid), hub.Now().Add(protocol.TokenLifetime)),
	}
	if got := values(t, hub); got.SystemNamespace != "" { // the default goes without saying
		t.Errorf("the system namespace is %q", got.SystemNamespace)
	}
	want.SystemNamespace = ""
	if diff := cmp.Diff(want, values(t, hub)); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
	if got := hubtest.MustGet[*corev1.Secret](t, hub, "ws", "t1").Type; got != protocol.SecretTypeValues {
		t.Errorf("the Secret is of type %s", got)
	}

	hub.Sync()
	handle(t, hub)
	expectRequests(t, hub) // all is well
}

func TestRights_OnlyAllowCreatingRequests(t *testing.T) {
	hub := start(t, token())
	handle(t, hub)
	role := hubtest.MustGet[*rbacv1.Role](t, hub, "ws", "t1-u1-role")
	wantRules := []rbacv1.PolicyRule{{APIGroups: []string{"fleet.cattle.io"}, Resources: []string{"clusterregistrations"}, Verbs: []string{"create"}}}
	if diff := cmp.Diff(wantRules, role.Rules); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
	binding := hubtest.MustGet[*rbacv1.RoleBinding](t, hub, "ws", "t1-u1-to-role")
	want := rbacv1.RoleBinding{
		RoleRef:  rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "Role", Name: "t1-u1-role"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "ws", Name: account}},
	}
	if diff := cmp.Diff(want, rbacv1.RoleBinding{RoleRef: binding.RoleRef, Subjects: binding.Subjects}); diff != "" {
		t.Errorf("binding (-want +got):\n%s", diff)
	}
	owners := []metav1.OwnerReference{{APIVersion: "fleet.cattle.io/v1alpha1", Kind: tokens, Name: "t1", UID: "u1", Controller: new(bool), BlockOwnerDeletion: new(bool)}}
	for _, child := range []metav1.Object{role, binding, hubtest.MustGet[*corev1.ServiceAccount](t, hub, "ws", account)} {
		if diff := cmp.Diff(owners, child.GetOwnerReferences()); diff != "" {
			t.Errorf("owners of %s (-want +got):\n%s", child.GetName(), diff)
		}
		if child.GetLabels()[fleet.LabelManaged] != "true" || child.GetAnnotations()[fleet.AnnotationSetID] != "cluster-group-token" {
			t.Errorf("%s is not marked as ours: %v %v", child.GetName(), child.GetLabels(), child.GetAnnotations())
		}
	}
}

func TestTokenWithTTL_ExpiresOrIsRequeued(t *testing.T) {
	tests := map[string]struct {
		ttl      time.Duration
		required bool
		pass     time.Duration
		ends     bool
		woken    []string
		lifetime string
	}{
		"two hours: requeued, bearer token lasts as long": {ttl: 2 * time.Hour, woken: []string{tokens + " ws/t1 in 2h0m1s"}, lifetime: "2h0m0s"},
		"a minute: bearer token lasts ten minutes":        {ttl: time.Minute, woken: []string{tokens + " ws/t1 in 1m1s"}, lifetime: "10m0s"},
		"expires now: stays":                              {ttl: time.Hour, pass: time.Hour, woken: []string{tokens + " ws/t1 in 1s"}, lifetime: "1193046h28m15s"},
		"expired: deleted":                                {ttl: time.Hour, pass: time.Hour + time.Second, ends: true},
		"zero: never expires":                             {ttl: 0, pass: time.Hour, lifetime: "1193046h28m15s"},
		"zero, TTL is required: deleted":                  {ttl: 0, required: true, ends: true},
		"two hours, TTL is required: stays":               {ttl: 2 * time.Hour, required: true, woken: []string{tokens + " ws/t1 in 2h0m1s"}, lifetime: "2h0m0s"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			hub := start(t, token(withTTL(test.ttl)))
			hub.App.Env.TTLRequired = test.required
			hub.Pass(test.pass)
			handle(t, hub)
			hubtest.ExpectWoken(t, hub, test.woken...)
			if test.ends {
				expectRequests(t, hub, "update "+tokens+"/status ws/t1", "delete "+tokens+" ws/t1")
				return
			}
			hub.Sync()
			hub.Requests()
			handle(t, hub)
			minted := hub.Requests()[1]
			if want := "mint ws/t1-u1 " + test.lifetime; minted != want {
				t.Errorf("asked for %q, want %q", minted, want)
			}
		})
	}
}

func TestExpiredToken_IsReportedAndDeleted(t *testing.T) {
	ended := token(withTTL(time.Minute))
	tests := map[string]struct {
		prepare func(*hubtest.Hub)
		fails   bool
		want    []string
	}{
		"status cannot be written: an error, not deleted": {prepare: func(h *hubtest.Hub) { h.Fail("update "+tokens+"/status ws/t1", errServer) }, fails: true, want: []string{"update " + tokens + "/status ws/t1"}},
		"deletion succeeds":        {prepare: func(*hubtest.Hub) {}},
		"already deleted: success": {prepare: func(h *hubtest.Hub) { h.Before("delete "+tokens+" ws/t1", func() { h.Remove(ended) }) }},
		"recreated: the new token stays": {
			prepare: func(h *hubtest.Hub) { h.Have(token(func(t *fleet.ClusterRegistrationToken) { t.UID = "u2" })) },
			want:    []string{"update " + tokens + "/status ws/t1", "get " + tokens + " ws/t1", "delete " + tokens + " ws/t1"},
		},
		"deletion fails: an error":           {prepare: func(h *hubtest.Hub) { h.Fail("delete "+tokens+" ws/t1", errServer) }, fails: true},
		"its Secret cannot be read: deleted": {prepare: func(h *hubtest.Hub) { h.Fail("get Secret ws/t1", errServer) }},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			hub := start(t, ended)
			hub.Pass(time.Hour)
			test.prepare(hub)
			if test.want == nil {
				test.want = []string{"update " + tokens + "/status ws/t1", "delete " + tokens + " ws/t1"}
			}
			if err := hub.Handle(tokens, "ws/t1"); (err != nil) != test.fails {
				t.Errorf("error %v", err)
			}
			expectRequests(t, hub, test.want...)
			if name == "recreated: the new token stays" && hubtest.Get[*fleet.ClusterRegistrationToken](hub, "ws", "t1") == nil {
				t.Error("the token that lives was deleted")
			}
		})
	}
}

func TestTooLongTokenName_GetsNoObjects(t *testing.T) {
	long := strings.Repeat("t", 64)
	hub := start(t, token(func(t *fleet.ClusterRegistrationToken) { t.Name = long }))
	for range 2 {
		if err := hub.Handle(tokens, "ws/"+long); err != nil {
			t.Fatal(err)
		}
		hub.Sync()
	}
	expectRequests(t, hub, "update "+tokens+"/status ws/"+long)
	condition := conditions.Get(hubtest.MustGet[*fleet.ClusterRegistrationToken](t, hub, "ws", long).Status.Conditions, conditions.Ready)
	if condition == nil || condition.Reason != conditions.ReasonTokenNameTooLong {
		t.Errorf("condition %+v", condition)
	}
	if event := <-hub.Events; !strings.HasPrefix(event, "Warning TokenNameTooLong ") {
		t.Errorf("event %q", event)
	}
}

func TestDeletedToken_DeletesItsAccountAtOnce(t *testing.T) {
	deleting := metav1.NewTime(time.Date(2026, 1, 1, 13, 0, 0, 0, time.UTC))
	tests := map[string]func(*hubtest.Hub){
		"gone": func(h *hubtest.Hub) { h.Remove(token()) },
		"being deleted, with a finalizer": func(h *hubtest.Hub) {
			h.Put(token(func(t *fleet.ClusterRegistrationToken) { t.DeletionTimestamp = &deleting }))
		},
		"its workspace is deleted": func(h *hubtest.Hub) {
			h.Put(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ws", DeletionTimestamp: &deleting}})
		},
	}
	for name, end := range tests {
		t.Run(name, func(t *testing.T) {
			other := token(func(t *fleet.ClusterRegistrationToken) { t.Name, t.UID = "t2", "u2" })
			hub := start(t, token(), other)
			settle(t, hub, 2)
			if err := hub.Handle(tokens, "ws/t2"); err != nil {
				t.Fatal(err)
			}
			hub.Sync()
			hub.Requests()
			end(hub)
			handle(t, hub)
			expectRequests(t, hub, "delete ServiceAccount ws/t1-u1", "delete Role ws/t1-u1-role", "delete RoleBinding ws/t1-u1-to-role", "delete Secret ws/t1")
			if hubtest.Get[*corev1.ServiceAccount](hub, "ws", "t2-u2") == nil {
				t.Error("another token lost its account")
			}
		})
	}
}

// A token of a workspace that was created again can arrive before the watch of namespaces reports that.
func TestTokenOfRecreatedWorkspace_IsCheckedAgain(t *testing.T) {
	deleting := metav1.NewTime(time.Date(2026, 1, 1, 13, 0, 0, 0, time.UTC))
	hub := start(t, token(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ws", DeletionTimestamp: &deleting}})
	handle(t, hub)
	hubtest.ExpectWoken(t, hub, tokens+" ws/t1 in 15s")
	hub.Put(token(func(t *fleet.ClusterRegistrationToken) { t.DeletionTimestamp = &deleting }))
	handle(t, hub)
	hubtest.ExpectWoken(t, hub) // its deletion is an event
}

func TestSecretOfAnotherOwner_IsLeftAlone(t *testing.T) {
	foreign := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "t1"}, Type: corev1.SecretTypeOpaque, Data: map[string][]byte{"mine": []byte("1")}}
	hub := start(t, token(), foreign)
	settle(t, hub, 1)
	hub.Requests()
	settle(t, hub, 1)
	expectRequests(t, hub, "get Secret ws/t1", "update "+tokens+"/status ws/t1")
	expectReady(t, hub, genericcondition.GenericCondition{
		Status: "False", Reason: conditions.ReasonSecretNameTaken,
		Message: "a Secret of this name and another type exists and is not changed: delete the Secret, or use another name for the token",
	})
	if diff := cmp.Diff(foreign.Data, hubtest.MustGet[*corev1.Secret](t, hub, "ws", "t1").Data); diff != "" {
		t.Errorf("the Secret (-want +got):\n%s", diff)
	}
	// Such Secrets are not watched: the token is looked at again until the Secret is gone.
	hubtest.ExpectWoken(t, hub, tokens+" ws/t1 in 15s")
	hub.Remove(foreign)
	settle(t, hub, 1)
	expectReady(t, hub, genericcondition.GenericCondition{Status: "True"})
	if got := values(t, hub); got.TokenName != "t1" {
		t.Errorf("values are %+v", got)
	}
}

func TestEmptyTokenSecret_IsAwaited(t *testing.T) {
	hub := start(t, token())
	hub.CapTokens(24 * time.Hour)
	settle(t, hub, 1)
	hub.Requests()
	handle(t, hub)
	expectRequests(t, hub, "get Secret ws/t1", "mint ws/t1-u1 1193046h28m15s", "get ServiceAccount ws/t1-u1", "get Secret ws/t1-u1-token", "create Secret ws/t1-u1-token")
	hubtest.ExpectWoken(t, hub, tokens+" ws/t1 in 500ms")
	if hubtest.Get[*corev1.Secret](hub, "ws", "t1") != nil {
		t.Fatal("values without a token were handed out")
	}

	filled := hubtest.MustGet[*corev1.Secret](t, hub, "ws", "t1-u1-token")
	uid := string(hubtest.MustGet[*corev1.ServiceAccount](t, hub, "ws", account).UID)
	filled.Annotations[corev1.ServiceAccountUIDKey] = uid
	filled.Data = map[string][]byte{"token": []byte(hubtest.Token(uid, time.Time{}))}
	hub.Have(filled)
	settle(t, hub, 1)
	if got := values(t, hub).Token; got != hubtest.Token(uid, time.Time{}) {
		t.Errorf("the values' token is %q", got)
	}
	hub.Requests()
	settle(t, hub, 1)
	expectRequests(t, hub)
}

func TestTokenObjects_AreRestored(t *testing.T) {
	secret := func(hub *hubtest.Hub) *corev1.Secret { return hubtest.Get[*corev1.Secret](hub, "ws", "t1") }
	tests := map[string]struct {
		harm func(*hubtest.Hub)
		want []string
		// sameToken says that agents keep the token they were given.
		sameToken bool
	}{
		"deleted Role: created again, token stays": {
			harm: func(h *hubtest.Hub) {
				h.Remove(&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "t1-u1-role", Labels: map[string]string{fleet.LabelManaged: "true"}}})
			},
			want: []string{"create Role ws/t1-u1-role"}, sameToken: true,
		},
		"widened rules: restored": {
			harm: func(h *hubtest.Hub) {
				role := hubtest.Get[*rbacv1.Role](h, "ws", "t1-u1-role")
				role.Rules[0].Verbs = []string{"*"}
				h.Put(role)
			},
			want: []string{"patch Role ws/t1-u1-role"}, sameToken: true,
		},
		"another hub address: values are updated, token stays": {
			harm: func(h *hubtest.Hub) {
				h.App.Config.Set(config.Config{APIServerURL: "https://elsewhere", APIServerCA: []byte("PEM")})
			},
			want: []string{"patch Secret ws/t1"}, sameToken: true,
		},
		"invalid values: written again": {
			harm: func(h *hubtest.Hub) {
				s := secret(h)
				s.Data = map[string][]byte{"values": []byte("{")}
				h.Put(s)
			},
			want: []string{"get Secret ws/t1", "update " + tokens + "/status ws/t1", "mint ws/t1-u1 1193046h28m15s", "patch Secret ws/t1", "update " + tokens + "/status ws/t1"},
		},
		"recreated account: token is replaced": {
			harm: func(h *hubtest.Hub) {
				a := hubtest.Get[*corev1.ServiceAccount](h, "ws", account)
				a.UID = "another"
				h.Put(a)
			},
			want: []string{"get Secret ws/t1", "mint ws/t1-u1 1193046h28m15s", "patch Secret ws/t1"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			hub := start(t, token())
			settle(t, hub, 2)
			hub.Pass(time.Minute) // a new token differs
			before := values(t, hub).Token
			test.harm(hub)
			hub.Requests()
			settle(t, hub, 1)
			expectRequests(t, hub, test.want...)
			if same := values(t, hub).Token == before; same != test.sameToken {
				t.Errorf("the token is the same: %v", same)
			}
			hub.Requests()
			settle(t, hub, 1)
			expectRequests(t, hub)
		})
	}
}

// A Secret of the token's name and of the right type is not ours because of that.
func TestValuesSecretOfAnother_IsLeftAsItIs(t *testing.T) {
	hub := start(t, token())
	settle(t, hub, 2)
	theirs := hubtest.MustGet[*corev1.Secret](t, hub, "ws", "t1")
	delete(theirs.Labels, fleet.LabelSetHash)
	theirs.Data = map[string][]byte{"theirs": []byte("x")}
	hub.Put(theirs)
	hub.Requests()
	settle(t, hub, 1)
	got := hubtest.MustGet[*fleet.ClusterRegistrationToken](t, hub, "ws", "t1")
	ready := conditions.Get(got.Status.Conditions, conditions.Ready)
	if ready == nil || ready.Status != "False" || ready.Reason != "NameTaken" || !strings.HasPrefix(ready.Message, "Secret ws/t1 exists") || got.Status.SecretName != "" {
		t.Errorf("status %+v", got.Status)
	}
	if left := hubtest.MustGet[*corev1.Secret](t, hub, "ws", "t1"); string(left.Data["theirs"]) != "x" {
		t.Errorf("it was changed: %v", left.Data)
	}
	hub.Requests()
	settle(t, hub, 1)
	if again := hub.Requests(); len(again) > 0 {
		t.Errorf("the next look costs requests, which would go on for ever: %v", again)
	}
}

func TestFailedStep_IsRetried(t *testing.T) {
	tests := map[string]struct {
		settled int
		fail    string
		// never must not have been tried.
		never string
	}{
		"reading the Secret of the same name": {1, "get Secret ws/t1", "mint"},
		"requesting the token":                {1, "mint ws/t1-u1 1193046h28m15s", "create Secret"},
		"creating the account":                {0, "create ServiceAccount ws/t1-u1", "update " + tokens},
		"writing the values":                  {1, "create Secret ws/t1", "update " + tokens},
		"writing the status of the values":    {1, "update " + tokens + "/status ws/t1", "never"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			hub := start(t, token())
			settle(t, hub, test.settled)
			hub.Requests()
			hub.Fail(test.fail, errServer)
			if err := hub.Handle(tokens, "ws/t1"); !errors.Is(err, errServer) {
				t.Errorf("error %v, want the server's", err)
			}
			for _, request := range hub.Requests() {
				if strings.HasPrefix(request, test.never) {
					t.Errorf("went on to %s", request)
				}
			}
			hub.Fail(test.fail, nil)
			settle(t, hub, 2)
			expectReady(t, hub, genericcondition.GenericCondition{Status: "True"})
		})
	}
}

func TestRepairedValuesNotCached_AreNotRepairedAgain(t *testing.T) {
	hub := start(t, token())
	settle(t, hub, 2)
	broken := hubtest.MustGet[*corev1.Secret](t, hub, "ws", "t1")
	broken.Data = map[string][]byte{protocol.ValuesKey: []byte("{")}
	hub.Put(broken)
	handle(t, hub)
	hub.Pass(time.Minute) // a new token differs
	repaired := values(t, hub).Token
	for range 3 { // the status was written, which enqueues the token
		hub.See(hubtest.MustGet[*fleet.ClusterRegistrationToken](t, hub, "ws", "t1"))
		hub.Requests()
		handle(t, hub)
	}
	for _, request := range hub.Requests() {
		if request != "get Secret ws/t1" && request != "patch Secret ws/t1" { // the patch changes nothing
			t.Errorf("request %s, although the values are valid", request)
		}
	}
	if values(t, hub).Token != repaired {
		t.Error("the bearer token was replaced again")
	}
	expectReady(t, hub, genericcondition.GenericCondition{Status: "True"})
}

func TestGather(t *testing.T) {
	managed := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "ws", Name: name, Labels: map[string]string{fleet.LabelManaged: "true"}}
	}
	role := &rbacv1.Role{ObjectMeta: managed("t1-u1-role")}
	binding := &rbacv1.RoleBinding{ObjectMeta: managed("t1-u1-to-role")}
	sa := &corev1.ServiceAccount{ObjectMeta: managed(account)}
	theirs := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "t1"}, Type: corev1.SecretTypeOpaque}
	ours := &corev1.Secret{ObjectMeta: managed("t1"), Type: protocol.SecretTypeValues}
	type found struct {
		Account, Rights bool
		Secret          corev1.SecretType
	}
	tests := map[string]struct {
		there    []hubtest.Object
		spoil    hubtest.Object
		want     found
		requests []string
		fails    bool
	}{
		"missing objects: nil":                    {want: found{}},
		"one right is missing: no rights":         {there: []hubtest.Object{sa, role}, want: found{Account: true}},
		"values are read from the cache":          {there: []hubtest.Object{sa, role, binding, ours}, want: found{true, true, protocol.SecretTypeValues}},
		"Secret of another type: read if needed":  {there: []hubtest.Object{sa, role, binding, theirs}, want: found{true, true, corev1.SecretTypeOpaque}, requests: []string{"get Secret ws/t1"}},
		"Secret of another type: not read before": {there: []hubtest.Object{sa, role, theirs}, want: found{Account: true}},
		"an account that cannot be read":          {spoil: sa, fails: true},
		"a Role that cannot be read":              {spoil: role, fails: true},
		"a RoleBinding that cannot be read":       {spoil: binding, fails: true},
		"values that cannot be read":              {spoil: ours, fails: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			hub := start(t, test.there...)
			if test.spoil != nil {
				hub.Spoil(test.spoil)
			}
			h := &handler{app: hub.App, set: reconcile.NewSet(tokenrule.SetID)}
			in, err := h.gather(t.Context(), token())
			if (err != nil) != test.fails {
				t.Fatalf("error %v", err)
			}
			expectRequests(t, hub, test.requests...)
			if test.fails {
				return
			}
			got := found{Account: in.Account != nil, Rights: in.RightsExist}
			if in.Secret != nil {
				got.Secret = in.Secret.Type
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("found (-want +got):\n%s", diff)
			}
		})
	}
}

func TestHubAddressChanges_EnqueuesAllTokens(t *testing.T) {
	base := config.Config{APIServerURL: "https://hub", APIServerCA: []byte("PEM")}
	tests := map[string]struct {
		change func(*config.Config)
		woken  []string
	}{
		"another URL":      {func(c *config.Config) { c.APIServerURL = "https://new" }, []string{tokens + " ws/t1"}},
		"another CA":       {func(c *config.Config) { c.APIServerCA = []byte("new") }, []string{tokens + " ws/t1"}},
		"another TLS mode": {func(c *config.Config) { c.AgentTLSMode = "strict" }, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			hub := start(t, token())
			hub.Woken()
			next := base
			test.change(&next)
			hub.App.Config.Set(next)
			hubtest.ExpectWoken(t, hub, test.woken...)
		})
	}
}

func TestReadiness(t *testing.T) {
	tests := map[string]struct {
		of   tokenrule.Outcome
		want string
	}{
		"waiting":                  {tokenrule.Outcome{Stage: tokenrule.AwaitingRights}, "False AwaitingRights the account of the token is being created"},
		"waits with a problem":     {tokenrule.Outcome{Stage: tokenrule.AwaitingRights, Reason: "Given", Message: "said"}, "False Given said"},
		"blocked":                  {tokenrule.Outcome{Stage: tokenrule.Blocked, Reason: "Given", Message: "said"}, "False Given said"},
		"about to have its values": {tokenrule.Outcome{Stage: tokenrule.Minting}, "True  "},
		"ready":                    {tokenrule.Outcome{Stage: tokenrule.Ready}, "True  "},
		"ended":                    {tokenrule.Outcome{Stage: tokenrule.Ended, Reason: "Given", Message: "said"}, "False Given said"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			condition := readiness(test.of)
			if got := fmt.Sprintf("%s %s %s", condition.Status, condition.Reason, condition.Message); got != test.want {
				t.Errorf("condition %q, want %q", got, test.want)
			}
		})
	}
}

func TestSecretWithTheNameOfAToken_EnqueuesIt(t *testing.T) {
	hub := start(t, token())
	h := &handler{app: hub.App, set: reconcile.NewSet(tokenrule.SetID)}
	tests := map[string]struct {
		secret types.NamespacedName
		want   []types.NamespacedName
	}{
		"same name":         {types.NamespacedName{Namespace: "ws", Name: "t1"}, []types.NamespacedName{{Namespace: "ws", Name: "t1"}}},
		"another name":      {types.NamespacedName{Namespace: "ws", Name: "t2"}, nil},
		"another workspace": {types.NamespacedName{Namespace: "ws2", Name: "t1"}, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, h.tokenOf(test.secret)); diff != "" {
				t.Errorf("woken (-want +got):\n%s", diff)
			}
		})
	}
}

func TestGone_NamesTheOwner(t *testing.T) {
	owner := gone("ws/t1")
	if got := (types.NamespacedName{Namespace: owner.Namespace, Name: owner.Name}); got.String() != "ws/t1" || owner.GVK.Kind != tokens || owner.UID != "" {
		t.Errorf("gone is %+v", owner)
	}
}

func TestDefaultTTL_IsRecordedOnceAndEndsTheToken(t *testing.T) {
	hub := start(t, token())
	hub.App.Env.DefaultTokenTTL = time.Hour
	settle(t, hub, 3)
	status := hubtest.MustGet[*fleet.ClusterRegistrationToken](t, hub, "ws", "t1").Status
	if status.DefaultTTL == nil || status.DefaultTTL.Duration != time.Hour || status.Expires == nil {
		t.Fatalf("status %+v, want a default TTL of an hour and an expiry", status)
	}
	hub.App.Env.DefaultTokenTTL = 0 // only for tokens that are created later
	hub.Pass(2 * time.Hour)
	hub.Requests()
	handle(t, hub)
	expectRequests(t, hub, "update "+tokens+"/status ws/t1", "delete "+tokens+" ws/t1")
}
