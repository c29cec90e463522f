package strip

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/content"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func TestStrip(t *testing.T) {
	fields := []metav1.ManagedFieldsEntry{{Manager: "x"}}
	annotations := func() map[string]string { return map[string]string{fleet.AnnotationSetApplied: "H4s", "theirs": "1"} }
	noResources := fleet.BundleSpec{ResourcesHash: "ca3d163bab055381827226140568f3bef7eaac187cebd76878e0b63e9e442356"}
	managedByOthers := map[string]string{fleet.LabelClusterManagement: "somebody"}
	clusterIn := func(namespace string) *fleet.Cluster {
		return &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "c1"}, Status: fleet.ClusterStatus{Namespace: namespace}}
	}
	tests := map[string]struct{ in, want any }{
		"managed fields: removed": {
			&corev1.Secret{ObjectMeta: metav1.ObjectMeta{ManagedFields: fields}, Data: map[string][]byte{"k": []byte("v")}},
			&corev1.Secret{Data: map[string][]byte{"k": []byte("v")}},
		},
		"applied annotation: removed": {
			&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Annotations: annotations()}},
			&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"theirs": "1"}}},
		},
		"applied annotation of a Bundle: emptied": {
			&fleet.Bundle{ObjectMeta: metav1.ObjectMeta{Annotations: annotations()}},
			&fleet.Bundle{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{fleet.AnnotationSetApplied: "", "theirs": "1"}}, Spec: noResources},
		},
		"Bundle without applied annotation: unchanged": {
			&fleet.Bundle{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"theirs": "1"}}},
			&fleet.Bundle{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"theirs": "1"}}, Spec: noResources},
		},
		"Content: bytes are removed, hash stays": {
			&fleet.Content{Content: []byte("much"), SHA256Sum: "s"},
			&fleet.Content{SHA256Sum: "s"},
		},
		"computed namespace in the status: stays": {
			clusterIn("cluster-ws-c1-552959a9c359"), clusterIn("cluster-ws-c1-552959a9c359"),
		},
		"other namespace in the status: removed": {clusterIn("kube-system"), clusterIn("")},
		"other namespace in the status, another manager: removed": {
			&fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Labels: managedByOthers}, Status: fleet.ClusterStatus{Namespace: "theirs"}},
			&fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Labels: managedByOthers}},
		},
		"not an object: unchanged": {"x", "x"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := newStripper().strip(test.in)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// cachedDeployment returns a recorded BundleDeployment as decoded, and as a cache keeps it.
func cachedDeployment(t *testing.T, changes ...func(*fleet.BundleDeployment)) (decoded, kept *fleet.BundleDeployment) {
	t.Helper()
	decoded, kept = &fleet.BundleDeployment{}, &fleet.BundleDeployment{}
	for _, into := range []*fleet.BundleDeployment{decoded, kept} {
		if err := json.Unmarshal([]byte(recordedDocument(t, "bundledeployments", "name: fleet-agent-east")), into); err != nil {
			t.Fatal(err)
		}
		into.ManagedFields = nil
		for _, change := range changes {
			change(into)
		}
	}
	if _, err := newStripper().strip(kept); err != nil {
		t.Fatal(err)
	}
	return decoded, kept
}

func TestCachedBundleDeployment_KeepsItsContent(t *testing.T) {
	tests := map[string]func(*fleet.BundleDeployment){
		"as it was recorded": func(*fleet.BundleDeployment) {},
		"with a change that is staged": func(bd *fleet.BundleDeployment) {
			bd.Spec.StagedOptions.DefaultNamespace, bd.Spec.StagedDeploymentID = "other", "s-2:b"
		},
		"with options": func(bd *fleet.BundleDeployment) {
			bd.Spec.Options.Helm = &fleet.HelmOptions{ReleaseName: "web"}
			bd.Spec.StagedOptions.Helm = &fleet.HelmOptions{ReleaseName: "web"}
		},
		"without labels, finalizers and conditions": func(bd *fleet.BundleDeployment) {
			bd.Labels, bd.Finalizers, bd.Status.Conditions = nil, nil, nil
		},
		"without a report": func(bd *fleet.BundleDeployment) { bd.Status = fleet.BundleDeploymentStatus{} },
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			decoded, kept := cachedDeployment(t, change, func(bd *fleet.BundleDeployment) {
				bd.Status.Resources = []fleet.DeployedResource{{Kind: "ConfigMap", Name: "one"}}
			})
			decoded.Status.Resources = nil // no controller reads the deployed resources
			decoded.TypeMeta = metav1.TypeMeta{}
			if diff := cmp.Diff(decoded, kept); diff != "" {
				t.Errorf("(-decoded +kept):\n%s", diff)
			}
		})
	}
}

// withoutCollections stops garbage collection, at which texts are forgotten.
func withoutCollections(t *testing.T) {
	before := debug.SetGCPercent(-1)
	t.Cleanup(func() { debug.SetGCPercent(before) })
}

func TestBundleDeployments_ShareTexts(t *testing.T) {
	withoutCollections(t)
	_, one := cachedDeployment(t)
	_, other := cachedDeployment(t, func(bd *fleet.BundleDeployment) { bd.Labels["example.com/more"] = "one" })
	tests := map[string][2]string{
		"names":                     {one.Name, other.Name},
		"deployment IDs":            {one.Spec.DeploymentID, other.Spec.DeploymentID},
		"staged and current state":  {one.Spec.DeploymentID, one.Spec.StagedDeploymentID},
		"desired and applied state": {one.Spec.DeploymentID, one.Status.AppliedDeploymentID},
		"conditions":                {one.Status.Conditions[0].Type, other.Status.Conditions[0].Type},
		"when they changed":         {one.Status.Conditions[0].LastUpdateTime, other.Status.Conditions[0].LastUpdateTime},
		"labels":                    {one.Labels[fleet.LabelCluster], other.Labels[fleet.LabelCluster]},
		"finalizers":                {one.Finalizers[0], other.Finalizers[0]},
	}
	for name, texts := range tests {
		t.Run(name, func(t *testing.T) {
			if texts[0] == "" || texts[0] != texts[1] {
				t.Fatalf("they differ: %q", texts)
			}
			if unsafe.StringData(texts[0]) != unsafe.StringData(texts[1]) {
				t.Error("each has its own")
			}
		})
	}
	_, staged := cachedDeployment(t, func(bd *fleet.BundleDeployment) {
		bd.Spec.Options.Helm, bd.Spec.StagedOptions.Helm = &fleet.HelmOptions{ReleaseName: "a"}, &fleet.HelmOptions{ReleaseName: "a"}
	})
	if staged.Spec.Options.Helm != staged.Spec.StagedOptions.Helm {
		t.Error("options that are the same are there twice")
	}
}

// mostOfADeployment limits the memory in the caches for one BundleDeployment of ten objects, in bytes, on a hub with
// twenty thousand.
const mostOfADeployment = 4 << 10

func TestMemoryOfABundleDeployment_IsLimited(t *testing.T) {
	const clusters, bundles = 250, 8
	document := recordedDocument(t, "bundledeployments", "name: fleet-agent-east")
	kept := make([]*fleet.BundleDeployment, 0, clusters*bundles)
	before := liveHeap()
	for i := range clusters * bundles {
		bd := &fleet.BundleDeployment{}
		of := strings.ReplaceAll(document, "fleet-agent-east", fmt.Sprintf("bundle-%d", i%bundles))
		if err := json.Unmarshal([]byte(strings.ReplaceAll(of, "east", fmt.Sprintf("ea%04d", i/bundles))), bd); err != nil {
			t.Fatal(err)
		}
		for j := range 10 {
			bd.Status.Resources = append(bd.Status.Resources, fleet.DeployedResource{
				Kind: "ConfigMap", APIVersion: "v1", Namespace: "fleet-bench", Name: fmt.Sprintf("%s-%d", bd.Name, j), CreatedAt: metav1.Unix(1, 0),
			})
		}
		if _, err := newStripper().strip(bd); err != nil {
			t.Fatal(err)
		}
		kept = append(kept, bd)
	}
	each := (liveHeap() - before) / (clusters * bundles)
	runtime.KeepAlive(kept)
	t.Logf("%d bytes for each BundleDeployment", each)
	if each > mostOfADeployment {
		t.Errorf("a BundleDeployment takes %d bytes of the caches, more than %d", each, mostOfADeployment)
	}
}

// cachedBundle returns a decoded Bundle with its own content, after it was put into a cache.
func cachedBundle(t *testing.T, set, content string) *fleet.Bundle {
	t.Helper()
	obj, err := newStripper().strip(&fleet.Bundle{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{fleet.AnnotationSetID: set}},
		Spec:       fleet.BundleSpec{Resources: []fleet.BundleResource{{Name: "agent.yaml", Content: strings.Clone(content)}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	bundle, ok := obj.(*fleet.Bundle)
	if !ok || set == names.AgentBundleSet && bundle.Spec.Resources[0].Content != content {
		t.Fatalf("it became %+v", obj)
	}
	return bundle
}

func TestAgentBundles_ShareManifests(t *testing.T) {
	withoutCollections(t)
	same := func(a, b *fleet.Bundle) bool {
		return unsafe.StringData(a.Spec.Resources[0].Content) == unsafe.StringData(b.Spec.Resources[0].Content)
	}
	tests := map[string]struct {
		set, content string
		want         bool
	}{
		"two agents with the same settings":  {names.AgentBundleSet, "kind: Deployment", true},
		"two agents with different settings": {names.AgentBundleSet, "kind: Deployment, another", false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := same(cachedBundle(t, names.AgentBundleSet, "kind: Deployment"), cachedBundle(t, test.set, test.content)); got != test.want {
				t.Errorf("shared: %t", got)
			}
		})
	}
}

func TestCachedBundle_HasTheHashOfItsResources(t *testing.T) {
	bundle := func(text string, generation int64) *fleet.Bundle {
		return &fleet.Bundle{
			ObjectMeta: metav1.ObjectMeta{UID: "u", Generation: generation},
			Spec:       fleet.BundleSpec{Resources: []fleet.BundleResource{{Name: "a.yaml", Content: text}}},
		}
	}
	s := newStripper()
	for _, now := range []*fleet.Bundle{bundle("one", 1), bundle("one", 1), bundle("two", 2)} {
		want := content.Manifest{Resources: now.Spec.Resources}.SHA256()
		for range 2 { // a transform may be called again
			if _, err := s.strip(now); err != nil {
				t.Fatal(err)
			}
			if now.Spec.ResourcesHash != want || now.Spec.Resources != nil {
				t.Errorf("hash %q of %d resources, want %q", now.Spec.ResourcesHash, len(now.Spec.Resources), want)
			}
		}
		text, err := json.Marshal(now)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), want) {
			t.Errorf("the hash can be stored, so that users can forge it: %s", text)
		}
	}
}

// BenchmarkMemory measures the heap of the caches for 1000 clusters with 20 Bundles of 30 KiB, whose values differ from
// cluster to cluster.
func BenchmarkMemory(b *testing.B) {
	const clusters, bundles = 1000, 20
	document := recordedDocument(b, "bundledeployments", "name: fleet-agent-east")
	for b.Loop() {
		kept := make([]any, 0, clusters*bundles+bundles)
		s, before := newStripper(), liveHeap()
		add := func(object any) {
			stripped, err := s.strip(object)
			if err != nil {
				b.Fatal(err)
			}
			kept = append(kept, stripped)
		}
		for range bundles {
			add(&fleet.Bundle{Spec: fleet.BundleSpec{Resources: []fleet.BundleResource{{Name: "a.yaml", Content: strings.Repeat("x", 30<<10)}}}})
		}
		b.ReportMetric(float64(liveHeap()-before)/bundles, "B/Bundle")
		before = liveHeap()
		for i := range clusters * bundles {
			bd := &fleet.BundleDeployment{}
			if err := json.Unmarshal([]byte(strings.ReplaceAll(document, "east", fmt.Sprintf("ea%04d", i%clusters))), bd); err != nil {
				b.Fatal(err)
			}
			for _, options := range []*fleet.BundleDeploymentOptions{&bd.Spec.Options, &bd.Spec.StagedOptions} {
				options.Helm = &fleet.HelmOptions{Values: benchValues(i % clusters)}
			}
			add(bd)
		}
		b.ReportMetric(float64(liveHeap()-before)/(clusters*bundles), "B/BundleDeployment")
		runtime.KeepAlive(kept)
	}
}

func benchValues(cluster int) *fleet.GenericMap {
	return &fleet.GenericMap{Data: map[string]any{
		"cluster": fmt.Sprint(cluster), "image": map[string]any{"repository": "registry.example.com/web", "tag": "1.2.3"},
		"service": map[string]any{"type": "ClusterIP", "port": int64(80)}, "resources": map[string]any{"limits": map[string]any{"memory": "64Mi"}},
	}}
}

func TestStrip_DropsTheDataOfContents(t *testing.T) {
	got, err := newStripper().strip(&fleet.Content{Content: []byte("much")})
	if content, ok := got.(*fleet.Content); err != nil || !ok || content.Content != nil {
		t.Errorf("%+v, %v", got, err)
	}
}

// sharedMaps strips objects and returns whether the labels and the annotations of each are those of the first.
func sharedMaps(t *testing.T, s stripper, objects ...metav1.Object) (labels, annotations []bool) {
	t.Helper()
	same := func(a, b map[string]string) bool { return reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer() }
	for _, object := range objects {
		before := [2]map[string]string{maps.Clone(object.GetLabels()), maps.Clone(object.GetAnnotations())}
		if _, err := s.strip(object); err != nil {
			t.Fatal(err)
		}
		if after := [2]map[string]string{object.GetLabels(), object.GetAnnotations()}; !reflect.DeepEqual(after, before) {
			t.Errorf("%v became %v", before, after)
		}
		labels = append(labels, same(object.GetLabels(), objects[0].GetLabels()))
		annotations = append(annotations, same(object.GetAnnotations(), objects[0].GetAnnotations()))
	}
	return labels, annotations
}

func child(owner string, more ...string) metav1.ObjectMeta {
	m := metav1.ObjectMeta{
		Name: "one", Namespace: "ws",
		Labels:      map[string]string{fleet.LabelManaged: "true", fleet.LabelSetHash: "7a"},
		Annotations: map[string]string{fleet.AnnotationSetID: "grant", fleet.AnnotationSetOwnerName: owner},
	}
	for _, key := range more {
		m.Annotations[key] = "yes"
	}
	return m
}

func TestStrip_SharesTheMetadataOfASet(t *testing.T) {
	labels, annotations := sharedMaps(t, newStripper(),
		&rbacv1.Role{ObjectMeta: child("request-1")},
		&corev1.ServiceAccount{ObjectMeta: child("request-1", "cluster", "registration")}, // accounts have more
		&rbacv1.RoleBinding{ObjectMeta: child("request-1")},
		&rbacv1.Role{ObjectMeta: child("forged")}, // another owner than its hash says
	)
	if want := []bool{true, true, true, true}; !reflect.DeepEqual(labels, want) {
		t.Errorf("labels are shared: %v", labels)
	}
	if want := []bool{true, false, true, false}; !reflect.DeepEqual(annotations, want) {
		t.Errorf("annotations are shared: %v", annotations)
	}
}

func TestStrip_SharesTheNewMetadataOfASet(t *testing.T) {
	s := newStripper()
	sharedMaps(t, s, &rbacv1.Role{ObjectMeta: child("before")})
	if _, annotations := sharedMaps(t, s, &rbacv1.Role{ObjectMeta: child("after")}, &rbacv1.RoleBinding{ObjectMeta: child("after")}); !annotations[1] {
		t.Error("what all children have after a change is not shared")
	}
}

// Tenants can name any set, and what is shared outlives the object.
func TestStrip_KeepsNoLargeMetadata(t *testing.T) {
	many := map[string]string{fleet.LabelSetHash: "7a"}
	for i := range maxEntries {
		many[fmt.Sprint(i)] = ""
	}
	for name, labels := range map[string]map[string]string{
		"long":   {fleet.LabelSetHash: "7a", "note": strings.Repeat("x", maxBytes)},
		"many":   many,
		"no set": {"note": "x"},
	} {
		s := newStripper()
		sharedMaps(t, s, &fleet.Bundle{ObjectMeta: metav1.ObjectMeta{Labels: labels}})
		if s.maps.Len() != 0 {
			t.Errorf("%s: %d maps are kept", name, s.maps.Len())
		}
	}
}
