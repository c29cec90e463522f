package charts_test

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/yaml"
)

// TestRancherFleetControllers_AreUpgradedInPlace upgrades the release fleet of Rancher Fleet to our chart, with a values file
// that has every value.
func TestRancherFleetControllers_AreUpgradedInPlace(t *testing.T) {
	cluster := control.Plane(t).Cluster(theirs)
	install(t, ourRelease(cluster, "fleet-crd", nil))
	uninstall(t, ourRelease(cluster, "fleet", nil)) // of another run
	install(t, theirRelease(t, cluster, "fleet", theirControllers(t)))
	s := serverOf(t, cluster)
	before := s.controllers(t)

	ours := ourRelease(cluster, "fleet", everyValue(t, "fleet"))
	install(t, ours)
	after := s.controllers(t)
	if before.UID != after.UID {
		t.Error("the Deployment was recreated")
	}
	var containers []string
	for _, container := range after.Spec.Template.Spec.Containers {
		containers = append(containers, container.Name+" "+container.Image)
	}
	if diff := cmp.Diff([]string{"fleet-controller registry.example.com/team/fleet:v2"}, containers); diff != "" {
		t.Errorf("containers (-want +got):\n%s", diff)
	}
	expectStored(t, s, "fleet", controllers(marshal(t, ours.Values)))
	expectGone(t, s, "apps/v1", "Deployment", "gitjob")
}

// theirControllers returns the objects of the recorded release fleet, and some that were disabled in it.
func theirControllers(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	objects := recordedOf(t, "hub", func(o *unstructured.Unstructured) bool {
		return o.GetAnnotations()["meta.helm.sh/release-name"] == "fleet"
	})
	if len(objects) < 9 {
		t.Fatalf("only %d objects are recorded", len(objects))
	}
	more := `
apiVersion: v1
kind: Service
metadata: {name: monitoring-fleet-controller, namespace: cattle-fleet-system}
spec: {selector: {app: fleet-controller, shard-default: "true"}, ports: [{name: metrics, port: 8080, protocol: TCP, targetPort: 8080}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: gitjob, namespace: cattle-fleet-system}
spec: {selector: {matchLabels: {app: gitjob}}, template: {metadata: {labels: {app: gitjob}}, spec: {containers: [{name: gitjob, image: theirs}]}}}
`
	return append(asInChart(objects), objectsOf(t, map[string]string{"more.yaml": more})...)
}

func (s server) controllers(t *testing.T) *appsv1.Deployment {
	t.Helper()
	return get[appsv1.Deployment](t, s, "apps/v1", "Deployment", systemNamespace, "fleet-controller")
}

// TestRancherFleetAgent_IsUpgradedInPlace upgrades the release fleet-agent of Rancher Fleet after its hub has adopted the
// agent, so that most objects belong to the release of the agent's Bundle.
func TestRancherFleetAgent_IsUpgradedInPlace(t *testing.T) {
	cluster := control.Plane(t).Cluster(theirs)
	s := serverOf(t, cluster)
	uninstall(t, ourRelease(cluster, "fleet-agent", nil)) // of another run
	const adopter = "fleet-agent-cluster-3f8a81b9896a"
	var adopted []*unstructured.Unstructured
	objects := recordedOf(t, "west", func(o *unstructured.Unstructured) bool {
		ofBundle := o.GetAnnotations()["meta.helm.sh/release-name"] == adopter
		if ofBundle && o.GetName() != "default" {
			adopted = append(adopted, o.DeepCopy())
		}
		return o.GetAnnotations()["meta.helm.sh/release-name"] == "fleet-agent" || ofBundle && o.GetName() != "default" && !strings.Contains(o.GetName(), "-role")
	})
	install(t, theirRelease(t, cluster, "fleet-agent", asInChart(objects)))
	for _, object := range adopted {
		s.adopt(t, object)
	}
	before := get[appsv1.Deployment](t, s, "apps/v1", "Deployment", systemNamespace, "fleet-agent")

	ours := ourRelease(cluster, "fleet-agent", everyValue(t, "fleet-agent"))
	install(t, ours)
	after := get[appsv1.Deployment](t, s, "apps/v1", "Deployment", systemNamespace, "fleet-agent")
	if before.UID != after.UID {
		t.Error("the Deployment was recreated")
	}
	if got := after.Spec.Template.Spec.Containers[0].Image; got != "registry.example.com/team/agent:v1.2.3" {
		t.Errorf("the image is %s", got)
	}
	install(t, ours) // upgrades our own release
	for kind, name := range map[string]string{"ClusterRole": "fleet-agent-system-fleet-agent-role", "ClusterRoleBinding": "fleet-agent-system-fleet-agent-role-binding"} {
		found := get[metav1.PartialObjectMetadata](t, s, "rbac.authorization.k8s.io/v1", kind, "", name)
		if owner := found.Annotations["meta.helm.sh/release-name"]; owner != "fleet-agent" {
			t.Errorf("%s %s is of release %q", kind, name, owner)
		}
	}
	for kind, name := range map[string]string{"ClusterRole": "cattle-fleet-system-fleet-agent-role", "ClusterRoleBinding": "cattle-fleet-system-fleet-agent-role-binding"} {
		found := get[metav1.PartialObjectMetadata](t, s, "rbac.authorization.k8s.io/v1", kind, "", name)
		if owner := found.Annotations["meta.helm.sh/release-name"]; owner != adopter {
			t.Errorf("%s %s was taken from the agent's Bundle by release %q", kind, name, owner)
		}
	}
}

// adopt assigns an object to its recorded release, like the Bundle of an agent.
func (s server) adopt(t *testing.T, object *unstructured.Unstructured) {
	t.Helper()
	object.SetUID("")
	delete(object.Object, "status")
	resource, err := s.resource(object)
	if err != nil {
		t.Fatal(err)
	}
	body, err := object.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := resource.Patch(t.Context(), object.GetName(), types.ApplyPatchType, body, metav1.PatchOptions{FieldManager: "fleetagent", Force: new(true)}); err != nil {
		t.Fatal(err)
	}
}

// TestEveryValueSet_ChartsInstallAndUninstall installs both charts with every value set, and uninstalls them.
func TestEveryValueSet_ChartsInstallAndUninstall(t *testing.T) {
	cluster := control.Plane(t).Cluster(theirs)
	s := serverOf(t, cluster)
	for _, name := range []string{"fleet", "fleet-agent"} {
		t.Run(name, func(t *testing.T) {
			r := ourRelease(cluster, name, everyValue(t, name))
			uninstall(t, r) // of another test
			for _, leftover := range []string{"cattle-fleet-system-fleet-agent-role", "cattle-fleet-system-fleet-agent-role-binding"} {
				s.remove(t, leftover) // what a Bundle had deployed
			}
			install(t, r)
			rendered := release{chart: name, name: name, namespace: systemNamespace, values: marshal(t, r.Values)}
			expectStored(t, s, name, rendered)
			objects := objectsOf(t, mustRender(t, rendered))
			leave(t, s, objects)
			uninstall(t, r)
			for _, object := range objects {
				expectGone(t, s, object.GetAPIVersion(), object.GetKind(), object.GetName())
			}
		})
	}
}

// leave creates the objects that the hooks delete. Controllers and agents create them outside of the releases.
func leave(t *testing.T, s server, objects []*unstructured.Unstructured) {
	t.Helper()
	for _, object := range objects {
		if object.GetAnnotations()["helm.sh/hook"] == "" {
			continue
		}
		resource, err := s.resource(object)
		if err != nil {
			t.Fatal(err)
		}
		made := named(object.GetAPIVersion(), object.GetKind(), object.GetNamespace(), object.GetName())
		if _, err := resource.Create(t.Context(), made, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

func (s server) remove(t *testing.T, name string) {
	t.Helper()
	for _, kind := range []string{"ClusterRole", "ClusterRoleBinding"} {
		object := named("rbac.authorization.k8s.io/v1", kind, "", name)
		resource, err := s.resource(object)
		if err == nil {
			err = resource.Delete(t.Context(), name, metav1.DeleteOptions{})
		}
		if err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
	}
}

// expectStored expects every rendered object on the server, with the release as its owner and exactly the rendered rules
// and settings.
func expectStored(t *testing.T, s server, name string, rendered release) {
	t.Helper()
	for _, object := range objectsOf(t, mustRender(t, rendered)) {
		if strings.HasPrefix(object.GetName(), systemNamespace+"-fleet-agent-role") {
			continue // may have the name it had
		}
		if object.GetAnnotations()["helm.sh/hook"] != "" {
			continue // not stored
		}
		resource, err := s.resource(object)
		if err != nil {
			t.Fatal(err)
		}
		found, err := resource.Get(t.Context(), object.GetName(), metav1.GetOptions{})
		if err != nil {
			t.Errorf("%s %s: %v", object.GetKind(), object.GetName(), err)
			continue
		}
		if owner := found.GetAnnotations()["meta.helm.sh/release-name"]; owner != name {
			t.Errorf("%s %s is of release %q", object.GetKind(), object.GetName(), owner)
		}
		for _, field := range []string{"rules", "roleRef", "subjects", "data"} {
			if diff := cmp.Diff(object.Object[field], found.Object[field]); diff != "" {
				t.Errorf("%s of %s %s (-rendered +stored):\n%s", field, object.GetKind(), object.GetName(), diff)
			}
		}
	}
}

// expectGone waits until an object is deleted.
func expectGone(t *testing.T, s server, apiVersion, kind, name string) {
	t.Helper()
	object := named(apiVersion, kind, systemNamespace, name)
	resource, err := s.resource(object)
	if err != nil {
		t.Fatal(err)
	}
	err = wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		_, err := resource.Get(ctx, name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
	if err != nil {
		t.Errorf("%s %s is still there: %v", kind, name, err)
	}
}

func named(apiVersion, kind, namespace, name string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetAPIVersion(apiVersion)
	object.SetKind(kind)
	object.SetNamespace(namespace)
	object.SetName(name)
	return object
}

// get reads and decodes an object of the server.
func get[T any](t *testing.T, s server, apiVersion, kind, namespace, name string) *T {
	t.Helper()
	resource, err := s.resource(named(apiVersion, kind, namespace, name))
	if err != nil {
		t.Fatal(err)
	}
	found, err := resource.Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	into := parse[T](t, marshal(t, found.Object))
	return &into
}

func marshal(t *testing.T, value any) string {
	t.Helper()
	text, err := yaml.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// recordedOf returns the recorded objects of a cluster that belonged to a release.
func recordedOf(t *testing.T, cluster string, belongs func(*unstructured.Unstructured) bool) []*unstructured.Unstructured {
	t.Helper()
	var found []*unstructured.Unstructured
	for _, file := range []string{"serviceaccounts", "configmaps", "clusterroles", "clusterrolebindings", "roles", "rolebindings", "deployments", "networkpolicies"} {
		text, err := os.ReadFile(filepath.Join("..", "testdata", "recorded", cluster, file+".yaml"))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		for document := range strings.SplitSeq(string(text), "\n---\n") {
			object := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
				t.Fatal(err)
			}
			if belongs(object) {
				found = append(found, object)
			}
		}
	}
	return found
}

// asInChart removes everything that a server and Helm have added.
func asInChart(objects []*unstructured.Unstructured) []*unstructured.Unstructured {
	for _, object := range objects {
		delete(object.Object, "status")
		object.SetUID("")
		annotations := object.GetAnnotations()
		maps.DeleteFunc(annotations, func(key, _ string) bool {
			return strings.HasPrefix(key, "meta.helm.sh/") || strings.HasPrefix(key, "objectset.rio.cattle.io/") || strings.HasPrefix(key, "deployment.kubernetes.io/")
		})
		object.SetAnnotations(annotations)
		object.SetLabels(nil)
	}
	return objects
}
