package diff

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/yaml"

	"github.com/fleet-hub/fleet/e2e/framework/golden"
	"github.com/fleet-hub/fleet/internal/cmd/cli/clitest"
	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func modified(name, patch string) fleet.ModifiedStatus {
	return fleet.ModifiedStatus{APIVersion: "v1", Kind: "Service", Namespace: "web", Name: name, Patch: patch}
}

func deployment(workspace, cluster, bundle string, changes ...func(*fleet.BundleDeploymentStatus)) *fleet.BundleDeployment {
	bd := &fleet.BundleDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "cluster-" + cluster, Name: bundle, Labels: map[string]string{
		fleet.LabelBundleName: bundle, fleet.LabelBundleNamespace: workspace,
	}}}
	for _, change := range changes {
		change(&bd.Status)
	}
	return bd
}

func isModified(s *fleet.BundleDeploymentStatus) {
	s.ModifiedStatus = append(s.ModifiedStatus, modified("web", `{"spec":{"type":"<none>","port":9007199254740993}}`), modified("cut", `{"spec":{"ty`))
	s.IncompleteState = true
}

func isNotReady(s *fleet.BundleDeploymentStatus) {
	s.NonReadyStatus = append(s.NonReadyStatus,
		fleet.NonReadyStatus{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "web", Name: "a", Summary: fleet.ResourceSummary{State: "unavailable", Error: true, Message: []string{"no pods"}}},
		fleet.NonReadyStatus{APIVersion: "v1", Kind: "Node", Name: "b", Summary: fleet.ResourceSummary{State: "paused"}})
}

// isHostile has texts that would control a terminal or add lines.
func isHostile(s *fleet.BundleDeploymentStatus) {
	s.ModifiedStatus = append(s.ModifiedStatus, modified("\x1b[31mred\nStatus: fine", "{\"a\u202eb\":\"\u009b31m\"}"), modified(strings.Repeat("long", 1000), "\x1b[2J"))
	s.NonReadyStatus = append(s.NonReadyStatus, fleet.NonReadyStatus{Kind: "K", Summary: fleet.ResourceSummary{State: "\x1b[0m\r"}})
}

// hub has two Bundles of the name web, one BundleDeployment without differences, and one without labels.
func hub() []runtime.Object {
	bundle := &fleet.Bundle{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "web"}}
	bundle.Spec.Diff = &fleet.DiffOptions{ComparePatches: []fleet.ComparePatch{{APIVersion: "v1", Kind: "Service", Namespace: "web", Name: "web", JSONPointers: []string{"/spec/x"}}}}
	unlabelled := deployment("", "d", "alone", isNotReady)
	unlabelled.Labels = nil
	return []runtime.Object{
		bundle, &fleet.Bundle{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "db"}},
		deployment("ws", "a", "web", isModified, isNotReady), deployment("ws", "b", "web", isNotReady), deployment("ws", "c", "web"),
		deployment("other", "e", "web", isModified), deployment("ws", "b", "db", isModified), deployment("ws", "a", "fine"),
		deployment("ws", "f", "gone", isModified), unlabelled,
	}
}

func run(t testing.TB, server *clitest.Server, args ...string) clitest.Called {
	t.Helper()
	command := func(streams genericiooptions.IOStreams) *cobra.Command {
		return New(streams, clitest.Noon, func(string) string { return "" })
	}
	got := clitest.Call(t.Context(), command, append([]string{"--kubeconfig", server.Kubeconfig}, args...)...)
	got.Stderr = strings.ReplaceAll(got.Stderr, " --kubeconfig "+server.Kubeconfig, "")
	return got
}

func TestEveryForm_MatchesTheGoldens(t *testing.T) {
	server := clitest.Start(t, hub()...)
	for name, args := range map[string]string{
		"all":               "",
		"all-json":          "--json",
		"a-namespace":       "-n cluster-b",
		"a-bundle":          "-b ws/web",
		"a-bundle-json":     "--bundle ws/web --json",
		"only-one-json":     "-b db --json",
		"one":               "--bundle-deployment cluster-a/web",
		"one-json":          "--bundle-deployment web -n cluster-a --json",
		"one-not-ready":     "--bundle-deployment cluster-b/web -A",
		"snippet":           "--bundle-deployment cluster-a/web --fleet-yaml",
		"snippet-not-ready": "--bundle-deployment cluster-b/web --fleet-yaml",
		"snippet-no-bundle": "--bundle-deployment cluster-f/gone --fleet-yaml",
		"none-json":         "--bundle fine --json",
		"none":              "-n cluster-c",
		"none-at-all":       "-b fine",
		"none-all-json":     "-n cluster-c --json",
	} {
		t.Run(name, func(t *testing.T) { golden.Expect(t, name+".golden", run(t, server, strings.Fields(args)...).String()) })
	}
	if writes := server.Writes(); len(writes) > 0 {
		t.Errorf("requests that write: %v", writes)
	}
}

func TestMistakes_HaveAMessageAndExitCode1(t *testing.T) {
	const group = "/apis/fleet.cattle.io/v1alpha1/"
	for name, test := range map[string]struct {
		args, refused string
		code          int
		want          string
	}{
		"two forms":                            {args: "--json --fleet-yaml", want: "cannot specify both --json and --fleet-yaml\n"},
		"a snippet of several":                 {args: "--fleet-yaml", want: "--fleet-yaml needs --bundle-deployment\n"},
		"no such BundleDeployment":             {args: "--bundle-deployment none", want: "failed to find bundle deployment none\n"},
		"no such BundleDeployment there":       {args: "--bundle-deployment web -n cluster-z", want: "failed to find bundle deployment web\n"},
		"BundleDeployment of another Bundle":   {args: "--bundle-deployment cluster-a/web -b db", want: "failed to find bundle deployment cluster-a/web\n"},
		"BundleDeployment without differences": {args: "--bundle-deployment cluster-c/web", want: "warning: BundleDeployment cluster-c/web has no resources that are modified or not ready\n2026/05/04 12:00:00 failed to find bundle deployment cluster-c/web\n"},
		"several BundleDeployments": {
			args: "--bundle-deployment web",
			want: "warning: BundleDeployment cluster-",
		},
		"several Bundles as one JSON": {args: "-b web --json", want: "warning: BundleDeployment cluster-"},
		"unknown flag":                {args: "--no-such", want: "unknown flag: --no-such\nfix: bundlediff --help\n"},
		"unexpected argument":         {args: "web", want: "unexpected argument \"web\"\nfix: bundlediff --help\n"},
		"no kubeconfig":               {args: "--kubeconfig /no/such/file", want: "reading the kubeconfig: "},
		"unreachable hub":             {args: "--kubeconfig UNREACHABLE", want: "listing BundleDeployments in all namespaces: the API server cannot be reached: "},
		"not a hub":                   {refused: "GET " + group + "bundledeployments", code: http.StatusNotFound, want: "listing BundleDeployments in all namespaces: this cluster is not a hub"},
		"no right to list": {
			refused: "GET " + group + "bundledeployments", code: http.StatusForbidden,
			want: "listing BundleDeployments in all namespaces: refused by the test\nfix: get the right that the message names, or use --context of a user who has it\n",
		},
		"no right to list in a namespace": {
			args: "-n cluster-a", refused: "GET " + group + "namespaces/cluster-a/bundledeployments", code: http.StatusForbidden,
			want: "listing BundleDeployments in namespace cluster-a: refused by the test\n",
		},
		"no right to read": {
			args: "--bundle-deployment cluster-a/web", refused: "GET " + group + "namespaces/cluster-a/bundledeployments/web", code: http.StatusForbidden,
			want: "reading BundleDeployment cluster-a/web: refused by the test\n",
		},
		"no right to read the Bundle": {
			args: "--bundle-deployment cluster-b/db --fleet-yaml", refused: "GET " + group + "namespaces/ws/bundles/db", code: http.StatusForbidden,
			want: "warning: BundleDeployment cluster-b/db has more resources that are modified or not ready than its agent reports\n2026/05/04 12:00:00 reading Bundle ws/db: refused by the test\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := clitest.Start(t, hub()...)
			if test.refused != "" {
				server.Refuse(test.refused, test.code)
			}
			got := run(t, server, strings.Fields(strings.ReplaceAll(test.args, "UNREACHABLE", unreachable(t)))...)
			if got.Code != exit.Failed || got.Stdout != "" || !strings.HasPrefix(got.Stderr, "2026/05/04 12:00:00 "+test.want) {
				t.Errorf("%s; want %q", got, test.want)
			}
		})
	}
}

func TestAmbiguousNames_AreListedWithACommandThatSelectsOne(t *testing.T) {
	server := clitest.Start(t, hub()...)
	for args, want := range map[string]string{
		"--bundle-deployment web": "3 BundleDeployments have the name web, in the namespaces cluster-e, cluster-a, cluster-b\n" +
			"fix: fleet bundlediff --bundle-deployment cluster-e/web\n",
		"-b web --json": "2 Bundles have the name web, in the namespaces other, ws\nfix: fleet bundlediff --bundle other/web --json\n",
	} {
		if got := run(t, server, strings.Fields(args)...); got.Code != exit.Failed || got.Stdout != "" || !strings.HasSuffix(got.Stderr, want) {
			t.Errorf("%s: %s", args, got)
		}
	}
	got := several("Bundles", "web", strings.Fields(strings.Repeat("a ", 12))).Error()
	if want := "12 Bundles have the name web, in the namespaces " + strings.Repeat("a, ", 10) + "and 2 more"; got != want {
		t.Errorf("twelve names: %s", got)
	}
}

// unreachable returns a kubeconfig for a server that does not answer.
func unreachable(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := "apiVersion: v1\nkind: Config\ncurrent-context: hub\ncontexts: [{name: hub, context: {cluster: hub}}]\n" +
		"clusters: [{name: hub, cluster: {server: \"http://127.0.0.1:1\"}}]\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Texts of a cluster neither control the terminal nor add lines, in any form.
func TestHostileStatus_IsPrintedAsPlainText(t *testing.T) {
	server := clitest.Start(t, deployment("ws", "a", "web", isHostile))
	for _, args := range []string{"", "--json", "--bundle-deployment web", "--bundle-deployment web --fleet-yaml"} {
		got := run(t, server, strings.Fields(args)...)
		if got.Code != exit.Done || strings.ContainsAny(got.String(), "\x1b\r\u009b\u202e") || strings.Contains(got.String(), "\nStatus: fine") {
			t.Errorf("%q: %q", args, got)
		}
	}
	for line := range strings.Lines(run(t, server).Stdout) {
		if len(line) > maxLine+30 {
			t.Errorf("a line has %d bytes", len(line))
		}
	}
}

func TestPlain_KeepsTheValueOfJSON(t *testing.T) {
	for _, text := range []string{"a\u202eb", "\u009b31m", "\x7f", "\U000e0001", "\u2028", "ünprintable: 語"} {
		document, err := json.MarshalIndent(map[string]string{"text": text}, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		got, again := plain(string(document)), map[string]string{}
		if err := json.Unmarshal([]byte(got), &again); err != nil || again["text"] != text {
			t.Errorf("%q became %q (%v)", text, again["text"], err)
		}
		if !isPlain(strings.ReplaceAll(got, "\n", "")) {
			t.Errorf("%q is not plain", got)
		}
	}
}

func TestSnippet(t *testing.T) {
	own := fleet.ComparePatch{APIVersion: "v1", Kind: "Service", Namespace: "web", Name: "web"}
	with := func(operations ...fleet.Operation) fleet.ComparePatch {
		patch := own
		patch.Operations = operations
		return patch
	}
	remove := func(path string) fleet.Operation { return fleet.Operation{Op: "remove", Path: path} }
	for name, test := range map[string]struct {
		own      []fleet.ComparePatch
		patches  []string
		want     []fleet.ComparePatch
		warnings []string
	}{
		"nothing": {want: []fleet.ComparePatch{}},
		"each leaf is one operation": {
			patches: []string{`{"b":{"d":1,"c":[{"e":1}]},"a":null,"f":{},"g/~":{"":true}}`},
			want:    []fleet.ComparePatch{with(remove("/a"), remove("/b/c"), remove("/b/d"), remove("/f"), remove("/g~1~0/"))},
		},
		"an empty patch has no operation":               {patches: []string{`{}`}, want: []fleet.ComparePatch{own}},
		"own operations come first and are not doubled": {own: []fleet.ComparePatch{with(remove("/z"), remove("/a"))}, patches: []string{`{"a":1,"b":1}`}, want: []fleet.ComparePatch{with(remove("/z"), remove("/a"), remove("/b"))}},
		"own entries of one resource are joined":        {own: []fleet.ComparePatch{with(remove("/z")), with(remove("/a"))}, want: []fleet.ComparePatch{with(remove("/z"), remove("/a"))}},
		"own entries of others stay": {
			own: []fleet.ComparePatch{{Kind: "Z", JSONPointers: []string{"/x"}}, {Kind: "A"}}, patches: []string{`{"a":1}`},
			want: []fleet.ComparePatch{{Kind: "A"}, {Kind: "Z", JSONPointers: []string{"/x"}}, with(remove("/a"))},
		},
		"patches that are not objects are left out": {
			patches: []string{`{"a":`, `[1]`, `{}{}`, "{\"a\u202eb\":1}"}, want: []fleet.ComparePatch{},
			warnings: []string{
				"the patch of service.v1 web/web is left out: it is not valid JSON, perhaps because it was cut",
				"the patch of service.v1 web/web is left out: it is not a JSON object",
				"the patch of service.v1 web/web is left out: it is more than one JSON document",
				"the patch of service.v1 web/web is left out: a name in it has characters that are not printable",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var statuses []fleet.ModifiedStatus
			for _, patch := range test.patches {
				statuses = append(statuses, modified("web", patch))
			}
			statuses = append(statuses, fleet.ModifiedStatus{Kind: "Missing", Missing: true, Patch: `{"a":1}`}, fleet.ModifiedStatus{Kind: "Extra", Delete: true, Patch: `{"a":1}`})
			got, warnings := snippet(test.own, statuses)
			if diff := cmp.Diff(test.want, got.Diff.ComparePatches); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.warnings, warnings); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

// Each path leads to a leaf of the patch, and no path occurs twice.
func FuzzRemovals(f *testing.F) {
	f.Add(`{"b":{"d":1,"c":[{"e":1}]},"a":null,"f":{},"g/~":{"":true}}`)
	f.Add(`[1]`)
	f.Add(`{"a":1,"a":{"b":2}}`)
	f.Fuzz(func(t *testing.T, patch string) {
		operations, err := removals(patch)
		if err != nil {
			return
		}
		var decoded any
		if err := json.Unmarshal([]byte(patch), &decoded); err != nil && !strings.Contains(err.Error(), "number") {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for _, operation := range operations {
			if seen[operation.Path] {
				t.Errorf("%s occurs twice", operation.Path)
			}
			seen[operation.Path] = true
			value := decoded
			for _, part := range strings.Split(operation.Path, "/")[1:] {
				fields, _ := value.(map[string]any)
				found, exists := fields[strings.NewReplacer("~1", "/", "~0", "~").Replace(part)]
				if !exists {
					t.Fatalf("%s does not lead to a field", operation.Path)
				}
				value = found
			}
			if fields, isObject := value.(map[string]any); isObject && len(fields) > 0 {
				t.Errorf("%s is not a leaf", operation.Path)
			}
		}
		if _, err := yaml.Marshal(operations); err != nil {
			t.Error(err)
		}
		_ = patchText(patch)
	})
}
