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
func TestBinding(t *testing.T) {
	east := names.ClusterNamespace(rulestest.Workspace, "east")
	tests := map[string]struct {
		account types.NamespacedName
		want    string
	}{
		"account of an agent":                       {types.NamespacedName{Namespace: east, Name: "request-1-r1"}, "fleet-content-readers-07"},
		"another account of the same Cluster":       {types.NamespacedName{Namespace: east, Name: "request-2-r2"}, "fleet-content-readers-07"},
		"account of another Cluster":                {types.NamespacedName{Namespace: names.ClusterNamespace(rulestest.Workspace, "west"), Name: "request-1-r1"}, "fleet-content-readers-28"},
		"account of a Cluster in another workspace": {types.NamespacedName{Namespace: names.ClusterNamespace("team-b", "east"), Name: "request-1-r1"}, "fleet-content-readers-03"},
		"account of the hub's own Cluster":          {types.NamespacedName{Namespace: names.ClusterNamespace("fleet-local", "local"), Name: "request-1-r1"}, "fleet-content-readers-06"},
		"account without a namespace":               {types.NamespacedName{}, "fleet-content-readers-05"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			rulestest.ExpectEqual(t, "binding", rulestest.Pure(t, contentreaders.Binding, test.account), test.want)
		})
	}
}

// The Clusters have names that users choose and names that the hub computes.
func TestBinding_SpreadsClustersEvenly(t *testing.T) {
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

func TestDesired(t *testing.T) {
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
		"several in any order": {
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

func TestReads(t *testing.T) {
	account := types.NamespacedName{Namespace: rulestest.ACluster().Status.Namespace, Name: "request-1-r1"}
	type mod = func(*rbacv1.ClusterRoleBinding)
	tests := map[string]struct {
		binding *rbacv1.ClusterRoleBinding
		want    bool
	}{
		"binding names the account":                     {aContentBinding(), true},
		"no binding":                                    {nil, false},
		"binding to another role":                       {aContentBinding(mod(func(b *rbacv1.ClusterRoleBinding) { b.RoleRef.Name = "view" })), false},
		"binding to a Role of the same name":            {aContentBinding(mod(func(b *rbacv1.ClusterRoleBinding) { b.RoleRef.Kind = "Role" })), false},
		"binding names an account in another namespace": {aContentBinding(mod(func(b *rbacv1.ClusterRoleBinding) { b.Subjects[1].Namespace = "mine" })), false},
		"binding names an account with another name":    {aContentBinding(mod(func(b *rbacv1.ClusterRoleBinding) { b.Subjects[1].Name = "request-1-r2" })), false},
		"binding names a user of the same name":         {aContentBinding(mod(func(b *rbacv1.ClusterRoleBinding) { b.Subjects[1].Kind = "User" })), false},
		"binding without subjects":                      {aContentBinding(mod(func(b *rbacv1.ClusterRoleBinding) { b.Subjects = nil })), false},
		"binding with another name":                     {aContentBinding(mod(func(b *rbacv1.ClusterRoleBinding) { b.Name = "request-1-content" })), true},
		"binding with other subjects in another order":  {aContentBinding(mod(func(b *rbacv1.ClusterRoleBinding) { slices.Reverse(b.Subjects) })), true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := rulestest.Pure(t, func(b *rbacv1.ClusterRoleBinding) bool { return contentreaders.Reads(b, account) }, test.binding)
			rulestest.ExpectEqual(t, "that it reads", got, test.want)
		})
	}
}

func TestReads_FindsTheAccountsOfDesired(t *testing.T) {
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
		"account of a request":                   {agentAccount(), says{types.NamespacedName{Namespace: rulestest.Workspace, Name: "request-1"}, true}},
		"account with another name":              {agentAccount(func(a *corev1.ServiceAccount) { a.Namespace, a.Name = "n", "a" }), says{types.NamespacedName{Namespace: rulestest.Workspace, Name: "request-1"}, true}},
		"other account":                          {rulestest.AnAccount("n", "a", "u"), says{}},
		"annotation of the workspace is missing": {agentAccount(without(fleet.AnnotationClusterRegistrationNamespace)), says{Request: types.NamespacedName{Name: "request-1"}}},
		"annotation of the request is missing":   {agentAccount(without(fleet.AnnotationClusterRegistration)), says{Request: types.NamespacedName{Namespace: rulestest.Workspace}}},
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

func TestMayRead(t *testing.T) {
	going := rulestest.At(0)
	tests := map[string]struct {
		modify func(*contentReader)
		want   bool
	}{
		"the account of a request":                                      {func(*contentReader) {}, true},
		"the request is not granted yet":                                {func(r *contentReader) { r.Request.Status = fleet.ClusterRegistrationStatus{} }, true},
		"the request is deleted":                                        {func(r *contentReader) { r.Request = nil }, false},
		"the Cluster is deleted":                                        {func(r *contentReader) { r.Cluster = nil }, false},
		"the request has another manager":                               {func(r *contentReader) { r.Request.Labels[fleet.LabelClusterManagement] = "another" }, false},
		"the annotation names a Cluster of another workspace":           {func(r *contentReader) { r.Cluster.Namespace = "team-b" }, false},
		"the account is in a namespace of a user":                       {func(r *contentReader) { r.Account.Namespace = "mine" }, false},
		"the account is in the workspace":                               {func(r *contentReader) { r.Account.Namespace = rulestest.Workspace }, false},
		"the request is for another Cluster":                            {func(r *contentReader) { r.Cluster = rulestest.ACluster(func(c *fleet.Cluster) { c.Name = "west" }) }, false},
		"the Cluster has lost its status":                               {func(r *contentReader) { rulestest.ClusterWithoutNamespace(r.Cluster) }, true},
		"the Cluster has lost its status, account in another namespace": {func(r *contentReader) { rulestest.ClusterWithoutNamespace(r.Cluster); r.Account.Namespace = "mine" }, false},
		"the Cluster has lost its status, account without a namespace":  {func(r *contentReader) { rulestest.ClusterWithoutNamespace(r.Cluster); r.Account.Namespace = "" }, false},
		"the account has another name":                                  {func(r *contentReader) { r.Account.Name = "default" }, false},
		"the account is of another request": {func(r *contentReader) {
			r.Request = rulestest.ARequest(func(r *fleet.ClusterRegistration) { r.Name, r.UID = "request-2", "r2" })
		}, false},
		"the request was recreated":      {func(r *contentReader) { r.Request.UID = "r2" }, false},
		"the account is being deleted":   {func(r *contentReader) { r.Account.DeletionTimestamp = &going }, false},
		"the account has no annotations": {func(r *contentReader) { r.Account.Annotations = nil }, true},
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

func TestMayRead_AcceptsRecordedAccounts(t *testing.T) {
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
