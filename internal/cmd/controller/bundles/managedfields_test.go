package bundles_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/internal/reconcile"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// maxManaged is the maximum size of the managed fields of the BundleDeployment below, in bytes. Before its options were
// atomic, they took 1652 bytes.
const maxManaged = 800

// reportedDeployment returns a BundleDeployment with the values of a common chart, written by a hub and reported by an
// agent.
func (w *world) reportedDeployment(t testing.TB) *fleet.BundleDeployment {
	t.Helper()
	options := fleet.BundleDeploymentOptions{DefaultNamespace: "web", Helm: &fleet.HelmOptions{ReleaseName: "web", Values: &fleet.GenericMap{Data: map[string]any{
		"image":   map[string]any{"repository": "registry.example.com/web", "tag": "1.2.3", "pullPolicy": "IfNotPresent"},
		"service": map[string]any{"type": "ClusterIP", "port": int64(80)}, "replicas": int64(2), "nodeSelector": map[string]any{"disk": "ssd"},
		"ingress":   map[string]any{"enabled": true, "host": "web.example.com", "class": "nginx"},
		"resources": map[string]any{"limits": map[string]any{"memory": "64Mi"}, "requests": map[string]any{"cpu": "50m", "memory": "64Mi"}},
	}}}}
	bd := &fleet.BundleDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.workspace, Name: "web", Labels: map[string]string{"team": "a"}},
		Spec: fleet.BundleDeploymentSpec{
			Options: options, StagedOptions: *options.DeepCopy(), DeploymentID: "s-1:2", StagedDeploymentID: "s-1:2",
		},
	}
	must(t, w.Create(t.Context(), client.BundleDeployments, bd))
	return w.reportOf(t, "s-1:2")
}

// reportOf updates the status of the BundleDeployment as an agent does.
func (w *world) reportOf(t testing.TB, id string) *fleet.BundleDeployment {
	t.Helper()
	current, written := &fleet.BundleDeployment{}, &fleet.BundleDeployment{}
	must(t, w.Get(t.Context(), client.BundleDeployments, w.workspace, "web", current))
	current.ManagedFields = nil
	current.Status = fleet.BundleDeploymentStatus{
		AppliedDeploymentID: id, Ready: true, NonModified: true, Release: "web/web:1",
		Display:        fleet.BundleDeploymentDisplay{Deployed: "True", Monitored: "True", State: "Ready"},
		ResourceCounts: fleet.ResourceCounts{Ready: 4, DesiredReady: 4},
		Conditions:     []genericcondition.GenericCondition{{Type: "Ready", Status: "True"}, {Type: "Deployed", Status: "True"}},
	}
	body, err := json.Marshal(map[string]any{
		"apiVersion": "fleet.cattle.io/v1alpha1", "kind": "BundleDeployment", "status": current.Status,
		"metadata": map[string]any{"name": "web", "namespace": w.workspace, "resourceVersion": current.ResourceVersion},
	})
	must(t, err)
	must(t, w.Fleet.Put().SetHeader("Content-Type", "application/json").Namespace(w.workspace).Resource(client.BundleDeployments).Name("web").
		SubResource("status").Param("fieldManager", "fleetagent").Body(body).Do(t.Context()).Into(written))
	return written
}

// Each write reads, compares and stores the managed fields.
func TestManagedFields_AreSmall(t *testing.T) {
	w := newWorkspace(t)
	bd := w.reportedDeployment(t)
	text, err := json.Marshal(bd.ManagedFields)
	must(t, err)
	whole, err := json.Marshal(bd)
	must(t, err)
	t.Logf("%d of %d bytes are managed fields", len(text), len(whole))
	if len(text) > maxManaged {
		t.Errorf("%d bytes of managed fields, at most %d: %s", len(text), maxManaged, text)
	}
	if len(bd.ManagedFields) != 2 || strings.Contains(string(text), "f:pullPolicy") {
		t.Errorf("managed fields: %s", text)
	}
}

// apply applies a part of an object as a user does, without force.
func (w *world) apply(t *testing.T, resource, name, manager string, part map[string]any) (*unstructured.Unstructured, error) {
	t.Helper()
	kinds := map[string]string{client.Bundles: "Bundle", client.Clusters: "Cluster", client.BundleDeployments: "BundleDeployment"}
	object := &unstructured.Unstructured{Object: part}
	object.SetAPIVersion("fleet.cattle.io/v1alpha1")
	object.SetKind(kinds[resource])
	object.SetName(name)
	body, err := json.Marshal(object)
	must(t, err)
	var applied unstructured.Unstructured
	raw, err := w.Fleet.Patch(types.ApplyPatchType).Namespace(w.workspace).Resource(resource).Name(name).Param("fieldManager", manager).Body(body).DoRaw(t.Context())
	if err != nil {
		return nil, err
	}
	must(t, json.Unmarshal(raw, &applied.Object))
	return &applied, nil
}

// expectField expects a field of an applied object. nil means that it does not exist.
func expectField(t *testing.T, object *unstructured.Unstructured, want any, path ...string) {
	t.Helper()
	if got, _, _ := unstructured.NestedFieldNoCopy(object.Object, path...); got != want {
		t.Errorf("%s = %v, want %v", strings.Join(path, "."), got, want)
	}
}

// statusClient updates statuses as a controller does.
type statusClient[T reconcile.Object] struct {
	*world
	resource string
	kind     func() T
}

func (c statusClient[T]) Get(namespace, name string, _ metav1.GetOptions) (T, error) {
	found := c.kind()
	return found, c.world.Get(context.Background(), c.resource, namespace, name, found)
}

func (c statusClient[T]) UpdateStatus(obj T) (T, error) {
	written := c.kind()
	return written, c.Fleet.Put().Namespace(obj.GetNamespace()).Resource(c.resource).Name(obj.GetName()).SubResource("status").
		Body(obj).Do(context.Background()).Into(written)
}

// writeReady writes the status of object "one" as a controller does.
func (w *world) writeReady(t *testing.T, resource string) {
	t.Helper()
	summary, state := fleet.BundleSummary{Ready: 1, DesiredReady: 1}, "Ready"
	bundles := statusClient[*fleet.Bundle]{w, resource, func() *fleet.Bundle { return &fleet.Bundle{} }}
	clusters := statusClient[*fleet.Cluster]{w, resource, func() *fleet.Cluster { return &fleet.Cluster{} }}
	var err error
	if resource == client.Bundles {
		err = writeStatus(bundles, func(b *fleet.Bundle) { b.Status.Summary, b.Status.Display.State = summary, state })
	} else {
		err = writeStatus(clusters, func(c *fleet.Cluster) { c.Status.Summary, c.Status.Display.State = summary, state })
	}
	must(t, err)
}

func writeStatus[T reconcile.Object](c statusClient[T], change func(T)) error {
	read, err := c.Get(c.workspace, "one", metav1.GetOptions{})
	if err == nil {
		_, err = reconcile.WriteStatus(c, read, change)
	}
	return err
}

// Users own metadata and spec of Bundles and Clusters, in parts. The hub writes the status, which is atomic.
func TestServerSideApplyOfUsers_ChangesOnlyTheirFields(t *testing.T) {
	w := newWorkspace(t)
	for resource, steps := range map[string]struct{ first, second, changed map[string]any }{
		client.Bundles: {
			map[string]any{"metadata": map[string]any{"labels": map[string]any{"team": "a"}}, "spec": map[string]any{"helm": map[string]any{"values": map[string]any{"a": "1", "b": "1"}}}},
			map[string]any{"spec": map[string]any{"helm": map[string]any{"values": map[string]any{"c": "1"}}}},
			map[string]any{"spec": map[string]any{"helm": map[string]any{"values": map[string]any{"a": "2"}}}},
		},
		client.Clusters: {
			map[string]any{"metadata": map[string]any{"labels": map[string]any{"team": "a"}}, "spec": map[string]any{"templateValues": map[string]any{"a": "1", "b": "1"}}},
			map[string]any{"spec": map[string]any{"templateValues": map[string]any{"c": "1"}}},
			map[string]any{"spec": map[string]any{"templateValues": map[string]any{"a": "2"}}},
		},
	} {
		t.Run(resource, func(t *testing.T) {
			values := []string{"spec", "helm", "values"}
			if resource == client.Clusters {
				values = []string{"spec", "templateValues"}
			}
			_, err := w.apply(t, resource, "one", "first", steps.first)
			must(t, err)
			w.writeReady(t, resource)
			_, err = w.apply(t, resource, "one", "second", steps.second)
			must(t, err)
			after, err := w.apply(t, resource, "one", "first", steps.changed)
			must(t, err)
			for key, want := range map[string]any{"a": "2", "b": nil, "c": "1"} {
				expectField(t, after, want, append(slices.Clone(values), key)...)
			}
			expectField(t, after, nil, "metadata", "labels", "team")
			expectField(t, after, 1.0, "status", "summary", "desiredReady")
			expectField(t, after, "Ready", "status", "display", "state")
		})
	}
}

// A user may label a BundleDeployment. Its options belong to the hub as a whole: a part of them conflicts.
func TestServerSideApplyOfABundleDeployment_OwnsLabelsAndNoOptions(t *testing.T) {
	w := newWorkspace(t)
	w.reportedDeployment(t)
	labelled, err := w.apply(t, client.BundleDeployments, "web", "user", map[string]any{"metadata": map[string]any{"labels": map[string]any{"mine": "1"}}})
	must(t, err)
	expectField(t, labelled, "1", "metadata", "labels", "mine")
	expectField(t, labelled, "a", "metadata", "labels", "team")
	expectField(t, labelled, "web", "spec", "options", "defaultNamespace")
	_, err = w.apply(t, client.BundleDeployments, "web", "user", map[string]any{"spec": map[string]any{"options": map[string]any{"keepResources": true}}})
	if !apierrors.IsConflict(err) {
		t.Errorf("error = %v, want a conflict", err)
	}
}

// BenchmarkReport measures an agent's report, with the API server and its store.
func BenchmarkReport(b *testing.B) {
	w := newWorkspace(b)
	w.reportedDeployment(b)
	ids := [2]string{"s-1:2", "s-1:3"}
	for i := 0; b.Loop(); i++ {
		w.reportOf(b, ids[i%2])
	}
}
