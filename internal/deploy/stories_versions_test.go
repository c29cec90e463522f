package deploy

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/fleet-hub/fleet/internal/deploy/deploytest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// objectExists reports whether east serves an object.
func (l *lab) objectExists(resource schema.GroupVersionResource, name string) bool {
	l.t.Helper()
	_, err := dynamic.NewForConfigOrDie(l.local).Resource(resource).Namespace(l.Name).Get(l.t.Context(), name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		l.t.Fatal(err)
	}
	return err == nil
}

// patchCluster changes a cluster-scoped object of east.
func (l *lab) patchCluster(resource schema.GroupVersionResource, name string, patch any) {
	l.t.Helper()
	text, err := json.Marshal(patch)
	if err != nil {
		l.t.Fatal(err)
	}
	if _, err := dynamic.NewForConfigOrDie(l.local).Resource(resource).Patch(l.t.Context(), name, types.MergePatchType, text, metav1.PatchOptions{}); err != nil {
		l.t.Fatal(err)
	}
}

// crdVersion returns an entry of a CRD's versions.
func crdVersion(name string, served, storage bool) string {
	return fmt.Sprintf("{name: %s, served: %t, storage: %t, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}", name, served, storage)
}

// define deploys a CRD with other versions.
func (l *lab) define(crd string, versions ...string) {
	l.t.Helper()
	_, only, _ := strings.Cut(crd, "versions: ")
	files := map[string]string{"crd.yaml": strings.Replace(crd, only, "["+strings.Join(versions, ", ")+"]}\n", 1)}
	l.apply(bundle{Name: "definition", Files: files, Options: deploytest.InNamespace(l.Name)})
	l.expectStatus("definition", ready)
}

// A new release of an operator no longer serves the version in which the objects were deployed. They exist all the same.
func TestVersionNoLongerServed_FormerObjectsGo(t *testing.T) {
	t.Parallel()
	l := newLab(t, "versions")
	l.start()
	group, crd, object := l.thing()
	l.define(crd, crdVersion("v1alpha1", true, true), crdVersion("v1", true, false))
	old := func(name string) string {
		return strings.NewReplacer(group+"/v1", group+"/v1alpha1", "name: a", "name: "+name).Replace(object)
	}
	l.apply(bundle{Name: "deleted", Files: map[string]string{"a.yaml": old("a")}, Options: deploytest.InNamespace(l.Name)})
	l.apply(bundle{Name: "changed", Files: map[string]string{"b.yaml": old("b"), "c.yaml": old("c")}, Options: deploytest.InNamespace(l.Name)})
	l.expectStatus("deleted", ready)
	l.expectStatus("changed", ready)

	l.define(crd, crdVersion("v1alpha1", false, false), crdVersion("v1", true, true))
	l.delete("deleted")
	l.expectNoRelease(l.Name, "deleted")
	changed := strings.Replace(object, "name: a", "name: b", 1)
	l.apply(bundle{Name: "changed", Files: map[string]string{"b.yaml": changed}, Options: deploytest.InNamespace(l.Name)})
	l.expectStatus("changed", ready)
	things := schema.GroupVersionResource{Group: group, Version: "v1", Resource: "things"}
	for name, want := range map[string]bool{"a": false, "b": true, "c": false} {
		if got := l.objectExists(things, name); got != want {
			t.Errorf("object %s exists: %t", name, got)
		}
	}
}

// The version in which an object was deployed is no longer served, while the agent runs or before it starts.
func TestVersionNoLongerServed_ObjectsAreStillWatched(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		scope, prefix string
		restarts      bool
	}{
		"namespaced, agent restarts":     {scope: "Namespaced", prefix: "version-watched", restarts: true},
		"cluster-scoped, agent restarts": {scope: "Cluster", prefix: "version-global", restarts: true},
		"agent runs":                     {scope: "Namespaced", prefix: "version-running"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, tc.prefix)
			l.start()
			group, crd, object := l.thing()
			crd = strings.Replace(crd, "Namespaced", tc.scope, 1)
			l.define(crd, crdVersion("v1", true, true), crdVersion("v2", true, false))
			l.apply(bundle{Name: "things", Files: map[string]string{"a.yaml": object}, Options: deploytest.InNamespace(l.Name)})
			l.expectStatus("things", ready)
			l.define(crd, crdVersion("v1", false, false), crdVersion("v2", true, true))
			if tc.restarts {
				l.halt()
				l.start()
			}
			ofKind := dynamic.NewForConfigOrDie(l.local).Resource(schema.GroupVersionResource{Group: group, Version: "v2", Resource: "things"})
			things := dynamic.ResourceInterface(ofKind)
			if tc.scope == "Namespaced" {
				things = ofKind.Namespace(l.Name)
			}
			stalled := []byte(`{"status":{"conditions":[{"type":"Stalled","status":"True","message":"is stalled"}]}}`)
			if _, err := things.Patch(t.Context(), "a", types.MergePatchType, stalled, metav1.PatchOptions{}); err != nil {
				t.Fatal(err)
			}
			l.expectStatus("things", func(bd *fleet.BundleDeployment) string {
				if says(conditions.Ready, "missing")(bd) == "" {
					t.Error("the object is missing, the status says, although it exists in another version")
				}
				return says(conditions.Ready, "is stalled")(bd)
			})
			if _, err := things.Patch(t.Context(), "a", types.MergePatchType, []byte(`{"status":null}`), metav1.PatchOptions{}); err != nil {
				t.Fatal(err)
			}
			l.expectStatus("things", ready)
			if err := things.Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			l.expectStatus("things", says(conditions.Ready, "missing"))
		})
	}
}

// The server of an aggregated API, such as that of a network plugin, does not answer while a bundle is deleted. The agent has
// started meanwhile, so that it does not know the kinds of that API.
func TestSilentAggregatedAPI_ItsObjectsAreNotForgotten(t *testing.T) {
	t.Parallel()
	l := newLab(t, "aggregated")
	l.start()
	group, crd, object := l.thing()
	l.apply(bundle{Name: "definition", Files: map[string]string{"crd.yaml": crd}, Options: deploytest.InNamespace(l.Name)})
	l.expectStatus("definition", ready)
	l.apply(bundle{Name: "things", Files: map[string]string{"a.yaml": object}, Options: deploytest.InNamespace(l.Name)})
	l.expectStatus("things", ready)

	l.halt()
	// Another server is to serve the group, and there is none.
	services := schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}
	l.patchCluster(services, "v1."+group, map[string]any{
		"metadata": map[string]any{"labels": map[string]any{"kube-aggregator.kubernetes.io/automanaged": nil}},
		"spec":     map[string]any{"service": map[string]any{"namespace": l.Name, "name": "nothing"}, "insecureSkipTLSVerify": true},
	})
	l.eventually(func() string {
		if l.serves(schema.GroupVersionKind{Group: group, Version: "v1", Kind: "Thing"}) {
			return "the group is served"
		}
		return ""
	})
	l.start()
	l.delete("things")
	l.eventually(func() string {
		if !strings.Contains(l.log(), "finding kind Thing of "+group+"/v1: ") && len(l.revisionsOf(l.Name, "things")) > 0 {
			return "there was no attempt"
		}
		return ""
	})
	if err := dynamic.NewForConfigOrDie(l.local).Resource(services).Delete(t.Context(), "v1."+group, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	l.expectNoRelease(l.Name, "things")
	things := schema.GroupVersionResource{Group: group, Version: "v1", Resource: "things"}
	l.eventually(func() string {
		if !l.serves(schema.GroupVersionKind{Group: group, Version: "v1", Kind: "Thing"}) {
			return "the group is not served"
		}
		return ""
	})
	if l.objectExists(things, "a") {
		t.Error("the object was not deleted")
	}
}

// An upgrade of the API server removes a version. No event says so, as that of a CRD does.
func TestVersionRemovedWithoutAnEvent_FormerObjectsGo(t *testing.T) {
	t.Parallel()
	l := newLab(t, "removed")
	l.start()
	group, crd, object := l.thing()
	both := strings.Replace(crd, "versions: [", "versions: [{name: v2, served: true, storage: false, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}, ", 1)
	l.apply(bundle{Name: "definition", Files: map[string]string{"crd.yaml": both}, Options: deploytest.InNamespace(l.Name)})
	l.expectStatus("definition", ready)
	l.apply(bundle{Name: "things", Files: map[string]string{"a.yaml": object}, Options: deploytest.InNamespace(l.Name)})
	l.expectStatus("things", ready)
	l.halt()

	d := l.byHand() // it does not watch CRDs
	if _, err := d.agent.Mapping(schema.GroupVersionKind{Group: group, Version: "v1", Kind: "Thing"}); err != nil {
		t.Fatal(err)
	}
	crds := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	version := func(name string, isLast bool) map[string]any {
		return map[string]any{"name": name, "served": isLast, "storage": isLast, "schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}
	}
	l.patchCluster(crds, "things."+group, map[string]any{"spec": map[string]any{"versions": []any{version("v1", false), version("v2", true)}}})
	l.eventually(func() string {
		if l.serves(schema.GroupVersionKind{Group: group, Version: "v1", Kind: "Thing"}) {
			return "the version is served"
		}
		return ""
	})
	l.delete("things")
	l.eventually(func() string {
		if d.hub.Cached("things") != nil {
			return "the deletion is not known"
		}
		return ""
	})
	l.eventually(func() string {
		if err := d.remove(t.Context(), "things"); err != nil {
			return err.Error()
		}
		return ""
	})
	if l.objectExists(schema.GroupVersionResource{Group: group, Version: "v2", Resource: "things"}, "a") {
		t.Error("the object exists")
	}
}
