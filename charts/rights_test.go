package charts_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/fleet-hub/fleet/e2e/framework/helm"
	"github.com/fleet-hub/fleet/internal/protocol/names"
)

const rightsNamespace = "rights-fleet"

// rights installs the hub's charts once for all tests of the rights that they grant.
var rights = sync.OnceValue(func() error {
	for _, chart := range []string{"fleet-crd", "fleet"} {
		release := helm.Release{Config: control.Plane(nobody{}).Hub.Config(), Chart: chart, Name: chart, Namespace: rightsNamespace}
		if err := release.Install(context.Background()); err != nil { // for all tests
			return err
		}
	}
	return nil
})

// nobody stands for a test that already has its plane.
type nobody struct{}

func (nobody) Helper()                           {}
func (nobody) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// asControllers installs the chart and returns a config with the identity of the controllers.
func asControllers(t *testing.T) *rest.Config {
	t.Helper()
	cfg := control.Plane(t).Hub.Config()
	if err := rights(); err != nil {
		t.Fatal(err)
	}
	cfg.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + rightsNamespace + ":fleet-controller"}
	return cfg
}

// TestControllers_MayReadOnlyWhatTheyWatch sends requests as the controllers. Reads that are limited to names succeed with
// the selector that the caches use, and with no other.
func TestControllers_MayReadOnlyWhatTheyWatch(t *testing.T) {
	client, err := kubernetes.NewForConfig(asControllers(t))
	if err != nil {
		t.Fatal(err)
	}
	own := metav1.ListOptions{FieldSelector: "metadata.name=" + names.ControllerConfig}
	tests := map[string]struct {
		do      func() error
		refused bool
	}{
		"list of their ConfigMap: allowed": {do: func() error {
			_, err := client.CoreV1().ConfigMaps(rightsNamespace).List(t.Context(), own)
			return err
		}},
		"list of all ConfigMaps, which are copied to clusters: allowed": {do: func() error {
			_, err := client.CoreV1().ConfigMaps("").List(t.Context(), metav1.ListOptions{})
			return err
		}},
		"deletion of a ConfigMap, such as a copy: allowed": {do: func() error {
			return client.CoreV1().ConfigMaps("kube-system").Delete(t.Context(), "kube-root-ca.crt", metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
		}},
		"deletion of all ConfigMaps of a namespace: forbidden": {refused: true, do: func() error {
			return client.CoreV1().ConfigMaps("kube-system").DeleteCollection(t.Context(), metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}, metav1.ListOptions{})
		}},
		"watch of their Deployment: allowed": {do: func() error {
			w, err := client.AppsV1().Deployments(rightsNamespace).Watch(t.Context(), own)
			if err == nil {
				w.Stop()
			}
			return err
		}},
		"list of Deployments in another namespace: forbidden": {refused: true, do: func() error {
			_, err := client.AppsV1().Deployments("kube-system").List(t.Context(), own)
			return err
		}},
		"list of ClusterRoles: allowed": {do: func() error {
			_, err := client.RbacV1().ClusterRoles().List(t.Context(), metav1.ListOptions{})
			return err
		}},
		"list of all Secrets of a type: allowed": {do: func() error {
			_, err := client.CoreV1().Secrets("").List(t.Context(), metav1.ListOptions{FieldSelector: "type=fleet.cattle.io/agent-credential"})
			return err
		}},
		"list of pods: forbidden": {refused: true, do: func() error {
			_, err := client.CoreV1().Pods(rightsNamespace).List(t.Context(), metav1.ListOptions{})
			return err
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { expectRight(t, test.do(), !test.refused) })
	}
}

// TestControllers_MayUseOnlyTheirLeases uses the leases as the leader election does, and another one.
func TestControllers_MayUseOnlyTheirLeases(t *testing.T) {
	client, err := kubernetes.NewForConfig(asControllers(t))
	if err != nil {
		t.Fatal(err)
	}
	leases := client.CoordinationV1().Leases(rightsNamespace)
	watched := map[string]bool{"another": false}
	for _, name := range []string{"fleet-cleanup-lock", "fleet-controller-leader-election-shard", "fleet-agentmanagement-lock"} {
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if lease, err = leases.Create(t.Context(), lease, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		lease.Spec.HolderIdentity = new("me")
		if _, err := leases.Update(t.Context(), lease, metav1.UpdateOptions{}); err != nil {
			t.Error(err)
		}
		watched[name] = true
	}
	for name, may := range watched { // a standby replica watches its lease
		watching, err := leases.Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + name})
		if err == nil {
			watching.Stop()
		}
		expectRight(t, err, may)
	}
	_, err = leases.Get(t.Context(), "another", metav1.GetOptions{})
	expectRight(t, err, false)
}

// TestControllers_MayGrantOnlyRecordedRoles creates the recorded roles and bindings as the controllers. The API server
// lets no client grant rights that it does not have.
func TestControllers_MayGrantOnlyRecordedRoles(t *testing.T) {
	cfg := asControllers(t)
	admin, s := newServer(t), newServer(t)
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s.client = client
	for _, role := range recorded(t, "clusterroles.yaml") { // bindings refer to these two
		if err := s.make(t, role, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatalf("ClusterRole %s: %v", role.GetName(), err)
		}
	}
	made := 0
	for _, file := range []string{"roles.yaml", "rolebindings.yaml", "clusterrolebindings.yaml"} {
		for _, object := range recorded(t, file) {
			if object.GetNamespace() != "" {
				admin.namespace(t, object.GetNamespace())
			}
			if object.GetKind() == "RoleBinding" { // to bind a role, it must be there
				s.needRole(t, object)
			}
			made++
			if err := s.make(t, object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil && !apierrors.IsAlreadyExists(err) {
				t.Errorf("%s %s: %v", object.GetKind(), object.GetName(), err)
			}
		}
	}
	if made < 20 {
		t.Errorf("only %d objects are recorded", made)
	}
	everything := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": map[string]any{"name": "everything"},
		"rules": []any{map[string]any{"apiGroups": []any{"*"}, "resources": []any{"*"}, "verbs": []any{"*"}}},
	}}
	expectRight(t, s.make(t, everything, metav1.CreateOptions{}), false)
}

// needRole creates the recorded role that a binding refers to.
func (s server) needRole(t *testing.T, binding *unstructured.Unstructured) {
	t.Helper()
	wanted, _, _ := unstructured.NestedString(binding.Object, "roleRef", "name") // empty where it is missing, and then not found
	for _, role := range recorded(t, "roles.yaml") {
		if role.GetName() == wanted && role.GetNamespace() == binding.GetNamespace() {
			if err := s.make(t, role, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
				t.Fatalf("Role %s: %v", wanted, err)
			}
		}
	}
}

func (s server) make(t *testing.T, object *unstructured.Unstructured, options metav1.CreateOptions) error {
	t.Helper()
	resource, err := s.resource(object)
	if err != nil {
		t.Fatal(err)
	}
	_, err = resource.Create(t.Context(), object.DeepCopy(), options)
	return err
}

// recorded returns the recorded objects of controllers in a file, without UIDs and owners.
func recorded(t *testing.T, file string) []*unstructured.Unstructured {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "testdata", "recorded", "hub", file))
	if err != nil {
		t.Fatal(err)
	}
	var all []*unstructured.Unstructured
	for _, document := range strings.Split(string(text), "\n---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
			t.Fatal(err)
		}
		set := object.GetAnnotations()["objectset.rio.cattle.io/id"]
		if set == "" || set == "fleet-agent-bootstrap" { // Helm's, and the agent's on the hub as a downstream cluster
			continue
		}
		object.SetUID("")
		object.SetOwnerReferences(nil)
		all = append(all, object)
	}
	return all
}

// expectRight checks whether a request was allowed or forbidden.
func expectRight(t *testing.T, err error, allowed bool) {
	t.Helper()
	switch {
	case allowed && err != nil:
		t.Errorf("refused: %v", err)
	case !allowed && !apierrors.IsForbidden(err):
		t.Errorf("not forbidden: %v", err)
	}
}
