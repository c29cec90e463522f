package deploy

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"helm.sh/helm/v3/pkg/chartutil"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/yaml"

	"github.com/fleet-hub/fleet/e2e/framework/golden"
	"github.com/fleet-hub/fleet/internal/cmd/cli/bundlefile"
	"github.com/fleet-hub/fleet/internal/cmd/cli/clitest"
	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
	"github.com/fleet-hub/fleet/internal/rules/content"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

const configMap = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: cm}\n"

// chartFiles are a chart with a hook, a CRD, notes, and what depends on the cluster.
func chartFiles() map[string]string {
	return map[string]string{
		"Chart.yaml":          "apiVersion: v2\nname: web\nversion: 0.1.0\nannotations: {a: b}\n",
		"values.yaml":         "replicas: 1\n",
		"crds/crd.yaml":       "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: things.example.org}\n",
		"templates/hook.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: hook, annotations: {helm.sh/hook: pre-install}}\n",
		"templates/cm.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ .Release.Name }}', namespace: '{{ .Release.Namespace }}'}\n" +
			"data:\n  replicas: {{ .Values.replicas | quote }}\n  kubernetes: {{ .Capabilities.KubeVersion.Version }}\n" +
			"  agent: '{{ index .Chart.Annotations \"fleet.cattle.io/agent-namespace\" }}'\n" +
			"  found: {{ lookup \"v1\" \"Namespace\" \"\" \"default\" | len | quote }}\n",
		"templates/role.yaml":  "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: a}\n",
		"templates/other.yaml": "apiVersion: example.org/v1\nkind: Thing\nmetadata: {name: a}\n",
		"templates/NOTES.txt":  "not an object",
	}
}

// file returns the Content of files and a BundleDeployment with options in YAML.
func file(t testing.TB, files map[string]string, spec string) string {
	t.Helper()
	var manifest content.Manifest
	for _, name := range slices.Sorted(maps.Keys(files)) {
		manifest.Resources = append(manifest.Resources, fleet.BundleResource{Name: name, Content: files[name]})
	}
	object, err := yaml.Marshal(content.Object(manifest))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(spec, "deploymentID:") {
		spec += "\ndeploymentID: " + manifest.ID() + ":abc"
	}
	return fmt.Sprintf("%s---\napiVersion: fleet.cattle.io/v1alpha1\nkind: BundleDeployment\nmetadata: {name: web, namespace: cluster-a}\nspec:\n  %s\n",
		object, strings.ReplaceAll(strings.TrimSpace(spec), "\n", "\n  "))
}

// run calls the command with the text as file if it is not empty. There is no kubeconfig.
func run(t testing.TB, text string, args ...string) clitest.Called {
	t.Helper()
	if text != "" {
		path := filepath.Join(t.TempDir(), "deployment.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, "-i", path)
	}
	command := func(streams genericiooptions.IOStreams) *cobra.Command {
		return New(streams, clitest.Noon, func(string) string { return "" })
	}
	return clitest.Call(t.Context(), command, append([]string{"--kubeconfig", "/no/such/file"}, args...)...)
}

func TestDryRun_MatchesTheGoldens(t *testing.T) {
	kustomized := chartFiles()
	kustomized["kustomization.yaml"] = "namePrefix: k-\n"
	delete(kustomized, "templates/other.yaml")
	for name, test := range map[string]struct {
		files map[string]string
		spec  string
		args  []string
	}{
		"chart":        {chartFiles(), "options: {helm: {values: {replicas: 3}}}", nil},
		"flags":        {chartFiles(), "options: {helm: {}}", []string{"-n", "other", "-a", "agents", "--kube-version", "1.37"}},
		"namespace":    {chartFiles(), "options: {namespace: moved}", []string{"-n", "other"}},
		"default":      {chartFiles(), "options: {defaultNamespace: web}", []string{"-n", "other"}},
		"kustomized":   {kustomized, "options: {helm: {releaseName: app}, kustomize: {dir: ''}}", nil},
		"raw":          {map[string]string{"cm.yaml": configMap, "sub/secret.json": `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"}}`, "README.md": "no"}, "options: {}", nil},
		"overlay":      {map[string]string{"cm.yaml": configMap, "overlays/o/cm_patch.yaml": "data: {a: b}\n"}, "options: {yaml: {overlays: [o]}}", nil},
		"empty":        {map[string]string{"README.md": "no"}, "options: {}", nil},
		"crd":          {map[string]string{"crd.yaml": chartFiles()["crds/crd.yaml"]}, "options: {}", nil},
		"what-differs": {chartFiles(), "deploymentID: s-other:abc\nvaluesHash: abc\noptions: {helm: {valuesFrom: [{secretKeyRef: {name: s}}]}}", nil},
	} {
		t.Run(name, func(t *testing.T) {
			golden.Expect(t, name+".golden", run(t, file(t, test.files, test.spec), append(test.args, "-d")...).String())
		})
	}
}

func TestMistakes_HaveAMessageAndExitCode1(t *testing.T) {
	raw := map[string]string{"cm.yaml": configMap}
	good := file(t, raw, "options: {}")
	role := "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: a}\n"
	for name, test := range map[string]struct {
		text string
		args []string
		want string
	}{
		"missing file":        {args: []string{"-d", "-i", "/no/such/file"}, want: "reading file: open /no/such/file: no such file or directory\n"},
		"empty file":          {text: "# nothing", args: []string{"-d"}, want: "failed to read content resource from file\n"},
		"no BundleDeployment": {text: strings.Split(good, "---\n")[0], args: []string{"-d"}, want: "failed to read bundledeployment resource from file\n"},
		"no -d":               {text: good, want: "without -d, deploy would install the release itself, which only agents do here\nfix: fleet --kubeconfig /no/such/file deploy -d -i "},
		"unknown flag":        {args: []string{"--no-such"}, want: "unknown flag: --no-such\nfix: deploy --help\n"},
		"no version":          {text: good, args: []string{"-d", "--kube-version", "new"}, want: "--kube-version \"new\": "},
		"damaged Content": {
			text: strings.Replace(good, "sha256sum: ", "sha256sum: 0", 1), args: []string{"-d"},
			want: "reading content s-",
		},
		"Content that is no gzip": {
			text: strings.Replace(good, "content: ", "content: QUFB # ", 1), args: []string{"-d"}, want: "decompressing content s-",
		},
		"chart that an agent would have to download": {
			text: file(t, raw, "helmChartOptions: {}"), args: []string{"-d"}, want: "charts that the agent has to download (HelmOps) are not supported by this agent\n",
		},
		"contents in a registry": {text: file(t, raw, "ociContents: true"), args: []string{"-d"}, want: "contents in an OCI registry are not supported by this agent\n"},
		"resource that leads out of the bundle": {
			text: file(t, map[string]string{"../cm.yaml": configMap}, "options: {}"), args: []string{"-d"}, want: "resource name leads out of the bundle: \"../cm.yaml\"\n",
		},
		"manifest that is not YAML": {
			text: file(t, map[string]string{"cm.yaml": "a: ["}, "options: {}"), args: []string{"-d"}, want: "error while running post render on files: cm.yaml: YAML parse error in document 1: ",
		},
		"object without a name": {
			text: file(t, map[string]string{"cm.yaml": "apiVersion: v1\nkind: ConfigMap\n"}, "options: {}"), args: []string{"-d"},
			want: "YAML parse error: an object of kind ConfigMap has no name, or a name that YAML does not read as text (y, no, 1 …): put it in quotes\n",
		},
		"object whose name the server would choose": {
			text: file(t, map[string]string{"cm.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: a-}\n"}, "options: {}"), args: []string{"-d"},
			want: "YAML parse error: an object of kind ConfigMap has metadata.generateName, but objects of a bundle need metadata.name\n",
		},
		"cluster-scoped object under a namespace": {
			text: file(t, map[string]string{"r.yaml": role}, "options: {namespace: web}"), args: []string{"-d"},
			want: "error while running post render on files: invalid cluster scoped object [name=a kind=ClusterRole apiVersion=rbac.authorization.k8s.io/v1]",
		},
		"template that fails": {
			text: file(t, map[string]string{"Chart.yaml": "apiVersion: v2\nname: web\nversion: 0.1.0\n", "templates/a.yaml": `{{ fail "never" }}`}, "options: {}"), args: []string{"-d"},
			want: "execution error at (web/templates/a.yaml:1:3): never\n",
		},
		"chart for another version of Kubernetes": {
			text: file(t, map[string]string{"Chart.yaml": "apiVersion: v2\nname: web\nversion: 0.1.0\nkubeVersion: '>=1.30'\n"}, "options: {}"), args: []string{"-d"},
			want: "chart requires kubeVersion: >=1.30 which is incompatible with Kubernetes v1.25.0\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := run(t, test.text, test.args...)
			if got.Code != exit.Failed || got.Stdout != "" || !strings.HasPrefix(got.Stderr, "2026/05/04 12:00:00 "+test.want) {
				t.Errorf("%s; want %q", got, test.want)
			}
		})
	}
}

func TestWithoutFile_PrintsTheHelp(t *testing.T) {
	got := run(t, "", "-d")
	if got.Code != exit.Done || !strings.Contains(got.Stdout, "--input-file") || got.Stderr != "" {
		t.Error(got)
	}
}

// expectSame fails unless two attempts to render a file give the same.
func expectSame(t *testing.T, text []byte) {
	t.Helper()
	attempt := func() string {
		content, deployment, err := bundlefile.ParseDeployment(text)
		if err != nil {
			return err.Error()
		}
		rendered, err := render(t.Context(), input{
			content: content, deployment: deployment, namespace: "default", kubernetes: chartutil.DefaultCapabilities.KubeVersion,
		})
		if err != nil {
			return "an error" // Helm names any of several templates
		}
		out, err := yaml.Marshal(rendered.objects)
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	if first, second := attempt(), attempt(); first != second {
		t.Errorf("first:\n%s\nsecond:\n%s", first, second)
	}
}

func FuzzFile(f *testing.F) {
	f.Add([]byte(file(f, map[string]string{"cm.yaml": configMap}, "options: {defaultNamespace: web}")))
	f.Add([]byte("---\n{}\n---\n[1]"))
	f.Fuzz(func(t *testing.T, text []byte) { expectSame(t, text) })
}

// FuzzBundle has one file beside a chart, and any options. No file leads out of the Bundle.
func FuzzBundle(f *testing.F) {
	for name, text := range chartFiles() {
		f.Add(name, text, "options: {helm: {values: {replicas: 3}}}")
	}
	f.Add("kustomization.yaml", "namePrefix: k-\nresources: [../../etc/passwd]\n", "options: {kustomize: {dir: ''}, namespace: web}")
	f.Add("overlays/o/cm_patch.yaml", "data: {a: b}\n", "options: {yaml: {overlays: [o]}, helm: {chart: ../x}}")
	f.Fuzz(func(t *testing.T, name, text, spec string) {
		files := map[string]string{"Chart.yaml": chartFiles()["Chart.yaml"], "cm.yaml": configMap}
		files[name] = text
		expectSame(t, []byte(file(t, files, spec)))
	})
}
