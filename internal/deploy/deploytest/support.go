package deploytest

import (
	"maps"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/releaseutil"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	metadatafake "k8s.io/client-go/metadata/fake"
	"sigs.k8s.io/yaml"

	"github.com/fleet-hub/fleet/charts"
	"github.com/fleet-hub/fleet/e2e/framework/golden"
	"github.com/fleet-hub/fleet/internal/agentchart"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/content"
	"github.com/fleet-hub/fleet/internal/rules/importing"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// ObjectOf returns the object that a text in YAML describes.
func ObjectOf(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	converted, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(converted); err != nil {
		t.Fatal(err)
	}
	return object
}

// Noon is the time of tests.
func Noon() time.Time { return time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC) }

// Deployment returns a deployed BundleDeployment with the given changes.
func Deployment(changes ...func(*fleet.BundleDeployment)) *fleet.BundleDeployment {
	bd := &fleet.BundleDeployment{
		ObjectMeta: metav1.ObjectMeta{Name: "hello", Namespace: "cluster-ns", Labels: map[string]string{fleet.LabelBundleNamespace: "fleet-default"}},
		Spec:       fleet.BundleDeploymentSpec{DeploymentID: "s-1:a", StagedDeploymentID: "s-1:a", Options: InNamespace("web")},
	}
	bd.Status.AppliedDeploymentID, bd.Status.Release = "s-1:a", "web/hello:1"
	for _, kind := range []string{conditions.Installed, conditions.Deployed} {
		conditions.Set(&bd.Status.Conditions, Noon(), genericcondition.GenericCondition{Type: kind, Status: corev1.ConditionTrue})
	}
	for _, change := range changes {
		change(bd)
	}
	return bd
}

// NamespaceWith returns a namespace with labels, nil unless it exists.
func NamespaceWith(exists bool, labels map[string]string) *corev1.Namespace {
	if !exists {
		return nil
	}
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "web", Labels: labels}}
}

var notForFiles = regexp.MustCompile(`[^a-zA-Z0-9]+`)

// ExpectGolden compares text with testdata/<test>/<name>.golden, named after the running test.
func ExpectGolden(t *testing.T, text string) {
	t.Helper()
	test, name, _ := strings.Cut(t.Name(), "/")
	golden.Expect(t, filepath.Join(test, strings.Trim(notForFiles.ReplaceAllString(name, "-"), "-")+".golden"), text)
}

func ExpectError(t *testing.T, err error, want string) {
	t.Helper()
	got := ""
	if err != nil {
		got = err.Error()
	}
	if got != want {
		t.Errorf("error %q, want %q", got, want)
	}
}

// AliasBomb is a few kilobytes of YAML that expands to a million items.
func AliasBomb() string {
	return "a: &a [" + strings.Repeat("x,", 999) + "x]\nb: [" + strings.Repeat("*a,", 999) + "*a]\n"
}

// TooManyAliases is the error for it.
const TooManyAliases = "the YAML is too large: with its aliases expanded, it contains too much; use fewer aliases"

// ConfigMaps is the resource of ConfigMaps.
func ConfigMaps() schema.GroupVersionResource {
	return corev1.SchemeGroupVersion.WithResource("configmaps")
}

// Secrets is the resource of Secrets.
func Secrets() schema.GroupVersionResource { return corev1.SchemeGroupVersion.WithResource("secrets") }

// MetadataOf returns the metadata of an object as the API server sends them.
func MetadataOf(kind, name, version, hash string) *metav1.PartialObjectMetadata {
	found := &metav1.PartialObjectMetadata{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: kind},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "web", UID: types.UID(name), ResourceVersion: version,
			Labels: map[string]string{"big": "label"}, Annotations: map[string]string{"big": "annotation"}},
	}
	if hash != "" {
		found.Labels[fleet.LabelSetHash] = hash
	}
	return found
}

func NewMetadataClient(t *testing.T, objects ...kruntime.Object) *metadatafake.FakeMetadataClient {
	t.Helper()
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return metadatafake.NewSimpleMetadataClient(scheme, objects...)
}

func Receive[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case got := <-from:
		return got
	case <-time.After(Patience):
		t.Fatal("nothing came")
		panic("unreachable")
	}
}

// Patience is the timeout of conditions; machines may be busy.
const Patience = 2 * time.Minute

// ManifestOf makes the manifest of files, sorted by name.
func ManifestOf(files map[string]string) content.Manifest {
	var m content.Manifest
	for _, name := range slices.Sorted(maps.Keys(files)) {
		m.Resources = append(m.Resources, fleet.BundleResource{Name: name, Content: files[name]})
	}
	return m
}

const ConfigMapYAML = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: cm}\ndata: {a: b}\n"

// InNamespace makes options for a namespace.
func InNamespace(namespace string) fleet.BundleDeploymentOptions {
	return fleet.BundleDeploymentOptions{DefaultNamespace: namespace, Helm: &fleet.HelmOptions{}}
}

// AllocatedBy returns the memory that a function allocates in MiB, including freed memory.
func AllocatedBy(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return (after.TotalAlloc - before.TotalAlloc) >> 20
}

// ManyAliases is about 200 KB of YAML that expands to 600 MB.
func ManyAliases(anchor string) string {
	return "a: " + anchor + "a \"" + strings.Repeat("x", 200_000) + "\"\nb: [" + strings.Repeat("*a,", 2999) + "*a]\n"
}

// AgentIn returns the settings of an agent in a namespace.
func AgentIn(namespace string) importing.AgentValues {
	return importing.AgentValues{
		Namespace: namespace, Replicas: 1, Image: "fleet-agent:test", ImagePullPolicy: "IfNotPresent", CheckinInterval: "15m0s",
		BundleDeploymentWorkers: "50", DriftWorkers: "50", LeaseDuration: "30s", RetryPeriod: "10s", RenewDeadline: "25s",
	}
}

// AsInstalled returns the agent's Deployment as helm install renders it with the admin's values, and the image of
// the hub.
func AsInstalled(t *testing.T, namespace string, values map[string]any) *unstructured.Unstructured {
	t.Helper()
	definition, err := agentchart.Load(charts.FS, "fleet-agent")
	if err != nil {
		t.Fatal(err)
	}
	given := map[string]any{
		"apiServerURL": "https://hub", "tokenName": "t", "image": map[string]any{"repository": "fleet-agent", "tag": "test"},
		"internal": map[string]any{"systemNamespace": namespace},
	}
	for key, value := range values {
		given[key] = value
	}
	scope, err := chartutil.ToRenderValues(definition, given, chartutil.ReleaseOptions{Name: "fleet-agent", Namespace: namespace}, nil)
	if err != nil {
		t.Fatal(err)
	}
	files, err := engine.Render(definition, scope)
	if err != nil {
		t.Fatal(err)
	}
	return DeploymentIn(t, files[filepath.Join("fleet-agent", "templates", "deployment.yaml")])
}

// DeploymentIn returns the agent's Deployment in a manifest.
func DeploymentIn(t *testing.T, manifest string) *unstructured.Unstructured {
	t.Helper()
	for _, document := range releaseutil.SplitManifests(manifest) {
		if object := ObjectOf(t, document); object.GetKind() == "Deployment" && object.GetName() == names.Agent {
			return object
		}
	}
	t.Fatal("no Deployment")
	return nil
}

// EverySetting returns all settings that only the admin knows.
func EverySetting() map[string]any {
	return map[string]any{
		"proxy": "http://proxy:3128", "noProxy": "10.0.0.0/8", "agent": map[string]any{"replicas": 3},
		"fleetAgent": map[string]any{"nodeSelector": map[string]any{"disk": "ssd"}},
	}
}

func With(files, more map[string]string) map[string]string {
	all := maps.Clone(files)
	maps.Copy(all, more)
	return all
}

// HelloFiles returns a small chart; its ConfigMap has the name of the release.
func HelloFiles(greeting string) map[string]string {
	return map[string]string{
		"Chart.yaml":        "apiVersion: v2\nname: hello\nversion: 0.1.0\n",
		"values.yaml":       "greeting: " + greeting + "\n",
		"templates/cm.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}}\ndata: {greeting: {{ .Values.greeting | quote }}}\n",
	}
}
