package deploy

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/deploy/deploytest"
	"github.com/fleet-hub/fleet/internal/deploy/release/objects"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// configMapsNamed returns one file with a ConfigMap for each name.
func configMapsNamed(names ...string) map[string]string {
	files := map[string]string{}
	for _, name := range names {
		files[name+".yaml"] = strings.Replace(deploytest.ConfigMapYAML, "name: cm", "name: "+name, 1)
	}
	return files
}

// expectGone expects that ConfigMaps are deleted.
func (l *lab) expectGone(names ...string) {
	l.t.Helper()
	l.eventually(func() string {
		for _, name := range names {
			if l.configMapIsThere(l.Name, name) {
				return name + " exists"
			}
		}
		return ""
	})
}

// A change that removes objects fails, and the bundle is deleted. No other client would ever delete those objects.
func TestBundleDeletedAfterFailedUpgrade_FormerObjectsGo(t *testing.T) {
	t.Parallel()
	l := newLab(t, "leftover-gone")
	l.start()
	files := configMapsNamed("stays", "dropped", "kept", "taken")
	files["kept.yaml"] = strings.Replace(files["kept.yaml"], "name: kept", "name: kept, annotations: {helm.sh/resource-policy: keep}", 1)
	l.apply(bundle{Name: "x", Files: files, Options: deploytest.InNamespace(l.Name)})
	l.expectStatus("x", ready)
	// Another owner has taken over an object.
	patch := []byte(`{"metadata":{"annotations":{"` + objects.ReleaseNameAnnotation + `":"other"}}}`)
	if _, err := l.East.CoreV1().ConfigMaps(l.Name).Patch(t.Context(), "taken", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	broken := deploytest.With(configMapsNamed("stays", "half"), map[string]string{"bad.yaml": refusedService})
	l.apply(bundle{Name: "x", Files: broken, Options: deploytest.InNamespace(l.Name)})
	l.expectStatus("x", says(conditions.Deployed, "100000"))
	l.delete("x")
	l.expectNoRelease(l.Name, "x")
	l.expectGone("stays", "dropped", "half")
	for _, name := range []string{"kept", "taken"} {
		if !l.configMapIsThere(l.Name, name) {
			t.Errorf("%s was deleted", name)
		}
	}
}

// The upgrade that failed has another identity, which may not read an object of the former one.
func TestBundleDeletedAfterChangeOfAccount_WhatTheAccountMayNotDeleteStays(t *testing.T) {
	t.Parallel()
	l := newLab(t, "leftover-account")
	own := l.Name + "-own"
	l.tenant("tenant", own)
	l.start()
	secret := "apiVersion: v1\nkind: Secret\nmetadata: {name: secret}\n"
	l.apply(bundle{Name: "x", Files: deploytest.With(configMapsNamed("stays"), map[string]string{"secret.yaml": secret}), Options: deploytest.InNamespace(own)})
	l.expectStatus("x", ready)
	options := deploytest.InNamespace(own)
	options.ServiceAccount = "tenant"
	no := false
	options.CreateNamespace = &no
	l.apply(bundle{Name: "x", Files: configMapsNamed("stays"), Options: options})
	l.expectStatus("x", says(conditions.Deployed, "secret"))
	l.delete("x")
	l.expectNoRelease(own, "x")
	l.eventually(func() string {
		if l.configMapIsThere(own, "stays") {
			return "the ConfigMap is there"
		}
		return ""
	})
}

// Several changes fail one after the other. The next one that succeeds deletes the objects of all of them.
func TestChangesFailInARow_TheirObjectsGo(t *testing.T) {
	t.Parallel()
	l := newLab(t, "leftover-row")
	l.start()
	l.apply(bundle{Name: "x", Files: configMapsNamed("stays"), Options: deploytest.InNamespace(l.Name)})
	l.expectStatus("x", ready)
	for i, name := range []string{"one", "two", "three"} {
		// The port tells the failures apart.
		service := strings.Replace(refusedService, "100000", fmt.Sprint(100001+i), 1)
		broken := deploytest.With(configMapsNamed("stays", name), map[string]string{"bad.yaml": service})
		l.apply(bundle{Name: "x", Files: broken, Options: deploytest.InNamespace(l.Name)})
		l.expectStatus("x", says(conditions.Deployed, fmt.Sprint(100001+i)))
		if !l.configMapIsThere(l.Name, name) {
			t.Fatalf("%s was not created", name)
		}
	}
	l.apply(bundle{Name: "x", Files: configMapsNamed("stays"), Options: deploytest.InNamespace(l.Name)})
	l.expectStatus("x", ready)
	for _, name := range []string{"one", "two", "three"} {
		if l.configMapIsThere(l.Name, name) {
			t.Errorf("%s exists", name)
		}
	}
	if got := l.revisionsOf(l.Name, "x"); len(got) != 2 {
		t.Errorf("revisions %v", got)
	}
}
