package charts_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/yaml"

	"github.com/fleet-hub/fleet/dev/plane"
	"github.com/fleet-hub/fleet/internal/agentchart"
	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/rules/importing"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

var control = plane.Share(plane.Options{Downstreams: []string{theirs}})

func TestMain(m *testing.M) { os.Exit(control.Main(m)) }

// server is an API server that is used with dry runs.
type server struct {
	client dynamic.Interface
	mapper meta.RESTMapper
}

func newServer(t *testing.T) server {
	t.Helper()
	return serverOf(t, control.Plane(t).Hub)
}

func serverOf(t *testing.T, cluster *plane.Cluster) server {
	t.Helper()
	client, err := dynamic.NewForConfig(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	found, err := discovery.NewDiscoveryClientForConfig(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	return server{client: client, mapper: restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(found))}
}

// create returns the object as the server would store it. The dry run refuses unknown fields.
func (s server) create(ctx context.Context, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	resource, err := s.resource(object)
	if err != nil {
		return nil, err
	}
	return resource.Create(ctx, object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict})
}

// apply is like create, with server-side apply.
func (s server) apply(ctx context.Context, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	resource, err := s.resource(object)
	if err != nil {
		return nil, err
	}
	body, err := object.MarshalJSON()
	if err != nil {
		return nil, err
	}
	return resource.Patch(ctx, object.GetName(), "application/apply-patch+yaml", body, metav1.PatchOptions{
		DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict, FieldManager: "test", Force: new(true),
	})
}

func (s server) resource(object *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	mapping, err := s.mapper.RESTMapping(object.GroupVersionKind().GroupKind(), object.GroupVersionKind().Version)
	if err != nil {
		return nil, err
	}
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		return s.client.Resource(mapping.Resource), nil
	}
	return s.client.Resource(mapping.Resource).Namespace(object.GetNamespace()), nil
}

// namespace creates a namespace for the objects of a dry run.
func (s server) namespace(t *testing.T, name string) {
	t.Helper()
	namespace := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name}}}
	resource, err := s.resource(namespace)
	if err == nil {
		_, err = resource.Create(t.Context(), namespace, metav1.CreateOptions{})
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
}

// objectsOf returns the rendered objects as Helm would send them.
func objectsOf(t *testing.T, files map[string]string) []*unstructured.Unstructured {
	t.Helper()
	var all []*unstructured.Unstructured
	for _, name := range sortedKeys(files) {
		if !strings.HasSuffix(name, ".yaml") {
			continue
		}
		for _, document := range strings.Split("\n"+files[name], "\n---") {
			object := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if len(object.Object) > 0 {
				all = append(all, object)
			}
		}
	}
	return all
}

// matrix returns the releases that a server has to accept: those of all golden files, each documented value alone, and all
// values at once.
func matrix(t *testing.T) map[string]release {
	t.Helper()
	releases := map[string]release{"fleet-crd": {chart: "fleet-crd", name: "fleet-crd", namespace: systemNamespace}}
	for name, r := range agentReleases() {
		releases["fleet-agent/"+name] = r
	}
	for name, r := range controllersReleases() {
		releases["fleet/"+name] = r
	}
	for chart, base := range map[string]release{"fleet": controllers(""), "fleet-agent": agent("")} {
		every, defaults := everyValue(t, chart), parse[map[string]any](t, base.values)
		base.values = marshal(t, every)
		releases[chart+", every value"] = base
		for path := range documented(t, chart) {
			given, _ := at(every, path)
			base.values = marshal(t, put(defaults, path, given))
			releases[chart+", "+path+" alone"] = base
		}
	}
	return releases
}

// TestRenderedObjects_AreAcceptedByTheAPIServer sends the rendered objects to an API server with strict field validation.
// It sends equal objects only once.
func TestRenderedObjects_AreAcceptedByTheAPIServer(t *testing.T) {
	s := newServer(t)
	sent := map[string]bool{}
	for name, r := range matrix(t) {
		t.Run(name, func(t *testing.T) {
			s.namespace(t, r.namespace)
			objects := objectsOf(t, mustRender(t, r))
			if len(objects) < 4 {
				t.Fatalf("only %d objects", len(objects))
			}
			for _, object := range objects {
				text := marshal(t, object.Object)
				if sent[text] {
					continue
				}
				sent[text] = true
				_, err := s.create(t.Context(), object)
				if apierrors.IsAlreadyExists(err) {
					_, err = s.apply(t.Context(), object)
				}
				if err != nil {
					t.Errorf("%s %s: %v", object.GetKind(), object.GetName(), err)
				}
			}
		})
	}
	if len(sent) < 100 {
		t.Errorf("only %d objects were sent", len(sent))
	}
}

// TestInstallImportAndBundle_StoreTheSameDeployment compares the stored Deployment after `helm install`, which creates it,
// and after an import or a Bundle, which apply it. A difference would cause a new revision, and new pods.
func TestInstallImportAndBundle_StoreTheSameDeployment(t *testing.T) {
	s := newServer(t)
	s.namespace(t, "cattle-fleet-system")
	var installed *unstructured.Unstructured
	for _, object := range objectsOf(t, mustRender(t, agent(""))) {
		if object.GetKind() == "Deployment" {
			installed = object
		}
	}
	want, err := s.create(t.Context(), installed)
	if err != nil {
		t.Fatal(err)
	}
	values := settingsOf(t, "", fleet.ClusterSpec{})
	for way, modify := range map[string]func(*importing.AgentValues){
		"import": func(v *importing.AgentValues) {
			v.Config, v.Bootstrap = &config.Agent{}, &protocol.Bootstrap{APIServerURL: "https://hub", TokenName: "t"}
		},
		"bundle": func(*importing.AgentValues) {},
	} {
		modify(&values)
		rendered, err := agentchart.Render(values)
		if err != nil {
			t.Fatal(err)
		}
		for _, object := range rendered {
			got, err := s.apply(t.Context(), untyped(t, object))
			if err != nil {
				t.Fatalf("%s: %v", way, err)
			}
			if got.GetKind() != "Deployment" {
				continue
			}
			if diff := cmp.Diff(want.Object["spec"], got.Object["spec"]); diff != "" {
				t.Errorf("%s: the stored Deployment differs (-install +%s):\n%s", way, way, diff)
			}
		}
	}
}

func untyped(t *testing.T, object runtime.Object) *unstructured.Unstructured {
	t.Helper()
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		t.Fatal(err)
	}
	return &unstructured.Unstructured{Object: fields}
}

// TestDuplicateVariables_CanBeApplied uses variable names twice. An API server would refuse to apply both.
func TestDuplicateVariables_CanBeApplied(t *testing.T) {
	s := newServer(t)
	s.namespace(t, "cattle-fleet-system")
	rendered, err := agentchart.Render(settingsOf(t, "", fleet.ClusterSpec{AgentEnvVars: []corev1.EnvVar{
		{Name: "CHECKIN_INTERVAL", Value: "1s"}, {Name: "A", Value: "1"}, {Name: "A", Value: "2"},
	}}))
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range rendered {
		if _, err := s.apply(t.Context(), untyped(t, object)); err != nil {
			t.Errorf("%T: %v", object, err)
		}
	}
}
