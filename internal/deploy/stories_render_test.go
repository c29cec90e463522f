package deploy

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/release"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fleet-hub/fleet/internal/deploy/bounded"
	"github.com/fleet-hub/fleet/internal/deploy/deploytest"
	"github.com/fleet-hub/fleet/internal/deploy/placement"
	releases "github.com/fleet-hub/fleet/internal/deploy/release"
	"github.com/fleet-hub/fleet/internal/deploy/source"
	"github.com/fleet-hub/fleet/internal/rules/content"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// renderedFiles are Bundles of every style.
func renderedFiles() map[string]map[string]string {
	chart := deploytest.With(hooks(hookOf("hook", "", "pre-install")), map[string]string{
		"Chart.yaml": "apiVersion: v2\nname: hello\nversion: 0.1.0\n" +
			"dependencies: [{name: unused, version: 0.1.0, condition: unused.enabled}, {name: used, version: 0.1.0, import-values: [{child: exports, parent: greeted}]}]\n",
		"values.yaml":                     "greeting: hi\nunused: {enabled: false}\n",
		"templates/imported.yaml":         "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: imported}\ndata: {who: {{ .Values.greeted.who | quote }}}\n",
		"templates/NOTES.txt":             "{{ .Release.Name }} says: [",
		"charts/unused/Chart.yaml":        "apiVersion: v2\nname: unused\nversion: 0.1.0\n",
		"charts/unused/templates/cm.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: unused}\n",
		"charts/used/Chart.yaml":          "apiVersion: v2\nname: used\nversion: 0.1.0\n",
		"charts/used/values.yaml":         "exports: {who: you}\n",
		"charts/used/templates/cm.yaml":   "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: used}\ndata: {text: '{{ \"{{\" }}'}\n",
	})
	kustomization := map[string]string{"kustomization.yaml": "namePrefix: k-\n"}
	return map[string]map[string]string{
		"chart":            chart,
		"kustomized-chart": deploytest.With(chart, kustomization),
		"kustomization":    {"kustomization.yaml": "resources: [cm.yaml]\nnameSuffix: -x\n", "cm.yaml": deploytest.ConfigMapYAML},
		"raw": {
			"b.yaml": deploytest.ConfigMapYAML, "a.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\n",
			"overlays/o/b_patch.yaml": "data: {c: d}\n", "templates/t.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}}\n",
		},
	}
}

// Render, which the command line uses, gives the objects and hooks that an agent stores in the release.
func TestRender_GivesTheReleaseOfAnAgent(t *testing.T) {
	t.Parallel()
	l := newLab(t, "render")
	l.start()
	for name, files := range renderedFiles() {
		for suffix, options := range map[string]fleet.BundleDeploymentOptions{
			"":       {DefaultNamespace: l.Name + "-" + name, Helm: &fleet.HelmOptions{Values: &fleet.GenericMap{Data: map[string]any{"greeting": "ho"}}}},
			"-moved": {TargetNamespace: l.Name + "-" + name + "-moved", Helm: &fleet.HelmOptions{}, YAML: &fleet.YAMLOptions{Overlays: []string{"o"}}},
		} {
			t.Run(name+suffix, func(t *testing.T) {
				if name != "raw" {
					options.YAML = nil
				}
				bd := l.apply(bundle{Name: name + suffix, Files: files, Options: options})
				l.expectStatus(bd.Name, ready)
				stored := l.release(placement.ReleaseOf(bd.Name, &options))
				if diff := cmp.Diff(textsOf(stored), textsOf(render(t, bd, files))); diff != "" {
					t.Errorf("(-stored +rendered):\n%s", diff)
				}
			})
		}
	}
}

// release returns the last revision of a release.
func (l *lab) release(key placement.Release) *release.Release {
	l.t.Helper()
	history, err := releases.LoadHistory(l.t.Context(), l.East.CoreV1().Secrets(key.Namespace), key, time.Now, nil)
	if err != nil || history.Last() == nil {
		l.t.Fatalf("release %s: %v", key, err)
	}
	return history.Last()
}

// textsOf returns the manifests of the objects and of the hooks, in their order.
func textsOf(made *release.Release) []string {
	texts := []string{made.Manifest}
	for _, hook := range made.Hooks {
		texts = append(texts, hook.Path+"\n"+hook.Manifest)
	}
	return texts
}

func render(t *testing.T, bd *fleet.BundleDeployment, files map[string]string) *release.Release {
	t.Helper()
	options := bd.Spec.Options.DeepCopy()
	id, _ := content.SplitDeploymentID(bd.Spec.DeploymentID)
	made, err := source.New(source.Input{
		Name: bd.Name, ManifestID: id, Resources: deploytest.ManifestOf(files).Resources, Options: options, Annotations: map[string]string{},
	})
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]any{}
	if options.Helm.Values != nil {
		values = options.Helm.Values.Data
	}
	set := placement.SetOf(bd.Name, "")
	rendered, err := releases.Render(t.Context(), releases.Installation{
		Release: placement.ReleaseOf(bd.Name, options), Options: options, Values: values, Chart: made.Chart, Set: set,
		Finish: &source.PostRenderer{
			Package: made, Set: set, TargetNamespace: options.TargetNamespace,
			Namespaced: func(schema.GroupVersionKind) (bool, error) { return true, nil },
		},
	}, chartutil.DefaultCapabilities.KubeVersion)
	if err != nil {
		t.Fatal(err)
	}
	return rendered
}

// A chart that has ended three processes is reported, and no longer rendered. Other bundles are deployed.
func TestChartThatEndsTheAgent_IsReported(t *testing.T) {
	t.Parallel()
	l, journal := newLab(t, "ends-the-agent"), t.TempDir()
	l.options = func(o *Options) { o.Journal = journal }
	bad := l.apply(bundle{Name: "bad", Files: deploytest.HelloFiles("hi"), Options: deploytest.InNamespace(l.Name)})
	killed := make(chan struct{})
	t.Cleanup(func() { close(killed) })
	for range 3 {
		running, process := make(chan struct{}), bounded.New(bounded.Options{Journal: journal, Clock: time.Now, Log: slog.New(slog.DiscardHandler), Agent: placement.AgentSet("")})
		go func() {
			_, _ = process.Render(placement.SetOf("bad", ""), "", placement.ReleaseOf("bad", &bad.Spec.Options), bad.Spec.DeploymentID, func() (map[string]string, error) {
				close(running)
				<-killed
				return nil, nil
			})
		}()
		<-running
	}
	l.start()
	l.expectStatus("bad", becauseOf(conditions.Deployed, conditions.ReasonRenderingFailed, "has ended 3 times"))
	l.apply(bundle{Name: "good", Files: deploytest.HelloFiles("hi"), Options: deploytest.InNamespace(l.Name)})
	l.expectStatus("good", ready)
	if said := l.log(); !strings.Contains(said, "ended while it rendered a release") {
		t.Errorf("the log does not say why:\n%s", said)
	}
}
