package target

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/fleet-hub/fleet/e2e/framework/golden"
	"github.com/fleet-hub/fleet/internal/cmd/cli/bundlefile"
	"github.com/fleet-hub/fleet/internal/cmd/cli/clitest"
	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
	"github.com/fleet-hub/fleet/internal/rules/delivery"
	"github.com/fleet-hub/fleet/internal/rules/targeting"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

const header = "apiVersion: fleet.cattle.io/v1alpha1\nkind: Bundle\nmetadata: {name: web, namespace: elsewhere}\n"

const toAll = header + `spec:
  helm: {values: {size: "${ .ClusterLabels.size }"}}
  targets: [{clusterSelector: {}}]
`

func cluster(namespace, name string, labels map[string]string) *fleet.Cluster {
	c := &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}}
	c.Status.Namespace = "cluster-" + name
	return c
}

func group(name string) *fleet.ClusterGroup {
	g := &fleet.ClusterGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: name}}
	g.Spec.Selector = &metav1.LabelSelector{}
	return g
}

// clusters are two clusters that a Bundle can be deployed to, and one that has no namespace yet.
func clusters() []runtime.Object {
	fresh := cluster("ws", "c", map[string]string{"size": "1"})
	fresh.Status.Namespace = ""
	return []runtime.Object{
		cluster("ws", "a", map[string]string{"size": "1"}), cluster("ws", "b", map[string]string{"size": "2"}), fresh,
		cluster("other", "d", map[string]string{"size": "4"}), group("all"),
	}
}

// run calls the command in the workspace ws, with the text as file if it is not empty.
func run(t testing.TB, server *clitest.Server, text string, args ...string) clitest.Called {
	t.Helper()
	if text != "" {
		path := filepath.Join(t.TempDir(), "bundle.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, "-b", path)
	}
	command := func(streams genericiooptions.IOStreams) *cobra.Command {
		return New(streams, clitest.Noon, func(string) string { return "" })
	}
	got := clitest.Call(t.Context(), command, append([]string{"-n", "ws", "--kubeconfig", server.Kubeconfig}, args...)...)
	got.Stderr = strings.NewReplacer(server.URL, "https://hub.example", " --kubeconfig "+server.Kubeconfig, "").Replace(got.Stderr)
	return got
}

func TestTarget_MatchesTheGoldens(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		args []string
	}{
		"all":             {toAll, nil},
		"inputs":          {toAll, []string{"-l"}},
		"paused":          {strings.Replace(toAll, "spec:", "spec:\n  paused: true", 1), nil},
		"a-cluster-fails": {strings.Replace(toAll, "${ .ClusterLabels.size }", "${ if eq .ClusterLabels.size `2` }${ fail `no size 2` }${ end }", 1), nil},
		"no-target":       {strings.Replace(toAll, "clusterSelector: {}", "clusterName: z", 1), nil},
		"unknown-group":   {strings.Replace(toAll, "clusterSelector: {}", "clusterGroup: z", 1), nil},
	} {
		t.Run(name, func(t *testing.T) {
			server := clitest.Start(t, clusters()...)
			golden.Expect(t, name+".golden", run(t, server, test.text, test.args...).String())
			if writes := server.Writes(); len(writes) > 0 {
				t.Errorf("requests that write: %v", writes)
			}
		})
	}
}

func TestMistakes_HaveAMessageAndExitCode1(t *testing.T) {
	const list = "GET /apis/fleet.cattle.io/v1alpha1/namespaces/ws/"
	for name, test := range map[string]struct {
		text, refused string
		args          []string
		want          string
	}{
		"missing file": {args: []string{"-b", "/no/such/file"}, want: "reading file: open /no/such/file: no such file or directory\n"},
		"empty file":   {text: "# nothing\n", want: "failed to read bundle from file, bundle is empty\n"},
		"another kind": {
			text: "apiVersion: v1\nkind: Secret\n",
			want: "the file contains no Bundle (fleet.cattle.io/v1alpha1), but a Secret (v1)\n",
		},
		"kind with control characters": {
			text: "apiVersion: v1\nkind: \"\\e[31mred\"\n",
			want: "the file contains no Bundle (fleet.cattle.io/v1alpha1), but a  [31mred (v1)\n",
		},
		"Bundle of a HelmOp": {
			text: header + "spec: {helmOpOptions: {}}\n",
			want: "targeting error: helmOpOptions: charts fetched by the agents are not supported; put the chart into spec.resources\n",
		},
		"invalid selector": {
			text: header + "spec: {targets: [{clusterSelector: {matchExpressions: [{key: a, operator: Resembles}]}}]}\n",
			want: "targeting error: spec.targets[0]: clusterSelector: invalid label selector: \"Resembles\" is not a valid label selector operator\n",
		},
		"invalid rollout": {
			text: header + "spec: {rolloutStrategy: {maxUnavailable: many}, targets: [{clusterSelector: {}}]}\n",
			want: "rollout error: spec.rolloutStrategy.maxUnavailable: ",
		},
		"values are on the hub, but not there": {
			text: header + "spec: {valuesHash: abc}\n",
			want: "Secret ws/web of type fleet.cattle.io/bundle-values/v1alpha1 with the values of the Bundle (spec.valuesHash) does not exist\n" +
				"fix: to print Bundles with their values: fleet apply -o - BUNDLE_NAME PATH\n",
		},
		"unknown flag":        {args: []string{"--no-such"}, want: "unknown flag: --no-such\nfix: target --help\n"},
		"unexpected argument": {args: []string{"bundle.yaml"}, want: "unexpected argument \"bundle.yaml\"\nfix: target --help\n"},
		"no kubeconfig":       {text: toAll, args: []string{"--kubeconfig", "/no/such/file"}, want: "reading the kubeconfig: "},
		"hub that does not answer": {
			text: toAll, args: []string{"--kubeconfig", unreachable(t)},
			want: "listing BundleNamespaceMappings in namespace ws: the API server cannot be reached: ",
		},
		"no right to list Clusters": {
			text: toAll, refused: list + "clusters",
			want: "listing Clusters in namespace ws: refused by the test\n" +
				"fix: get the right that the message names, or use --context of a user who has it\n",
		},
		"no right to list ClusterGroups": {text: toAll, refused: list + "clustergroups", want: "listing ClusterGroups in namespace ws: refused by the test\n"},
		"no right to list mappings":      {text: toAll, refused: list + "bundlenamespacemappings", want: "listing BundleNamespaceMappings in namespace ws: refused by the test\n"},
		"no right to read the values": {
			text: header + "spec: {valuesHash: abc}\n", refused: "GET /api/v1/namespaces/ws/secrets/web",
			want: "reading Secret ws/web with the values of the Bundle: refused by the test\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := clitest.Start(t, clusters()...)
			if test.refused != "" {
				server.Refuse(test.refused, http.StatusForbidden)
			}
			got := run(t, server, test.text, test.args...)
			if got.Code != exit.Failed || got.Stdout != "" || !strings.HasPrefix(got.Stderr, "2026/05/04 12:00:00 "+test.want) {
				t.Errorf("%s; want %q", got, test.want)
			}
		})
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

func TestWithoutFile_PrintsTheHelp(t *testing.T) {
	got := run(t, clitest.Start(t), "")
	if got.Code != exit.Done || !strings.Contains(got.Stdout, "--bundle-file") || got.Stderr != "" {
		t.Error(got)
	}
}

func TestFailureAsJSON_IsOneLineForJobs(t *testing.T) {
	got := clitest.Call(t.Context(), func(streams genericiooptions.IOStreams) *cobra.Command {
		return New(streams, clitest.Noon, func(string) string { return "true" })
	}, "-b", "/no/such/file")
	if want := `"fleetErrorMessage":"reading file: open /no/such/file: no such file or directory"}`; got.Code != exit.Failed || !strings.Contains(got.Stderr, want) {
		t.Error(got)
	}
}

// A Bundle from the hub has the hash of its values. The values are in a Secret.
func TestValuesInASecret_ArePartOfTheDeployments(t *testing.T) {
	data := map[string][]byte{delivery.KeyBundleValues: []byte(`{"size":"from the Secret"}`)}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "web"}, Type: fleet.SecretTypeBundleValues, Data: data}
	text := header + "spec: {valuesHash: \"" + delivery.BundleValuesHash(data) + "\", targets: [{clusterName: a}]}\n"
	got := run(t, clitest.Start(t, append(clusters(), secret)...), text)
	if got.Code != exit.Done || strings.Count(got.Stdout, "size: from the Secret") != 2 || strings.Contains(got.Stdout, "valuesHash") {
		t.Error(got)
	}
	secret.Data[delivery.KeyBundleValues] = []byte(`{}`)
	if got := run(t, clitest.Start(t, append(clusters(), secret)...), text); got.Code != exit.Failed || !strings.Contains(got.Stderr, "hash mismatch") {
		t.Error(got)
	}
}

// A mapping brings Clusters of other namespaces within reach. Only then are Namespaces read.
func TestMapping_LeadsToClustersOfOtherNamespaces(t *testing.T) {
	mapping := &fleet.BundleNamespaceMapping{
		ObjectMeta:     metav1.ObjectMeta{Namespace: "ws", Name: "m"},
		BundleSelector: &metav1.LabelSelector{}, NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"mapped": "yes"}},
	}
	other := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other", Labels: map[string]string{"mapped": "yes"}}}
	server := clitest.Start(t, append(clusters(), mapping, other)...)
	if got := run(t, server, toAll); got.Code != exit.Done || !strings.Contains(got.Stdout, "namespace: cluster-d\n") {
		t.Error(got)
	}
	server.Refuse("GET /api/v1/namespaces", http.StatusForbidden)
	got := run(t, server, toAll)
	if got.Code != exit.Failed || !strings.Contains(got.Stderr, "listing Namespaces, because a BundleNamespaceMapping selects the Bundle: refused by the test") {
		t.Error(got)
	}
	server.Delete(mapping)
	if got := run(t, server, toAll); got.Code != exit.Done || strings.Contains(got.Stdout, "cluster-d") {
		t.Error(got)
	}
}

func TestManyFailures_AreCutInTheMessage(t *testing.T) {
	objects := make([]runtime.Object, 0, 15)
	for i := range 15 {
		objects = append(objects, cluster("ws", fmt.Sprintf("c%02d", i), map[string]string{"size": "1"}))
	}
	got := run(t, clitest.Start(t, objects...), strings.Replace(toAll, "${ .ClusterLabels.size }", "${ fail `never` }", 1))
	if got.Code != exit.Failed || strings.Count(got.Stderr, "fail: never") != maxFailures || !strings.Contains(got.Stderr, "; and 5 more clusters\n") {
		t.Error(got)
	}
}

// Any text is an error or gives the same objects twice, which the verb deploy can read.
func FuzzBundle(f *testing.F) {
	f.Add([]byte(toAll))
	f.Add([]byte(header + "spec: {targets: [{clusterGroup: all}], targetRestrictions: [{clusterGroup: all}]}"))
	f.Add([]byte(header + "spec: {resources: [{name: a, content: \"{}\"}], rolloutStrategy: {maxUnavailable: 1}}"))
	f.Add([]byte("{}"))
	f.Add([]byte("a: &a [*a]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		bundle, err := bundlefile.ParseBundle(text)
		if err != nil {
			return
		}
		bundle.Namespace = "ws"
		attempt := func() (string, int) {
			in := newInput(bundle)
			in.Clusters, in.Groups = []*fleet.Cluster{cluster("ws", "a", map[string]string{"size": "1"})}, targeting.NewGroups([]*fleet.ClusterGroup{group("all")})
			result, err := decide(in)
			if err != nil {
				return err.Error(), 0
			}
			var out bytes.Buffer
			if err := export(&out, result.objects...); err != nil {
				t.Fatal(err)
			}
			return out.String(), len(result.objects)
		}
		first, count := attempt()
		second, _ := attempt()
		if diff := cmp.Diff(first, second); diff != "" {
			t.Errorf("the second time (-first +second):\n%s", diff)
		}
		if count == 2 {
			if _, _, err := bundlefile.ParseDeployment([]byte(first)); err != nil {
				t.Errorf("the result cannot be read: %v\n%s", err, first)
			}
		}
	})
}
