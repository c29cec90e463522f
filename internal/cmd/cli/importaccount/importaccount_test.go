package importaccount_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/fleet-hub/fleet/internal/cmd/cli/access"
	"github.com/fleet-hub/fleet/internal/cmd/cli/clitest"
	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
	"github.com/fleet-hub/fleet/internal/cmd/cli/importaccount"
)

const name = "fleet-import-fleet-default-east"

// start starts a cluster with objects, and returns the account on it.
func start(t *testing.T, objects ...runtime.Object) (*clitest.Server, *importaccount.Account) {
	t.Helper()
	server, flags, set := clitest.Start(t, objects...), access.NewFlags(), pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.Bind(set)
	if err := set.Parse([]string{"--kubeconfig", server.Kubeconfig}); err != nil {
		t.Fatal(err)
	}
	cluster, err := flags.Open()
	if err != nil {
		t.Fatal(err)
	}
	return server, importaccount.New(cluster.Core, "fleet-default", "east")
}

// part returns an object of the account.
func part(object runtime.Object, labels map[string]string) runtime.Object {
	meta := object.(metav1.Object)
	meta.SetName(name)
	meta.SetLabels(labels)
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
