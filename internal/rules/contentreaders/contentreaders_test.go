package contentreaders_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/contentreaders"
	"github.com/fleet-hub/fleet/internal/rules/rulestest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Another formula would move all agents from one binding to another.
func TestContentBinding(t *testing.T) {
	east := names.ClusterNamespace(rulestest.Workspace, "east")
	tests := map[string]struct {
		account types.NamespacedName
		want    string
	}{
		"an agent's":                       {types.NamespacedName{Namespace: east, Name: "request-1-r1"}, "fleet-content-readers-07"},
		"another one of the same Cluster":  {types.NamespacedName{Namespace: east, Name: "request-2-r2"}, "fleet-content-readers-07"},
		"one of another Cluster":           {types.NamespacedName{Namespace: names.ClusterNamespace(rulestest.Workspace, "west"), Name: "request-1-r1"}, "fleet-content-readers-28"},
		"one of a Cluster of another team": {types.NamespacedName{Namespace: names.ClusterNamespace("team-b", "east"), Name: "request-1-r1"}, "fleet-content-readers-03"},
		"the hub's own":                    {types.NamespacedName{Namespace: names.ClusterNamespace("fleet-local", "local"), Name: "request-1-r1"}, "fleet-content-readers-06"},
		"one of no namespace":              {types.NamespacedName{}, "fleet-content-readers-05"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			rulestest.ExpectEqual(t, "binding", rulestest.Pure(t, contentreaders.Binding, test.account), test.want)
		})
	}
}

// A thousand Clusters, called as people and as the controllers call them, are spread over all bindings, and evenly.
func TestAgentsAreSpreadOverTheBindings(t *testing.T) {
	const clusters, bindings = 1000, 32
	tests := map[string]func(i int) string{
		"Clusters that were imported":     func(i int) string { return fmt.Sprintf("c%d", i) },
		"Clusters that agents registered": func(i int) string { return names.Cluster(fmt.Sprintf("client %d", i)) },
	}
	var all []string
	for i := range bindings {
		all = append(all, fmt.Sprintf("fleet-content-readers-%02d", i))
	}
	for name, cluster := range tests {
		t.Run(name, func(t *testing.T) {
			accounts := map[string]int{}
			for i := range clusters {
				accounts[contentreaders.Binding(types.NamespacedName{Namespace: names.ClusterNamespace(rulestest.Workspace, cluster(i)), Name: "request-1-r1"})]++
			}
			rulestest.ExpectEqual(t, "bindings", slices.Sorted(maps.Keys(accounts)), all)
			for name, shared := range accounts {
				if most := 2 * clusters / bindings; shared > most {
					t.Errorf("%d accounts share %s, want at most %d", shared, name, most)
				}
				if !contentreaders.IsBinding(name) {
					t.Errorf("%s is not known to be shared", name)
				}
			}
		})
	}
}

func TestIsContentBinding(t *testing.T) {
	tests := map[string]bool{
		"fleet-content-readers-00": true,
		"fleet-content-readers-31": true,
		"fleet-content-readers-32": true, // of a hub that has more of them
		"fleet-content":            false,
		"fleet-content-readers":    false,
		"request-1-content":        false, // of a hub where each agent has its own
		"my-content-readers-00":    false,
		"":                         false,
	}
	for name, want := range tests {
		t.Run(name, func(t *testing.T) {
			rulestest.ExpectEqual(t, "that agents share it", contentreaders.IsBinding(name), want)
		})
	}
}

func TestContentReaders(t *testing.T) {
	const name = "fleet-content-readers-07"
	binding := func(accounts ...string) *rbacv1.ClusterRoleBinding {
		b := aContentBinding()
		b.Name, b.Subjects = name, nil
		for i := 0; i < len(accounts); i += 2 {
			b.Subjects = append(b.Subjects, rbacv1.Subject{Kind: "ServiceAccount", Namespace: accounts[i], Name: accounts[i+1]})
		}
		return b
	}
	tests := map[string]struct {
		accounts []types.NamespacedName
		want     *rbacv1.ClusterRoleBinding
	}{
		"nobody": {nil, binding()},
		"one":    {[]types.NamespacedName{{Namespace: "n", Name: "a"}}, binding("n", "a")},
		"several, whatever their order": {
			[]types.NamespacedName{{Namespace: "n", Name: "b"}, {Namespace: "n", Name: "a"}, {Namespace: "m", Name: "c"}, {Namespace: "n-1", Name: "a"}},
			binding("m", "c", "n-1", "a", "n", "a", "n", "b"),
		},
	}
	for sentence, test := range tests {
		t.Run(sentence, func(t *testing.T) {
			rulestest.Permute(test.accounts, func(accounts []types.NamespacedName) {
				got := rulestest.Pure(t, func(accounts []types.NamespacedName) *rbacv1.ClusterRoleBinding {
					return contentreaders.Desired(name, accounts)
				}, accounts)
				rulestest.ExpectEqual(t, "binding", got, test.want)
			})
		})
	}
}

// aContentBinding lets the agent of aRequest and another one read Contents.
func aContentBinding(modifiers ...func(*rbacv1.ClusterRoleBinding)) *rbacv1.ClusterRoleBinding {
	return rulestest.Build(&rbacv1.ClusterRoleBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRoleBinding"},
		ObjectMeta: metav1.ObjectMeta{Name: "fleet-content-readers-00", Labels: map[string]string{fleet.LabelManaged: "true"}},
		RoleRef:    rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: "fleet-content"},
		Subjects: []rbacv1.Subject{
			{Kind: "ServiceAccount", Namespace: "another", Name: "another"},
			{Kind: "ServiceAccount", Namespace: rulestest.ACluster().Status.Namespace, Name: "request-1-r1"},
		},
	}, modifiers)
}

func TestReadsContents(t *testing.T) {
	account := types.NamespacedName{Namespace: rulestest.ACluster().Status.Namespace, Name: "request-1-r1"}
	type mod = func(*rbacv1.ClusterRoleBinding)
	tests := map[string]struct {
		binding *rbacv1.ClusterRoleBinding
		want    bool
	}{
		"an account that the binding names":      {aContentBinding(), true},
		"nobody, if there is none":               {nil, false},
		"not by another role":                    {aContentBinding(mod(func(b *rbacv1.ClusterRoleBinding) { b.RoleRef.Name = "view" })), false},
		"nor by a Role of the name":              {aContentBinding(mod(func(b *rbacv1.ClusterRoleBinding) { b.RoleRef.Kind = "Role" })), false},
		"one of another namespace is another":    {aContentBinding(mod(func(b *rbacv1.ClusterRoleBinding) { b.Subjects[1].Namespace = "mine" })), false},
		"so is one of another name":              {aContentBinding(mod(func(b *rbacv1.ClusterRoleBinding) { b.Subjects[1].Name = "request-1-r2" })), false},
		"so is a person of the name":             {aContentBinding(mod(func(b *rbacv1.ClusterRoleBinding) { b.Subjects[1].Kind = "User" })), false},
		"nobody, if the binding is for nobody":   {aContentBinding(mod(func(b *rbacv1.ClusterRoleBinding) { b.Subjects = nil })), false},
		"whatever the name of the binding is":    {aContentBinding(mod(func(b *rbacv1.ClusterRoleBinding) { b.Name = "request-1-content" })), true},
		"whoever else is in it, and where it is": {aContentBinding(mod(func(b *rbacv1.ClusterRoleBinding) { slices.Reverse(b.Subjects) })), true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := rulestest.Pure(t, func(b *rbacv1.ClusterRoleBinding) bool { return contentreaders.Reads(b, account) }, test.binding)
			rulestest.ExpectEqual(t, "that it reads", got, test.want)
		})
	}
}

// What is written is what is looked for.
func TestReadersReadContents(t *testing.T) {
	account := types.NamespacedName{Namespace: "n", Name: "a"}
	binding := contentreaders.Desired(contentreaders.Binding(account), []types.NamespacedName{{Namespace: "m", Name: "b"}, account})
	rulestest.ExpectEqual(t, "that it reads", contentreaders.Reads(binding, account), true)
}

// agentAccount is the account of aRequest for ACluster.
func agentAccount(modifiers ...func(*corev1.ServiceAccount)) *corev1.ServiceAccount {
	account := rulestest.AnAccount(rulestest.ACluster().Status.Namespace, "request-1-r1", "account-1")
	account.Annotations = map[string]string{
		"fleet.cattle.io/cluster":                        "east",
		"fleet.cattle.io/cluster-registration":           "request-1",
		"fleet.cattle.io/cluster-registration-namespace": rulestest.Workspace,
	}
	return rulestest.Build(account, modifiers)
}

func TestRequestOf(t *testing.T) {
	without := func(annotation string) func(*corev1.ServiceAccount) {
		return func(a *corev1.ServiceAccount) { delete(a.Annotations, annotation) }
	}
	type says struct {
		Request types.NamespacedName
		IsSaid  bool
	}
	tests := map[string]struct {
		account *corev1.ServiceAccount
		want    says
	}{
		"an agent's says which it is":               {agentAccount(), says{types.NamespacedName{Namespace: rulestest.Workspace, Name: "request-1"}, true}},
		"whatever its name is":                      {agentAccount(func(a *corev1.ServiceAccount) { a.Namespace, a.Name = "n", "a" }), says{types.NamespacedName{Namespace: rulestest.Workspace, Name: "request-1"}, true}},
		"any other says nothing":                    {rulestest.AnAccount("n", "a", "u"), says{}},
		"without the workspace nobody knows which":  {agentAccount(without(fleet.AnnotationClusterRegistrationNamespace)), says{Request: types.NamespacedName{Name: "request-1"}}},
		"without the request's name nobody does so": {agentAccount(without(fleet.AnnotationClusterRegistration)), says{Request: types.NamespacedName{Namespace: rulestest.Workspace}}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := rulestest.Pure(t, func(account *corev1.ServiceAccount) says {
				request, isSaid := contentreaders.RequestOf(account)
				return says{request, isSaid}
			}, test.account)
			rulestest.ExpectEqual(t, "request", got, test.want)
		})
	}
}

// contentReader is an account with what was found of its request and its Cluster.
type contentReader struct {
	Account *corev1.ServiceAccount
	Request *fleet.ClusterRegistration
	Cluster *fleet.Cluster
}

func TestMayReadContents(t *testing.T) {
	going := rulestest.At(0)
	tests := map[string]struct {
		modify func(*contentReader)
		want   bool
	}{
		"the account of a request":                          {func(*contentReader) {}, true},
		"also before the request is granted, which waits":   {func(r *contentReader) { r.Request.Status = fleet.ClusterRegistrationStatus{} }, true},
		"no account of a request that is gone":              {func(r *contentReader) { r.Request = nil }, false},
		"none of a Cluster that is gone":                    {func(r *contentReader) { r.Cluster = nil }, false},
		"none of a request of another manager's":            {func(r *contentReader) { r.Request.Labels[fleet.LabelClusterManagement] = "another" }, false},
		"none that says that its Cluster is another team's": {func(r *contentReader) { r.Cluster.Namespace = "team-b" }, false},
		"none in the namespace of whoever likes to read":    {func(r *contentReader) { r.Account.Namespace = "mine" }, false},
		"none in the workspace, where people may make them": {func(r *contentReader) { r.Account.Namespace = rulestest.Workspace }, false},
		"none of another Cluster, whatever it says":         {func(r *contentReader) { r.Cluster = rulestest.ACluster(func(c *fleet.Cluster) { c.Name = "west" }) }, false},
		"that of a Cluster that has lost its status":        {func(r *contentReader) { rulestest.ClusterWithoutNamespace(r.Cluster) }, true},
		"but then none in another namespace, either":        {func(r *contentReader) { rulestest.ClusterWithoutNamespace(r.Cluster); r.Account.Namespace = "mine" }, false},
		"and none in no namespace":                          {func(r *contentReader) { rulestest.ClusterWithoutNamespace(r.Cluster); r.Account.Namespace = "" }, false},
		"none of another name":                              {func(r *contentReader) { r.Account.Name = "default" }, false},
		"none of another request": {func(r *contentReader) {
			r.Request = rulestest.ARequest(func(r *fleet.ClusterRegistration) { r.Name, r.UID = "request-2", "r2" })
		}, false},
		"none of a request of the name that was there before": {func(r *contentReader) { r.Request.UID = "r2" }, false},
		"none that is going, for its tokens go with it":       {func(r *contentReader) { r.Account.DeletionTimestamp = &going }, false},
		"what it says of itself does not count":               {func(r *contentReader) { r.Account.Annotations = nil }, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := contentReader{agentAccount(), rulestest.ARequest(), rulestest.ACluster()}
			test.modify(&r)
			rulestest.ExpectEqual(t, "that it may", rulestest.Pure(t, mayReadContents, r), test.want)
		})
	}
}

func mayReadContents(r contentReader) bool {
	return contentreaders.MayRead(r.Account, r.Request, r.Cluster)
}

// The accounts that another implementation has left may read, too.
func TestRecordedAccountsMayReadContents(t *testing.T) {
	hub := rulestest.RecordedOn(t, "hub")
	var may []string
	for _, key := range hub.All("ServiceAccount") {
		account := rulestest.Must[corev1.ServiceAccount](t, hub, key)
		of, says := contentreaders.RequestOf(account)
		if !says {
			continue
		}
		r := contentReader{
			account, rulestest.Must[fleet.ClusterRegistration](t, hub, "ClusterRegistration "+of.String()),
			rulestest.Must[fleet.Cluster](t, hub, "Cluster "+of.Namespace+"/"+account.Annotations[fleet.AnnotationCluster]),
		}
		if rulestest.Pure(t, mayReadContents, r) {
			may = append(may, of.String())
		}
	}
	slices.Sort(may)
	rulestest.ExpectEqual(t, "requests whose accounts may", may, []string{"fleet-default/request-5k4nm", "fleet-default/request-pvwtt", "fleet-local/request-sbpkm"})
}
