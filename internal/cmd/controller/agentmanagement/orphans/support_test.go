package orphans

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/hubtest"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/grant"
	tokenrule "github.com/fleet-hub/fleet/internal/rules/token"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// metadata is that of an object with the label by which objects are ours.
func metadata(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{fleet.LabelManaged: "true"}, Annotations: map[string]string{}}
}

// role is a Role of ours that belongs to nobody yet.
func role(modifiers ...func(metav1.Object)) *rbacv1.Role {
	r := &rbacv1.Role{ObjectMeta: metadata("ws", "role")}
	for _, modify := range modifiers {
		modify(r)
	}
	return r
}

// inSet puts an object into the set of an owner.
func inSet(set, kind, namespace, name string) func(metav1.Object) {
	return func(obj metav1.Object) {
		gvk := fleet.SchemeGroupVersion.WithKind(kind).String()
		annotations := obj.GetAnnotations()
		annotations[fleet.AnnotationSetID], annotations[fleet.AnnotationSetOwnerGVK] = set, gvk
		annotations[fleet.AnnotationSetOwnerName], annotations[fleet.AnnotationSetOwnerNamespace] = name, namespace
		obj.GetLabels()[fleet.LabelSetHash] = names.SetHash(set, names.Owner{GVK: gvk, Name: name, Namespace: namespace})
	}
}

func ofRequest(namespace, name string) func(metav1.Object) {
	return inSet(grant.SetID, registrationKind, namespace, name)
}

func ofToken(namespace, name string) func(metav1.Object) {
	return inSet(tokenrule.SetID, tokenKind, namespace, name)
}

func annotated(pairs ...string) func(metav1.Object) {
	return func(obj metav1.Object) {
		for i := 0; i < len(pairs); i += 2 {
			obj.GetAnnotations()[pairs[i]] = pairs[i+1]
		}
	}
}

func labelled(key, value string) func(metav1.Object) {
	return func(obj metav1.Object) { obj.GetLabels()[key] = value }
}

func going(obj metav1.Object) { obj.SetDeletionTimestamp(&metav1.Time{}) }

// answering is what the credential of a request is annotated with, and the Role by which it is read.
func answering(namespace, name string) func(metav1.Object) {
	return annotated(fleet.AnnotationClusterRegistration, name, fleet.AnnotationClusterRegistrationNamespace, namespace)
}

// clusterNamespace is the namespace of a Cluster.
func clusterNamespace(workspace, cluster string, modifiers ...func(metav1.Object)) *corev1.Namespace {
	n := &corev1.Namespace{ObjectMeta: metadata("", names.ClusterNamespace(workspace, cluster))}
	annotated(fleet.AnnotationCluster, cluster, fleet.AnnotationClusterNamespace, workspace)(n)
	for _, modify := range modifiers {
		modify(n)
	}
	return n
}

// deployment is a BundleDeployment of Bundle ws/b on Cluster ws/c.
func deployment(modifiers ...func(metav1.Object)) *fleet.BundleDeployment {
	d := &fleet.BundleDeployment{ObjectMeta: metadata(names.ClusterNamespace("ws", "c"), "b")}
	d.Labels[fleet.LabelBundleNamespace], d.Labels[fleet.LabelBundleName] = "ws", "b"
	d.Labels[fleet.LabelClusterNamespace], d.Labels[fleet.LabelCluster] = "ws", "c"
	for _, modify := range modifiers {
		modify(d)
	}
	return d
}

// agentBundle is the Bundle of the agent of Cluster ws/c.
func agentBundle(modifiers ...func(metav1.Object)) *fleet.Bundle {
	b := &fleet.Bundle{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ws", Name: "fleet-agent-c", Annotations: map[string]string{fleet.AnnotationSetID: names.AgentBundleSet},
			Labels: map[string]string{fleet.LabelSetHash: names.SetHash(names.AgentBundleSet, names.Owner{GVK: "/v1, Kind=Namespace", Name: "ws"})},
		},
		Spec: fleet.BundleSpec{Targets: []fleet.BundleTarget{{ClusterName: "c"}}},
	}
	for _, modify := range modifiers {
		modify(b)
	}
	return b
}

// recorded are the objects that the other implementation has left on a hub, as far as a hub in memory has the kind.
func recorded(t *testing.T) (objects []hubtest.Object) {
	t.Helper()
	types := map[string]func() hubtest.Object{
		"BundleDeployment":         func() hubtest.Object { return &fleet.BundleDeployment{} },
		"Bundle":                   func() hubtest.Object { return &fleet.Bundle{} },
		"Cluster":                  func() hubtest.Object { return &fleet.Cluster{} },
		"ClusterRegistration":      func() hubtest.Object { return &fleet.ClusterRegistration{} },
		"ClusterRegistrationToken": func() hubtest.Object { return &fleet.ClusterRegistrationToken{} },
		"Namespace":                func() hubtest.Object { return &corev1.Namespace{} },
		"ServiceAccount":           func() hubtest.Object { return &corev1.ServiceAccount{} },
		"Secret":                   func() hubtest.Object { return &corev1.Secret{} },
		"Role":                     func() hubtest.Object { return &rbacv1.Role{} },
		"RoleBinding":              func() hubtest.Object { return &rbacv1.RoleBinding{} },
		"ClusterRoleBinding":       func() hubtest.Object { return &rbacv1.ClusterRoleBinding{} },
	}
	files, err := filepath.Glob("../../../../../testdata/recorded/hub/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no recordings (%v)", err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, document := range strings.Split(string(content), "\n---\n") {
			plain := map[string]any{}
			if err := yaml.Unmarshal([]byte(document), &plain); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			make, known := types[plain["kind"].(string)]
			if !known {
				continue
			}
			delete(plain, "data") // notes of what was there
			encoded, err := json.Marshal(plain)
			if err != nil {
				t.Fatal(err)
			}
			object := make()
			if err := json.Unmarshal(encoded, object); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			objects = append(objects, object)
		}
	}
	return objects
}
