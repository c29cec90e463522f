package manageagent

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/hubtest"
	"github.com/fleet-hub/fleet/internal/config"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// recorded reads the objects of a file of testdata/recorded/hub, by "<namespace>/<name>".
func recorded[T any](t *testing.T, name string) map[string]*T {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "..", "testdata", "recorded", "hub", name+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]*T{}
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		object, meta := new(T), metav1.PartialObjectMetadata{}
		for _, into := range []any{object, &meta} {
			if err := yaml.Unmarshal([]byte(document), into); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		found[strings.TrimPrefix(meta.Namespace+"/"+meta.Name, "/")] = object
	}
	return found
}

// TestRecordedClusters_GiveTheRecordedBundles compares the Bundles byte for byte, except for fields of other
// controllers and the applied annotation.
func TestRecordedClusters_GiveTheRecordedBundles(t *testing.T) {
	settings := recorded[corev1.ConfigMap](t, "configmaps")["cattle-fleet-system/fleet-controller"]
	parsed, warnings, err := config.Parse([]byte(settings.Data["config"]), config.Config{})
	if err != nil || len(warnings) > 0 {
		t.Fatal(err, warnings)
	}
	clusters, namespaces := recorded[fleet.Cluster](t, "clusters"), recorded[corev1.Namespace](t, "namespaces")
	hub := newHub(t)
	hub.App.Config.Set(parsed)
	want := map[string]*fleet.Bundle{}
	for key, bundle := range recorded[fleet.Bundle](t, "bundles") {
		if strings.HasPrefix(bundle.Name, "fleet-agent-") {
			want[key] = bundle
		}
	}
	if len(clusters) != 3 || len(want) != 3 {
		t.Fatalf("%d Clusters and %d Bundles are recorded, not 3", len(clusters), len(want))
	}
	for _, cluster := range clusters {
		if cluster.Status.Agent.LastSeen.IsZero() { // recorded before the first heartbeat, for which these hubs wait
			cluster.Status.Agent = fleet.AgentStatus{LastSeen: metav1.NewTime(time.Unix(0, 0)), Namespace: "cattle-fleet-system"}
		}
		hub.Put(cluster, namespaces[cluster.Namespace])
		handle(t, hub, cluster.Namespace+"/"+cluster.Name)
	}
	for key, expected := range want {
		namespace, name, _ := strings.Cut(key, "/")
		made := hubtest.MustGet[*fleet.Bundle](t, hub, namespace, name)
		if diff := cmp.Diff(text(t, expected), text(t, made)); diff != "" {
			t.Errorf("Bundle %s (-recorded +made):\n%s", key, diff)
		}
	}
}

// text is a Bundle as JSON, without what the server and other controllers write.
func text(t *testing.T, bundle *fleet.Bundle) string {
	t.Helper()
	bundle = bundle.DeepCopy()
	bundle.Status = fleet.BundleStatus{}
	bundle.Finalizers = nil                  // the delivery's
	bundle.Spec.TargetCustomizationMode = "" // the schema's default
	bundle.UID, bundle.ResourceVersion, bundle.CreationTimestamp = "", "", metav1.Time{}
	bundle.Annotations = maps.Clone(bundle.Annotations)
	delete(bundle.Annotations, fleet.AnnotationSetApplied)
	encoded, err := json.MarshalIndent(bundle, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(encoded)
}
