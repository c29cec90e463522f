package strip

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// mostOfACluster limits the memory in the caches for one registered cluster, in bytes: its Cluster, registration,
// account, RBAC objects, namespace, credential, and its agent's Bundle and BundleDeployment. With this, the live heap
// of a hub with 10,000 clusters is about 300 MB, with indexes and what the controllers remember.
const mostOfACluster = 19 << 10

// Recorded objects of cluster east: a file, how many such objects a cluster has, and by what the one is known there.
func ofOneCluster() []struct {
	file, known string
	count       int
	of          func() any
} {
	type row = struct {
		file, known string
		count       int
		of          func() any
	}
	return []row{
		{"clusters", "name: east", 1, func() any { return &fleet.Cluster{} }},
		{"clusterregistrations", "request-5k4nm", 1, func() any { return &fleet.ClusterRegistration{} }},
		{"bundles", "name: fleet-agent-east", 1, func() any { return &fleet.Bundle{} }},
		{"bundledeployments", "name: fleet-agent-east", 1, func() any { return &fleet.BundleDeployment{} }},
		{"serviceaccounts", "name: request-5k4nm", 1, func() any { return &corev1.ServiceAccount{} }},
		{"roles", "name: request-5k4nm", 2, func() any { return &rbacv1.Role{} }},
		{"rolebindings", "name: request-5k4nm", 3, func() any { return &rbacv1.RoleBinding{} }},
		{"clusterrolebindings", "name: request-5k4nm", 1, func() any { return &rbacv1.ClusterRoleBinding{} }},
		{"namespaces", "name: cluster-fleet-default-east", 1, func() any { return &corev1.Namespace{} }},
		{"secrets", "name: c-539", 1, func() any { return &corev1.Secret{} }},
	}
}

func TestMemoryOfACluster_IsLimited(t *testing.T) {
	const clusters = 1000
	s := newStripper()
	total := 0
	for _, row := range ofOneCluster() {
		document := recordedDocument(t, row.file, row.known)
		kept := make([]any, clusters)
		before := liveHeap()
		for i := range kept {
			object := row.of()
			if err := json.Unmarshal([]byte(strings.ReplaceAll(document, "east", fmt.Sprintf("ea%04d", i))), object); err != nil {
				t.Fatal(err)
			}
			var err error
			if kept[i], err = s.strip(object); err != nil {
				t.Fatal(err)
			}
		}
		each := (liveHeap() - before) / clusters
		runtime.KeepAlive(kept)
		t.Logf("%d of %s, %d bytes each", row.count, row.file, each)
		total += row.count * each
	}
	runtime.KeepAlive(s)
	t.Logf("%d bytes for each cluster", total)
	if total > mostOfACluster {
		t.Errorf("a cluster takes %d bytes of the caches, more than %d", total, mostOfACluster)
	}
}

func liveHeap() int {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return int(stats.HeapAlloc) //nolint:gosec // a heap is never that large
}

// recordedDocument returns an object of testdata/recorded/hub as JSON.
func recordedDocument(t testing.TB, file, known string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "..", "testdata", "recorded", "hub", file+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		if strings.Contains(document, known) {
			encoded, err := yaml.YAMLToJSON([]byte(document))
			if err != nil {
				t.Fatal(err)
			}
			return string(encoded)
		}
	}
	t.Fatalf("nothing in %s is known by %q", file, known)
	return ""
}
