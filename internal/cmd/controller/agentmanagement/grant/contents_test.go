package grant

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rancher/wrangler/v3/pkg/generic"
	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/hubtest"
	"github.com/fleet-hub/fleet/internal/rules/contentreaders"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// readersOfContents is the ClusterRoleBinding that accounts of Cluster ws/c1 share, for some of them.
func readersOfContents(accounts ...string) *rbacv1.ClusterRoleBinding {
	var keys []types.NamespacedName
	for _, name := range accounts {
		keys = append(keys, types.NamespacedName{Namespace: clusterNamespace, Name: name})
	}
	return contentreaders.Desired(contents, keys)
}

func TestNoCredential_BeforeContentsCanBeRead(t *testing.T) {
	elsewhere := readersOfContents(account)
	elsewhere.Name = "fleet-content-readers-02"
	another, unmarked := readersOfContents(account), readersOfContents(account)
	another.RoleRef.Name, unmarked.Labels = "another", nil
	tests := map[string][]hubtest.Object{
		"no binding":                                    nil,
		"binding with other accounts":                   {readersOfContents("r2-u-r2")},
		"account in another shared binding":             {elsewhere},
		"binding to another role":                       {another},
		"account in a binding of its own":               {ownBinding()},
		"account of the same name in another namespace": {contentreaders.Desired(contents, []types.NamespacedName{{Namespace: "ws", Name: account}})},
		"binding without the label of the cache":        {unmarked},
	}
	for name, there := range tests {
		t.Run(name, func(t *testing.T) {
			hub := start(t, request(), cluster(), asked())
			handle(t, hub)
			hubtest.ExpectWoken(t, hub, kindRequest+" ws/r1 in 10s") // it is too early to ask for anything else
			hub.Sync()
			hub.Put(there...)
			hub.Requests()
			handle(t, hub)
			expectRequests(t, hub)
			hubtest.ExpectWoken(t, hub, "ClusterRoleBinding "+contents+" in 100ms", kindRequest+" ws/r1 in 10s")
			expectNothingHandedOut(t, hub)

			hub.Put(readersOfContents(account, "r2-u-r2"))
			handle(t, hub)
			expectCredential(t, hub)
			expectStatus(t, hub, "c1", true, genericcondition.GenericCondition{Status: "True"})
			hubtest.ExpectWoken(t, hub)
		})
	}
}

// accountOf is the account of a request for Cluster ws/c1.
func accountOf(workspace, request string) *corev1.ServiceAccount {
	return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
		Namespace: clusterNamespace, Name: request + "-u-" + request, Labels: map[string]string{fleet.LabelManaged: "true"},
		Annotations: map[string]string{fleet.AnnotationClusterRegistration: request, fleet.AnnotationClusterRegistrationNamespace: workspace},
	}}
}

func TestContentReaders_EnqueueTheirRequests(t *testing.T) {
	mute := accountOf("ws", "r3")
	mute.Annotations = nil
	hub := start(t, accountOf("ws", "r1"), accountOf("ws", "r2"), mute, accountOf("", "r4"))
	h := &handler{app: hub.App}
	another := readersOfContents(account)
	another.Name = "fleet-content"
	keys := func(requests ...string) (found []types.NamespacedName) {
		for _, name := range requests {
			found = append(found, types.NamespacedName{Namespace: "ws", Name: name})
		}
		return found
	}
	tests := map[string]struct {
		binding *rbacv1.ClusterRoleBinding
		want    []types.NamespacedName
	}{
		"one account: its request":                   {readersOfContents(account), keys("r1")},
		"two accounts: both requests":                {readersOfContents(account, "r2-u-r2"), keys("r1", "r2")},
		"account missing in the cache: not enqueued": {readersOfContents("r0-u-r0", account), keys("r1")},
		"account without annotations: not enqueued":  {readersOfContents("r3-u-r3", "r4-u-r4", account), keys("r1")},
		"no accounts: none":                          {readersOfContents(), nil},
		"binding of one request: none":               {ownBinding(), nil},
		"other binding: none":                        {another, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var want []string
			for _, request := range test.want {
				want = append(want, kindRequest+" "+request.String())
			}
			for _, account := range contentReaders(test.binding) {
				h.enqueueRequestOfReader(account)
			}
			hubtest.ExpectWoken(t, hub, want...)
		})
	}
}

// overheard are ClusterRoleBindings whose informer tells a test who watches it.
type overheard struct {
	generic.NonNamespacedControllerInterface[*rbacv1.ClusterRoleBinding, *rbacv1.ClusterRoleBindingList]

	informer *watched
}

func (o overheard) Informer() cache.SharedIndexInformer { return o.informer }

type watched struct {
	cache.SharedIndexInformer

	handlers []cache.ResourceEventHandler
}

func (w *watched) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	w.handlers = append(w.handlers, handler)
	return w.SharedIndexInformer.AddEventHandler(handler)
}

func TestNewSubjectInABinding_EnqueuesItsRequest(t *testing.T) {
	hub := hubtest.New(t)
	hub.Put(accountOf("ws", "r1"), accountOf("ws", "r2"))
	bindings := overheard{hub.App.ClusterRoleBindings, &watched{SharedIndexInformer: hub.App.ClusterRoleBindings.Informer()}}
	hub.App.ClusterRoleBindings = bindings
	if err := Register(t.Context(), hub.App); err != nil {
		t.Fatal(err)
	}
	for _, handler := range bindings.informer.handlers {
		handler.OnUpdate(readersOfContents("r2-u-r2"), readersOfContents(account, "r2-u-r2"))
	}
	hubtest.ExpectWoken(t, hub, kindRequest+" ws/r1")
}

// Earlier releases created a binding for each agent.
func TestOwnContentBinding_StaysUntilTheSharedOneHasTheAccount(t *testing.T) {
	hub := grantedHub(t, ownBinding())
	hub.Put(readersOfContents("r2-u-r2"))
	for range 2 {
		hub.Put(ownBinding())
		handle(t, hub)
		expectRequests(t, hub)
		hubtest.ExpectWoken(t, hub, "ClusterRoleBinding "+contents+" in 100ms")
	}
	hub.Put(readersOfContents(account, "r2-u-r2"))
	handle(t, hub)
	expectRequests(t, hub, "delete ClusterRoleBinding r1-content")
	settle(t, hub, 1)
	expectRequests(t, hub)
	hubtest.ExpectWoken(t, hub)
	expectStatus(t, hub, "c1", true, genericcondition.GenericCondition{Status: "True"})
}

func TestBindingWithoutAccounts_IsDeletedAtOnce(t *testing.T) {
	hub := grantedHub(t)
	hub.Remove(readersOfContents())
	hub.Put(ownBinding(func(b *rbacv1.ClusterRoleBinding) { b.Subjects = nil }))
	handle(t, hub)
	expectRequests(t, hub, "delete ClusterRoleBinding r1-content")
}

func TestOwnContentBinding_IsSparedIfNeeded(t *testing.T) {
	tests := map[string]struct {
		member hubtest.Object
		shares []string
		spoil  bool
		want   bool
	}{
		"account is not in a shared binding: spared": {ownBinding(), []string{"r2-u-r2"}, false, true},
		"account is in a shared binding: deleted":    {ownBinding(), []string{account, "r2-u-r2"}, false, false},
		"one of two accounts is not in a shared binding: spared": {ownBinding(func(b *rbacv1.ClusterRoleBinding) {
			b.Subjects = append(b.Subjects, rbacv1.Subject{Kind: "ServiceAccount", Namespace: clusterNamespace, Name: "r0-u-r0"})
		}), []string{account}, false, true},
		"account is deleted: deleted":           {ownBinding(func(b *rbacv1.ClusterRoleBinding) { b.Subjects[0].Namespace = "gone" }), nil, false, false},
		"no subjects: deleted":                  {ownBinding(func(b *rbacv1.ClusterRoleBinding) { b.Subjects = nil }), nil, false, false},
		"shared binding cannot be read: spared": {ownBinding(), []string{account}, true, true},
		"object of another kind: spared":        {&rbacv1.RoleBinding{ObjectMeta: child("ws", "r1-content")}, []string{account}, false, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			hub := start(t, readersOfContents(test.shares...), accountOf("ws", "r1"), accountOf("ws", "r0"))
			if test.spoil {
				hub.Spoil(readersOfContents())
			}
			if got := bindingsOf(hub.App)(test.member); got != test.want {
				t.Errorf("spared: %t", got)
			}
		})
	}
}

// The credential works again as soon as the binding is restored, so nothing is reported and no token is requested.
func TestGrantedAccountWithoutBinding_OnlyEnqueuesTheBinding(t *testing.T) {
	tests := map[string]func(*hubtest.Hub){
		"account is removed":       func(h *hubtest.Hub) { h.Put(readersOfContents("r2-u-r2")) },
		"all subjects are removed": func(h *hubtest.Hub) { h.Put(readersOfContents()) },
		"binding is deleted":       func(h *hubtest.Hub) { h.Remove(readersOfContents()) },
	}
	for name, harm := range tests {
		t.Run(name, func(t *testing.T) {
			hub := grantedHub(t)
			before := hubtest.MustGet[*corev1.Secret](t, hub, registration, credential)
			hub.Pass(noticeable)
			harm(hub)
			handle(t, hub)
			expectRequests(t, hub)
			hubtest.ExpectWoken(t, hub, "ClusterRoleBinding "+contents+" in 100ms")
			expectEvents(t, hub)
			expectStatus(t, hub, "c1", true, genericcondition.GenericCondition{Status: "True"})

			catchUp(t, hub)
			handle(t, hub)
			expectRequests(t, hub)
			hubtest.ExpectWoken(t, hub)
			if diff := cmp.Diff(before, hubtest.MustGet[*corev1.Secret](t, hub, registration, credential)); diff != "" {
				t.Errorf("the credential (-before +after):\n%s", diff)
			}
		})
	}
}

func TestUnchangedBinding_IsNotEnqueued(t *testing.T) {
	hub := grantedHub(t)
	hub.Remove(&rbacv1.RoleBinding{ObjectMeta: child(clusterNamespace, "r1")})
	handle(t, hub)
	expectRequests(t, hub, "create RoleBinding cluster-ws-c1-552959a9c359/r1")
	hubtest.ExpectWoken(t, hub)
}
