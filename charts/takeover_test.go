package charts_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/chart"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/fleet-hub/fleet/dev/plane"
	"github.com/fleet-hub/fleet/e2e/framework/helm"
	"github.com/fleet-hub/fleet/internal/cmd/controller/hub"
	"github.com/fleet-hub/fleet/internal/cmd/env"
	"github.com/fleet-hub/fleet/internal/kube"
)

// theirs is the name of a cluster on which Rancher Fleet was installed with its own charts.
const theirs = "theirs"

const systemNamespace = "cattle-fleet-system"

// theirRelease returns the release of this name as Rancher Fleet installs it, with these objects.
func theirRelease(t *testing.T, cluster *plane.Cluster, name string, objects []*unstructured.Unstructured) helm.Release {
	t.Helper()
	other := &chart.Chart{Metadata: &chart.Metadata{APIVersion: chart.APIVersionV2, Name: name, Version: "0.0.1"}}
	for i, object := range objects {
		text, err := yaml.Marshal(object.Object)
		if err != nil {
			t.Fatal(err)
		}
		other.Templates = append(other.Templates, &chart.File{Name: fmt.Sprintf("templates/%02d.yaml", i), Data: text})
	}
	return helm.Release{Config: cluster.Config(), Chart: name, Name: name, Namespace: systemNamespace, Other: other}
}

// ourRelease returns the same release with our chart.
func ourRelease(cluster *plane.Cluster, name string, values map[string]any) helm.Release {
	return helm.Release{Config: cluster.Config(), Chart: name, Name: name, Namespace: systemNamespace, Values: values}
}

// install installs a release, or upgrades the one of its name.
func install(t *testing.T, r helm.Release) {
	t.Helper()
	if err := r.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func uninstall(t *testing.T, r helm.Release) {
	t.Helper()
	if err := r.Uninstall(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// withKinds waits until all CRDs are established, and returns a client of the cluster.
func withKinds(t *testing.T, cluster *plane.Cluster) server {
	t.Helper()
	s := serverOf(t, cluster)
	client, err := dynamic.NewForConfig(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	crds := client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	for name := range recordedCRDs(t) {
		err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
			crd, err := crds.Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return false, err
			}
			conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions") // none yet
			return slices.ContainsFunc(conditions, func(c any) bool {
				return c.(map[string]any)["type"] == "Established" && c.(map[string]any)["status"] == "True"
			}), nil
		})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	return s
}

// TestCRDChartUpgradedFromRancherFleet_KeepsAllFields creates one object of each of the fourteen kinds with every field of
// Rancher Fleet's CRDs. It then upgrades to our chart, uninstalls the chart and installs it again.
func TestCRDChartUpgradedFromRancherFleet_KeepsAllFields(t *testing.T) {
	cluster := control.Plane(t).Cluster(theirs)
	recorded := recordedCRDs(t)
	var crds []*unstructured.Unstructured
	for _, name := range sortedKeys(recorded) {
		crds = append(crds, recorded[name])
	}
	install(t, theirRelease(t, cluster, "fleet-crd", crds))
	s := withKinds(t, cluster)
	const namespace = "taken-over"
	s.namespace(t, namespace)
	before := map[string]map[string]any{}
	for name, crd := range recorded {
		before[name] = s.fill(t, crd, namespace)
	}
	if len(before) != 14 {
		t.Fatalf("%d kinds", len(before))
	}
	// The API server would drop conditions of our controllers, so they do not start with these CRDs.
	const command = "upgrade them with: helm upgrade fleet-crd charts/fleet-crd --namespace cattle-fleet-system"
	if err := checkAtStart(t, cluster); !errors.Is(err, hub.ErrCRDsOutdated) || !strings.HasSuffix(err.Error(), command) {
		t.Errorf("before the upgrade, the check of the controllers returns %v", err)
	}

	expectKept := func(after string) {
		t.Helper()
		for name, crd := range recorded {
			got, err := s.read(t, crd, namespace)
			if err != nil {
				t.Errorf("after %s there is no %s: %v", after, name, err)
				continue
			}
			if diff := cmp.Diff(before[name], got); diff != "" {
				t.Errorf("after %s, %s has changed (-before +after):\n%s", after, name, diff)
			}
		}
	}
	ours := ourRelease(cluster, "fleet-crd", nil)
	install(t, ours)
	expectKept("the upgrade to our chart")
	if err := checkAtStart(t, cluster); err != nil {
		t.Errorf("after the upgrade, the check of the controllers returns %v", err)
	}
	uninstall(t, ours)
	expectKept("our chart was uninstalled")
	install(t, ours)
	expectKept("our chart was installed again")
}

// checkAtStart makes the check with which a controller starts.
func checkAtStart(t *testing.T, cluster *plane.Cluster) error {
	t.Helper()
	_, err := hub.Check(t.Context(), hub.Options{
		Own: kube.Own{Config: kube.Tune(cluster.Config())}, Env: env.Controller{Namespace: systemNamespace}, Version: "test", Log: slog.New(slog.DiscardHandler),
	}, time.Minute)
	return err
}
