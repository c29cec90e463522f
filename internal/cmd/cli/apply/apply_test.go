package apply_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/cmd/cli/clitest"
	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
	"github.com/fleet-hub/fleet/internal/cmd/cli/recordedtest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

const configMap = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"

// folder makes a folder with these files. A content that begins with "-> " makes a symbolic link.
func folder(t testing.TB, files map[string]string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if to, isLink := strings.CutPrefix(text, "-> "); isLink {
			err = os.Symlink(to, path)
		} else {
			err = os.WriteFile(path, []byte(text), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// apply runs the command in a folder.
func apply(t *testing.T, dir string, environment map[string]string, args ...string) recordedtest.Result {
	t.Helper()
	return recordedtest.Run(t, dir, append([]string{"fleet", "apply"}, args...), environment)
}

// write runs the command against a hub. The name of the Bundles is demo.
func write(t *testing.T, hub *clitest.Server, dir string, args ...string) recordedtest.Result {
	t.Helper()
	args = append([]string{"--kubeconfig", hub.Kubeconfig, "-n", "ws", "-l", "fleet.cattle.io/repo-name=demo", "demo", "."}, args...)
	return apply(t, dir, nil, args...)
}

func bundleOf(name, repository string) *fleet.Bundle {
	return &fleet.Bundle{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: name, Labels: map[string]string{fleet.LabelRepoName: repository}}}
}

func secretOf(name string, kind corev1.SecretType) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: name}, Type: kind, Data: map[string][]byte{"kept": []byte("1")}}
}

func TestSecondApply_WritesNothing(t *testing.T) {
	hub := clitest.Start(t)
	dir := folder(t, map[string]string{
		"plain/cm.yaml": configMap, "plain/fleet.yaml": "{}",
		"chart/Chart.yaml": "apiVersion: v2\nname: web\nversion: 1.0.0\n", "chart/v.yaml": "a: 1\n",
		"chart/fleet.yaml": "labels: {team: a}\nannotations: {x: z}\nhelm: {chart: ., valuesFiles: [v.yaml], values: {big: 9007199254740993}}\n" +
			"targetCustomizations: [{name: t, helm: {values: {b: 2}}}]\n",
		"scan/cm.yaml": configMap, "scan/fleet.yaml": "imageScans: [{image: web, tagName: web, interval: 5m}]\n",
	})
	first := write(t, hub, dir, "--imagescan-enabled", "--commit", "abc")
	if first.Code != exit.Done || len(hub.Writes()) != 5 {
		t.Fatalf("code %d, writes %q, standard error:\n%s", first.Code, hub.Writes(), first.Stderr)
	}
	second := write(t, hub, dir, "--imagescan-enabled", "--commit", "abc")
	if writes := hub.Writes()[5:]; second.Code != exit.Done || len(writes) > 0 {
		t.Errorf("code %d, writes %q, standard error:\n%s", second.Code, writes, second.Stderr)
	}
	// Only what has changed is written.
	if err := os.WriteFile(filepath.Join(dir, "chart/v.yaml"), []byte("a: 2\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	write(t, hub, dir, "--imagescan-enabled", "--commit", "abc")
	want := []string{"PUT /apis/fleet.cattle.io/v1alpha1/namespaces/ws/bundles/demo-chart", "PUT /api/v1/namespaces/ws/secrets/demo-chart"}
	if writes := hub.Writes()[5:]; !slices.Equal(writes, want) {
		t.Errorf("writes %q", writes)
	}
}

func TestPruning_DeletesOnlyWhatCallsOfTheSameNameHaveMade(t *testing.T) {
	hub := clitest.Start(t,
		bundleOf("demo-old", "demo"), bundleOf("demo-other", "other"), bundleOf("demo-none", ""), secretOf("demo-old", corev1.SecretTypeOpaque))
	dir := folder(t, map[string]string{"cm.yaml": configMap, "fleet.yaml": "imageScans: [{image: a, tagName: a}, {image: b, tagName: b}]\n"})
	if got := write(t, hub, dir, "--imagescan-enabled"); got.Code != exit.Done {
		t.Fatal(got.Stderr)
	}
	for name, want := range map[string]bool{"demo": true, "demo-old": false, "demo-other": true, "demo-none": true} {
		if got := hub.Get(bundleOf(name, "")); (got != nil) != want {
			t.Errorf("Bundle %s: %v, want %v", name, got != nil, want)
		}
	}
	if hub.Get(secretOf("demo-old", "")) == nil {
		t.Error("the Secret with the name of a deleted Bundle is gone")
	}
	// An ImageScan that is gone from fleet.yaml is deleted.
	if err := os.WriteFile(filepath.Join(dir, "fleet.yaml"), []byte("imageScans: [{image: a, tagName: a}]\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	before := len(hub.Writes())
	write(t, hub, dir, "--imagescan-enabled")
	want := []string{"DELETE /apis/fleet.cattle.io/v1alpha1/namespaces/ws/imagescans/imagescan-demo-1"}
	if writes := hub.Writes()[before:]; !slices.Equal(writes, want) {
		t.Errorf("writes %q", writes)
	}
	// Without the right to list them, ImageScans stay.
	hub.Refuse("GET /apis/fleet.cattle.io/v1alpha1/namespaces/ws/imagescans", http.StatusForbidden)
	if got := write(t, hub, dir, "--imagescan-enabled"); got.Code != exit.Done {
		t.Error(got.Stderr)
	}
}

func TestNothingIsPruned_IfABundleCannotBeWritten(t *testing.T) {
	large := "x: " + strings.Repeat("y", 7<<20) + "\n"
	values := "helm:\n  chart: .\n  values: {text: " + strings.Repeat("z", 1<<20) + "}\n"
	noise := make([]byte, 2<<20) // does not compress
	for i, state := 0, uint32(1); i < len(noise); i++ {
		state = state*1664525 + 1013904223
		noise[i] = byte(state >> 24)
	}
	for name, test := range map[string]struct {
		files   map[string]string
		objects []*corev1.Secret
		refuse  string // a request that the store refuses because of its size
		want    string
		// wrote is set if the other Bundle is written nevertheless.
		wrote bool
	}{
		"Bundle that no API server accepts": {
			map[string]string{"bad/cm.yaml": string(noise), "bad/other": string(noise), "bad/fleet.yaml": "{}"}, nil, "",
			"Bundle demo-bad has ", true,
		},
		"Bundle that the store refuses": {
			map[string]string{"bad/cm.yaml": string(noise[:1<<20+1<<19]), "bad/fleet.yaml": "{}"}, nil,
			"POST /apis/fleet.cattle.io/v1alpha1/namespaces/ws/bundles", "the largest files are cm.yaml (", false,
		},
		"values that no Secret can contain": {
			map[string]string{"bad/cm.yaml": configMap, "bad/fleet.yaml": values}, nil, "", "the Helm values of Bundle demo-bad have 1025 KiB", true,
		},
		"Secret of another type": {
			map[string]string{"bad/cm.yaml": configMap, "bad/fleet.yaml": "helm: {values: {a: 1}}"},
			[]*corev1.Secret{secretOf("demo-bad", corev1.SecretTypeBasicAuth)}, "", "Secret ws/demo-bad of type kubernetes.io/basic-auth has the name of the Bundle", true,
		},
		"file that fits only compressed": {map[string]string{"bad/cm.yaml": large, "bad/fleet.yaml": "{}"}, nil, "", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			hub := clitest.Start(t, bundleOf("demo-old", "demo"))
			for _, secret := range test.objects {
				hub.Put(secret)
			}
			if test.refuse != "" {
				hub.Refuse(test.refuse, http.StatusRequestEntityTooLarge)
			}
			test.files["good/cm.yaml"], test.files["good/fleet.yaml"] = configMap, "{}"
			got := write(t, hub, folder(t, test.files))
			if (got.Code == exit.Done) != (test.want == "") || !strings.Contains(got.Stderr, test.want) {
				t.Errorf("code %d, standard error:\n%.1000s", got.Code, got.Stderr)
			}
			if pruned := hub.Get(bundleOf("demo-old", "")) == nil; pruned != (test.want == "") {
				t.Errorf("pruned: %v", pruned)
			}
			if wrote := hub.Get(bundleOf("demo-good", "")) != nil; wrote != test.wrote {
				t.Errorf("the other Bundle is written: %v", wrote)
			}
			if bad := hub.Get(bundleOf("demo-bad", "")) != nil; bad != (test.want == "") {
				t.Errorf("the Bundle is written: %v", bad)
			}
			for _, secret := range test.objects {
				if object := hub.Get(secret); object == nil || object.Object["type"] != string(secret.Type) || object.GetOwnerReferences() != nil {
					t.Errorf("the Secret has changed: %v", object)
				}
			}
		})
	}
}

// A folder was renamed, and its new Bundle is refused. The Bundle of the old name has to stay, or its workloads are uninstalled.
func TestNothingIsPruned_IfTheServerRefusesABundle(t *testing.T) {
	const bundles = "/apis/fleet.cattle.io/v1alpha1/namespaces/ws/bundles"
	for name, test := range map[string]struct {
		refuse string
		code   int
		want   string
		fix    string
	}{
		"invalid": {"POST " + bundles, http.StatusUnprocessableEntity, "writing Bundle ws/demo-new: refused by the test", ""},
		"no right to create Bundles": {
			"POST " + bundles, http.StatusForbidden, "writing Bundle ws/demo-new: refused by the test", "fix: get the right that the message names",
		},
		"update that is invalid": {"PUT " + bundles + "/demo-kept", http.StatusUnprocessableEntity, "writing Bundle ws/demo-kept: refused by the test", ""},
		"nothing is refused":     {"GET /x", http.StatusForbidden, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			hub := clitest.Start(t, bundleOf("demo-old", "demo"), bundleOf("demo-kept", "demo"), bundleOf("demo-other", "demo"))
			hub.Refuse(test.refuse, test.code)
			got := write(t, hub, folder(t, map[string]string{
				"new/cm.yaml": configMap, "new/fleet.yaml": "{}", "kept/cm.yaml": configMap, "kept/fleet.yaml": "{}",
				"other/cm.yaml": configMap, "other/fleet.yaml": "{}",
			}))
			if (got.Code == exit.Done) != (test.want == "") || strings.Count(got.Stderr, "writing Bundle") > 1 ||
				!strings.Contains(got.Stderr, test.want) || !strings.Contains(got.Stderr, test.fix) {
				t.Errorf("code %d, standard error:\n%s", got.Code, got.Stderr)
			}
			if pruned := hub.Get(bundleOf("demo-old", "")) == nil; pruned != (test.want == "") {
				t.Errorf("pruned: %v, writes %q", pruned, hub.Writes())
			}
			if other := hub.Get(bundleOf("demo-other", "")); other == nil || other.Object["spec"].(map[string]any)["resources"] == nil {
				t.Errorf("the other Bundle is not written: %v", other)
			}
		})
	}
}

func TestTargetNameThatNoSecretCanContain_FailsBeforeTheFirstRequest(t *testing.T) {
	hub := clitest.Start(t, bundleOf("demo-old", "demo"))
	got := write(t, hub, folder(t, map[string]string{
		"new/cm.yaml": configMap, "new/fleet.yaml": "targetCustomizations: [{name: a/b, helm: {values: {a: 1}}}]",
	}))
	if got.Code != exit.Failed || !strings.Contains(got.Stderr, `new: target "a/b" has helm.values`) || len(hub.Requests()) > 0 {
		t.Errorf("code %d, requests %q, standard error:\n%s", got.Code, hub.Requests(), got.Stderr)
	}
}

// The Bundles are written in the order of their names.
func TestRefusedBundle_DoesNotStopTheOthers(t *testing.T) {
	const bundles = "/apis/fleet.cattle.io/v1alpha1/namespaces/ws/bundles/"
	hub := clitest.Start(t, bundleOf("demo-bad", ""), bundleOf("demo-worse", ""), bundleOf("demo-good", ""))
	for _, bad := range []string{"demo-bad", "demo-worse"} {
		hub.Refuse("PUT "+bundles+bad, http.StatusUnprocessableEntity)
	}
	files := map[string]string{}
	for _, name := range []string{"bad", "worse", "good"} {
		files[name+"/cm.yaml"], files[name+"/fleet.yaml"] = configMap, "helm: {values: {a: 1}}"
	}
	got := write(t, hub, folder(t, files), "--bundle-creation-max-concurrency", "1")
	if got.Code != exit.Failed || strings.Count(got.Stderr, "writing Bundle ws/demo-bad: ") != 1 ||
		strings.Count(got.Stderr, "writing Bundle ws/demo-worse: ") != 1 || strings.Contains(got.Stderr, "canceled") {
		t.Errorf("code %d, standard error:\n%s", got.Code, got.Stderr)
	}
	if hub.Get(secretOf("demo-good", "")) == nil {
		t.Error("the other Bundle has no Secret")
	}
}

func TestStandardOutput_ContainsOnlyBundles(t *testing.T) {
	dir := folder(t, map[string]string{
		"a/cm.yaml": configMap, "a/fleet.yaml": "nmae: x\n",
		"b/Chart.yaml":      "apiVersion: v2\nname: b\nversion: 1.0.0\ndependencies: [{name: c, version: 1.0.0, repository: \"file://../c\"}]\n",
		"b/fleet.yaml":      "{}",
		"c/Chart.yaml":      "apiVersion: v2\nname: c\nversion: 1.0.0\n",
		"b/.fleetignore":    "docs/\n",
		"other/readme.yaml": "x: 1\n", ".git/HEAD": "",
	})
	got := apply(t, dir, nil, "-o", "-", "--bundle-creation-max-concurrency", "1", "demo", "a", "b")
	if got.Code != exit.Done || strings.Count(got.Stdout, "apiVersion: fleet.cattle.io/v1alpha1\n") != 2 || strings.Contains(got.Stdout, "Saving") {
		t.Errorf("code %d, standard output:\n%.2000s", got.Code, got.Stdout)
	}
	for _, want := range []string{
		`warning: a/fleet.yaml:1: unknown key "nmae" is ignored; did you mean "name"?`, "Saving 1 charts",
		"warning: b/.fleetignore:1: the pattern probably has no effect: to exclude the folder, write its name with /* at the end",
	} {
		if !strings.Contains(got.Stderr, want) {
			t.Errorf("no %q in standard error:\n%s", want, got.Stderr)
		}
	}
	asJSON := apply(t, dir, map[string]string{"FLEET_JSON_OUTPUT": "TRUE"}, "-o", "-", "demo", "a", "b")
	for line := range strings.Lines(asJSON.Stderr) {
		if !json.Valid([]byte(line)) {
			t.Errorf("not JSON: %s", line)
		}
	}
	if asJSON.Code != exit.Done || !strings.Contains(asJSON.Stderr, `"level":"WARN"`) {
		t.Errorf("code %d, standard error:\n%s", asJSON.Code, asJSON.Stderr)
	}
}

// Nothing of these charts has to be loaded, because they have no dependencies.
func TestLinksInAChart_AreThoseOfItsBundle(t *testing.T) {
	const chart = "apiVersion: v2\nname: web\nversion: 1.0.0\n"
	for name, test := range map[string]struct {
		files map[string]string
		code  exit.Code
		want  string
	}{
		"link to a file of the Bundle": {
			map[string]string{
				"app/fleet.yaml": "helm: {chart: web}", "app/common/_h.tpl": "SHARED", "app/web/Chart.yaml": chart,
				"app/web/templates/_h.tpl": "-> ../../common/_h.tpl",
			}, exit.Done, "- content: SHARED\n    name: web/templates/_h.tpl",
		},
		"link that is excluded": {
			map[string]string{"app/fleet.yaml": "{}", "app/Chart.yaml": chart, "app/docs": "-> ../shared", "app/.fleetignore": "docs\n", "shared/x": ""},
			exit.Done, "name: Chart.yaml",
		},
		"link out of the Bundle": {
			map[string]string{"app/fleet.yaml": "{}", "app/Chart.yaml": chart, "app/templates/a": "-> ../../secret", "secret": "CANARY"},
			exit.Failed, `symlink "templates/a": target escapes bundle directory`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := apply(t, folder(t, test.files), nil, "-o", "-", "demo", "app")
			if got.Code != test.code || !strings.Contains(got.Stdout+got.Stderr, test.want) || strings.Contains(got.Stdout+got.Stderr, "CANARY") {
				t.Errorf("code %d, standard error:\n%s\nstandard output:\n%s", got.Code, got.Stderr, got.Stdout)
			}
		})
	}
}

func TestStrict_SeparatesBundlesAndFailsOnWarnings(t *testing.T) {
	dir := folder(t, map[string]string{"a/cm.yaml": configMap, "a/fleet.yaml": "{}", "b/cm.yaml": configMap, "b/fleet.yaml": "{}", "c/cm.yaml": configMap, "c/fleet.yaml": "x: 1"})
	for name, test := range map[string]struct {
		args       []string
		code       exit.Code
		separators int
		stderr     string
	}{
		"strict":                 {[]string{"--strict", "a", "b"}, exit.Done, 1, ""},
		"not strict":             {[]string{"a", "b"}, exit.Done, 0, ""},
		"warning":                {[]string{"c"}, exit.Done, 0, `unknown key "x"`},
		"warning, with --strict": {[]string{"--strict", "a", "c"}, exit.Failed, 0, "warnings are errors with --strict: 1 found"},
	} {
		t.Run(name, func(t *testing.T) {
			got := apply(t, dir, nil, append([]string{"-o", "-", "demo"}, test.args...)...)
			if got.Code != test.code || strings.Count("\n"+got.Stdout, "\n---\n") != test.separators || !strings.Contains(got.Stderr, test.stderr) {
				t.Errorf("code %d, standard error:\n%s\nstandard output:\n%s", got.Code, got.Stderr, got.Stdout)
			}
			if test.code != exit.Done && got.Stdout != "" {
				t.Errorf("printed:\n%s", got.Stdout)
			}
		})
	}
	hub := clitest.Start(t, bundleOf("demo-old", "demo"))
	if got := write(t, hub, dir, "--strict"); got.Code != exit.Failed || len(hub.Requests()) > 0 {
		t.Errorf("code %d, requests %q", got.Code, hub.Requests())
	}
}

func TestCredentials_AreSentOnlyToTheRepository(t *testing.T) {
	var elsewhere, own []string
	record := func(to *[]string, next http.HandlerFunc) *httptest.Server {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if user, password, sent := r.BasicAuth(); sent {
				*to = append(*to, user+":"+password)
			}
			next(w, r)
		}))
		t.Cleanup(server.Close)
		return server
	}
	other := record(&elsewhere, http.NotFound)
	repository := record(&own, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/index.yaml") {
			fmt.Fprintf(w, "apiVersion: v1\nentries:\n  web: [{name: web, version: 1.0.0, urls: [%q]}, {name: web, version: 0.9.0, urls: [moved.tgz]}]\n", other.URL+"/web.tgz")
			return
		}
		http.Redirect(w, r, other.URL+"/moved.tgz", http.StatusFound)
	})
	dir := folder(t, map[string]string{
		"index/fleet.yaml":    "helm: {repo: \"" + repository.URL + "\", chart: web}\n",
		"redirect/fleet.yaml": "helm: {repo: \"" + repository.URL + "\", chart: web, version: 0.9.0}\n",
		"password":            "CANARY",
		"newline":             "CANARY\n",
		"by-path":             "'*': {username: me, password: CANARY}\n",
	})
	for name, test := range map[string]struct {
		args []string
		sent bool
		want string
	}{
		"index names another host":       {[]string{"--username", "me", "--password-file", "password", "--helm-repo-url-regex", "http://127", "demo", "index"}, true, "404"},
		"redirect to another host":       {[]string{"--username", "me", "--password-file", "password", "--helm-repo-url-regex", "http://127", "demo", "redirect"}, true, "404"},
		"credentials by path":            {[]string{"--helm-credentials-by-path-file", "by-path", "--helm-repo-url-regex", "http://127", "demo", "index"}, true, "404"},
		"no expression":                  {[]string{"--username", "me", "--password-file", "password", "demo", "index"}, false, "add --helm-repo-url-regex"},
		"expression that does not match": {[]string{"--username", "me", "--password-file", "password", "--helm-repo-url-regex", "https://x", "demo", "index"}, false, "does not match its start"},
		"user without password":          {[]string{"--username", "me", "--helm-repo-url-regex", "http://127", "demo", "index"}, false, "warning: no user is sent"},
		"password file does not exist":   {[]string{"--username", "me", "--password-file", "pasword", "--helm-repo-url-regex", "http://127", "demo", "index"}, false, "warning: no user is sent"},
		"password without user":          {[]string{"--password-file", "password", "--helm-repo-url-regex", "http://127", "demo", "index"}, false, "warning: no user is sent"},
		"password ends with a newline":   {[]string{"--username", "me", "--password-file", "newline", "--helm-repo-url-regex", "http://127", "demo", "index"}, false, "warning: the password in newline ends with a newline"},
	} {
		t.Run(name, func(t *testing.T) {
			elsewhere, own = nil, nil
			got := apply(t, dir, nil, append([]string{"-o", "-", "--debug"}, test.args...)...)
			if got.Code != exit.Failed || !strings.Contains(got.Stderr, test.want) || strings.Contains(got.Stdout+got.Stderr, "CANARY") {
				t.Errorf("code %d, standard error:\n%s", got.Code, got.Stderr)
			}
			if len(elsewhere) > 0 || slices.Contains(own, "me:CANARY") != test.sent {
				t.Errorf("the repository got %q, the other host %q", own, elsewhere)
			}
		})
	}
}

func TestRetriedConflict_ReadsTheBundleAgain(t *testing.T) {
	hub := clitest.Start(t)
	dir := folder(t, map[string]string{"cm.yaml": configMap})
	if got := write(t, hub, dir); got.Code != exit.Done {
		t.Fatal(got.Stderr)
	}
	hub.Refuse("PUT /apis/fleet.cattle.io/v1alpha1/namespaces/ws/bundles/demo", http.StatusConflict)
	before := len(hub.Writes())
	for attempts, want := range map[string]int{"": 1, "3": 3, "x": 1, "-1": 1} {
		got := apply(t, dir, map[string]string{"FLEET_APPLY_CONFLICT_RETRIES": attempts},
			"--kubeconfig", hub.Kubeconfig, "-n", "ws", "--paused", "demo")
		writes := hub.Writes()[before:]
		if before += len(writes); got.Code != exit.Failed || len(writes) != want {
			t.Errorf("%q: code %d, %d writes, want %d", attempts, got.Code, len(writes), want)
		}
	}
}

func TestOutputFile_IsCreatedWithItsFolders(t *testing.T) {
	dir := folder(t, map[string]string{"app/cm.yaml": configMap})
	if got := apply(t, dir, nil, "-o", "out/of/demo.yaml", "demo", "app"); got.Code != exit.Done || got.Stdout != "" {
		t.Errorf("code %d, standard output %q, standard error:\n%s", got.Code, got.Stdout, got.Stderr)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "out/of/demo.yaml")); err != nil || !strings.Contains(string(text), "name: demo-app\n") {
		t.Errorf("error %v, text:\n%s", err, text)
	}
}

// BenchmarkPrint_1000Files packs and prints a Bundle of 1,000 files of 2 KiB.
func BenchmarkPrint_1000Files(b *testing.B) {
	files := map[string]string{}
	for i := range 1000 {
		files[fmt.Sprintf("app/%02d/cm-%d.yaml", i%100, i)] = fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c%d}\ndata:\n  text: |\n%s", i,
			strings.Repeat("    some text that stands for a setting of a program\n", 40))
	}
	dir := folder(b, files)
	b.Chdir(dir)
	for b.Loop() {
		got := recordedtest.RunHere(b, []string{"fleet", "apply", "-o", "-", "demo", "app"}, nil)
		if got.Code != exit.Done || strings.Count(got.Stdout, "name: ") < 1000 {
			b.Fatalf("code %d, standard error:\n%s", got.Code, got.Stderr)
		}
		b.ReportMetric(float64(len(got.Stdout)), "bytes-printed")
	}
}
