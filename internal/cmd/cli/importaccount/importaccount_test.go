package importaccount_test

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/fleet-hub/fleet/internal/cmd/cli/clitest"
	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
	"github.com/fleet-hub/fleet/internal/cmd/cli/importaccount"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

// The account of this hub, and its name.
const (
	hubUID = "uid-hub"
	name   = "fleet-import-fleet-default-east-958111e3c3aee16d"
)

// start starts a cluster with objects, and returns the account on it.
func start(t *testing.T, objects ...runtime.Object) (*clitest.Server, *importaccount.Account) {
	t.Helper()
	server := clitest.Start(t, objects...)
	return server, importaccount.New(server.Open(t).Core, hubUID, "fleet-default", "east")
}

// part returns an object of the account.
func part(object runtime.Object, labels map[string]string) runtime.Object {
	meta := object.(metav1.Object)
	meta.SetName(name)
	meta.SetLabels(labels)
	meta.SetAnnotations(map[string]string{annotation.HubUID: hubUID})
	if _, isBinding := object.(*rbacv1.ClusterRoleBinding); !isBinding {
		meta.SetNamespace(metav1.NamespaceSystem)
	}
	return object
}

func all() []runtime.Object {
	return []runtime.Object{
		part(&corev1.ServiceAccount{}, importaccount.Labels()), part(&rbacv1.ClusterRoleBinding{}, importaccount.Labels()), part(&corev1.Secret{}, importaccount.Labels()),
	}
}

func TestInterruptedEnsure_IsUndone(t *testing.T) {
	for at := range 3 {
		server, account := start(t)
		ctx, cancel := context.WithCancel(t.Context())
		writes := 0
		server.React = func(_ *clitest.Server, method string, _ *clitest.Object) {
			if method == "POST" && writes == at {
				cancel()
			}
			writes++
		}
		_, err := account.Ensure(ctx)
		if err == nil || len(server.Writes()) != at+1 {
			t.Errorf("write %d: error %v, requests %v", at, err, server.Writes())
		}
		if err := account.Undo(t.Context()); err != nil {
			t.Error(err)
		}
		for _, object := range all() {
			if found := server.Get(object); found != nil {
				t.Errorf("write %d: %s stays", at, found.GetKind())
			}
		}
	}
}

func TestUndo_KeepsWhatExistedBefore(t *testing.T) {
	server, account := start(t, all()[0], all()[2])
	server.Refuse("GET /api/v1/namespaces/kube-system/secrets/"+name, 403)
	if _, err := account.Ensure(t.Context()); exit.CodeOf(err) != exit.Refused {
		t.Errorf("error %v", err)
	}
	server.Refuse("GET /api/v1/namespaces/kube-system/secrets/"+name, 0)
	if err := account.Undo(t.Context()); err != nil {
		t.Error(err)
	}
	for i, object := range all() {
		if found := server.Get(object) != nil; found != (i != 1) {
			t.Errorf("%T: %v", object, found)
		}
	}
}

func TestUndoOfOneObjectThatFails_DeletesTheOthers(t *testing.T) {
	server, account := start(t)
	server.Refuse("POST /api/v1/namespaces/kube-system/secrets", 403)
	server.Refuse("DELETE /apis/rbac.authorization.k8s.io/v1/clusterrolebindings/"+name, 403)
	_, _ = account.Ensure(t.Context())
	if err := account.Undo(t.Context()); err == nil || server.Get(all()[0]) != nil {
		t.Errorf("error %v, requests %v", err, server.Writes())
	}
}

func TestAccounts_AreOfOneHubAndCluster(t *testing.T) {
	seen := map[string]bool{}
	for _, one := range [][3]string{{"hub-1", "team", "a-east"}, {"hub-1", "team-a", "east"}, {"hub-2", "team", "a-east"}} {
		account := importaccount.New(nil, one[0], one[1], one[2])
		if seen[account.Name] {
			t.Errorf("%v: the name %s is that of another one", one, account.Name)
		}
		seen[account.Name] = true
	}
}

func TestFind_ReturnsOnlyObjectsOfThisHub(t *testing.T) {
	other := all()[0].(*corev1.ServiceAccount)
	other.Annotations = map[string]string{annotation.HubUID: "uid-other"}
	earlier := func(hub string) *corev1.Secret {
		secret := &corev1.Secret{}
		secret.Namespace, secret.Name, secret.Labels = metav1.NamespaceSystem, "fleet-import-fleet-default-east", importaccount.Labels()
		if hub != "" {
			secret.Annotations = map[string]string{annotation.HubUID: hub}
		}
		return secret
	}
	for name, test := range map[string]struct {
		objects []runtime.Object
		want    []bool // whether each is of an earlier release
	}{
		"all of this hub":                      {all(), []bool{false, false, false}},
		"one of another hub":                   {[]runtime.Object{other, all()[1]}, []bool{false}},
		"one of an earlier release":            {[]runtime.Object{all()[1], earlier("")}, []bool{false, true}},
		"the name of earlier, and another hub": {[]runtime.Object{earlier("uid-other")}, nil},
	} {
		_, account := start(t, test.objects...)
		parts, err := account.Find(t.Context())
		var got []bool
		for _, part := range parts {
			got = append(got, part.Earlier)
		}
		if err != nil || !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, error %v", name, got, err)
		}
	}
}

func TestObjectsOfOthers_AreRefused(t *testing.T) {
	for i, kind := range []string{"ServiceAccount", "ClusterRoleBinding", "Secret"} {
		objects := slices.Delete(all(), i, i+1)
		server, account := start(t, append(objects, part(all()[i], nil))...)
		_, err := account.Ensure(t.Context())
		if exit.CodeOf(err) != exit.Refused || !strings.HasPrefix(exit.Text(err), "error: "+kind+" "+name+" exists and was not created by this command\n") || len(server.Writes()) > 0 {
			t.Errorf("%s: %v, requests %v", kind, err, server.Writes())
		}
	}
}

func TestClusterThatFailsForAMoment_TokenIsAwaited(t *testing.T) {
	secret := all()[2].(*corev1.Secret)
	secret.Data = map[string][]byte{corev1.ServiceAccountTokenKey: []byte("t")}
	server, account := start(t, all()[0], all()[1], secret)
	var requests atomic.Int32
	server.Fails = func() bool { return requests.Add(1) == 4 } // the first three read the objects
	if token, err := account.Ensure(t.Context()); err != nil || token != "t" {
		t.Errorf("token %q, error %v", token, err)
	}
}
