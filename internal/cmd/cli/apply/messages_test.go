package apply_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/fleet-hub/fleet/internal/cmd/cli/clitest"
	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// lines returns standard error without times, and without the folder of the test.
func lines(stderr, dir string) []string {
	text := regexp.MustCompile(`(?m)^\d{4}/\d\d/\d\d \d\d:\d\d:\d\d `).ReplaceAllString(stderr, "")
	return strings.Split(strings.TrimSuffix(strings.ReplaceAll(text, dir, "DIR"), "\n"), "\n")
}

// check compares standard error with the wanted lines. A line that ends in … is only a beginning.
func check(t *testing.T, stderr, dir string, want []string) {
	t.Helper()
	got := lines(stderr, dir)
	if len(got) != len(want) {
		t.Errorf("standard error has %d lines, want %d:\n%s", len(got), len(want), stderr)
		return
	}
	for i, line := range want {
		if start, partly := strings.CutSuffix(line, "…"); got[i] != line && (!partly || !strings.HasPrefix(got[i], start)) {
			t.Errorf("line %d:\n got: %s\nwant: %s", i, got[i], line)
		}
	}
}

func TestBadInput_HasAMessage(t *testing.T) {
	reading := `failed to process bundle: failed reading resources for "app": `
	loading := reading + "loading directory ., app: failed to read . relative to DIR/app: "
	for name, test := range map[string]struct {
		files       map[string]string
		args        string
		environment map[string]string
		want        []string
	}{
		"no arguments": {nil, "", nil, []string{"at least one argument is required: BUNDLE_NAME"}},
		"unknown flag": {nil, "--no-such demo", nil, []string{"unknown flag: --no-such", "fix: fleet apply --help"}},
		"flag with an invalid value": {
			nil, "--paused=perhaps demo", nil,
			[]string{`invalid argument "perhaps" for "--paused" flag: strconv.ParseBool: parsing "perhaps": invalid syntax`, "fix: fleet apply --help"},
		},
		"variable with an invalid value": {
			nil, "demo", map[string]string{"FLEET_BUNDLE_CREATION_MAX_CONCURRENCY": "many"},
			[]string{`variable FLEET_BUNDLE_CREATION_MAX_CONCURRENCY: strconv.ParseInt: parsing "many": invalid syntax`},
		},
		"file flag with two arguments": {nil, "-f x demo app", nil, []string{"the bundle name is required as the first argument"}},
		"missing folder":               {nil, "-o - demo nowhere", nil, []string{"no resource found at the following paths to deploy: [nowhere]"}},
		"missing folder, driven scan": {
			nil, "-o - --driven-scan demo nowhere", nil,
			[]string{`failed to process bundle: failed reading resources for "nowhere": loading directory ., nowhere: failed to read . relative to DIR/nowhere: lstat DIR/nowhere: no such file or directory`},
		},
		"too many parts of a path": {nil, "-o - --driven-scan demo a:b:c", nil, []string{`invalid bundle path: "a:b:c"`}},
		"invalid glob":             {nil, "-o - demo [", nil, []string{`invalid path "[": syntax error in pattern`}},
		"missing file with options": {
			map[string]string{"app/x.yaml": ""}, "-o - -b own.yaml demo app", nil,
			[]string{`failed to open file "own.yaml": open app/own.yaml: no such file or directory`},
		},
		"unknown key, with --strict": {
			map[string]string{"app/x": "", "app/fleet.yaml": "defaultNamspace: x\n"}, "-o - --strict demo app", nil,
			[]string{
				`warning: app/fleet.yaml:1: unknown key "defaultNamspace" is ignored; did you mean "defaultNamespace"?`,
				"warnings are errors with --strict: 1 found",
			},
		},
		"fleet.yaml is not YAML": {
			map[string]string{"app/fleet.yaml": "a: b: c"}, "-o - demo app", nil,
			[]string{"failed to process bundle: reading fleet.yaml: error converting YAML to JSON: yaml: mapping values are not allowed in this context"},
		},
		"fleet.yaml of another type": {
			map[string]string{"app/fleet.yaml": "[a]"}, "-o - demo app", nil,
			[]string{"failed to process bundle: reading fleet.yaml: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal array into Go value of type pack.document"},
		},
		"fleet.yaml that grows": {
			map[string]string{"app/fleet.yaml": "a: [" + strings.Repeat("x,", 200_000) + "x]"}, "-o - demo app", nil,
			[]string{"failed to process bundle: reading fleet.yaml: the YAML is too large: it contains too many items; make it smaller"},
		},
		"imageScans": {
			map[string]string{"app/x": "", "app/fleet.yaml": "imageScans: [{image: a, tagName: a}]"}, "-o - demo app", nil,
			[]string{"failed to process bundle: imagescan is disabled; remove imagescans from your config files, or enable imagescan"},
		},
		"target with a name that is no key of a Secret": {
			map[string]string{"app/x": "", "app/fleet.yaml": "targetCustomizations: [{name: a/b}, {name: the east, helm: {values: {a: 1}}}]"}, "-o - demo app", nil,
			[]string{`app: target "the east" has helm.values, so its name may contain only letters, digits, '-', '_' and '.'`},
		},
		"overlay without a name": {
			map[string]string{"app/x": "", "app/fleet.yaml": "targets: [{yaml: {overlays: [\"\"]}}]"}, "-o - demo app", nil,
			[]string{"failed to process bundle: validating fleet.yaml: yaml.overlays contains an empty name: write the name of a folder in overlays/"},
		},
		"missing values file": {
			map[string]string{"app/fleet.yaml": "helm: {chart: ., valuesFiles: [v.yaml]}"}, "-o - demo app", nil,
			[]string{reading + "reading values file: app/v.yaml: open app/v.yaml: no such file or directory"},
		},
		"link out of the folder": {
			map[string]string{"secret": "x", "app/fleet.yaml": "{}", "app/link": "-> ../secret"}, "-o - demo app", nil,
			[]string{
				"warning: the link app/link leads out of the folder of its Bundle; replace it by a copy, or exclude it in app/.fleetignore",
				loading + `GetContent: symlink "link": target escapes bundle directory`,
			},
		},
		"link to a folder": {
			map[string]string{"app/fleet.yaml": "{}", "app/a/x": "", "app/link": "-> a"}, "-o - demo app", nil,
			[]string{
				"warning: the link app/link leads to a folder, which is not followed; replace it by a copy, or exclude it in app/.fleetignore",
				loading + "read DIR/app/link: is a directory",
			},
		},
		"invalid pattern": {
			map[string]string{"app/fleet.yaml": "{}", "app/.fleetignore": "x\n[\n"}, "-o - demo app", nil,
			[]string{loading + "DIR/app/.fleetignore: line 2: syntax error in pattern"},
		},
		"chart that does not exist": {
			map[string]string{"app/fleet.yaml": "helm: {chart: ./no-such-chart}"}, "-o - demo app", nil,
			[]string{reading + "loading directory .chart/…"},
		},
		"invalid expression": {
			map[string]string{"app/fleet.yaml": "helm: {repo: http://h, chart: web}"}, "-o - --helm-repo-url-regex ( demo app", nil,
			[]string{reading + "loading directory .chart/…"},
		},
		"file of credentials": {
			map[string]string{"auth": "[CANARY]"}, "-o - --helm-credentials-by-path-file auth demo app", nil,
			[]string{"adding auth to opts: reading auth: it is not a YAML object of paths with their credentials"},
		},
		"folder as password file": {
			map[string]string{"auth/x": ""}, "-o - --username me --password-file auth demo app", nil,
			[]string{"adding auth to opts: read auth: is a directory"},
		},
		"file of targets": {map[string]string{"t": "targets: 1"}, "-o - --targets-file t demo app", nil, []string{"reading t: error unmarshaling JSON: …"}},
		"file of the output": {
			map[string]string{"app/x.yaml": "", "file": ""}, "-o file/out demo app", nil, []string{"mkdir file: not a directory"},
		},
		"no kubeconfig": {
			map[string]string{"app/x.yaml": ""}, "--kubeconfig nowhere demo app", nil,
			[]string{"reading the kubeconfig: …", "fix: kubectl --kubeconfig nowhere config get-contexts"},
		},
		"unknown context": {
			map[string]string{"app/x.yaml": "", "config": "{}"}, "--kubeconfig config --context west demo app", nil,
			[]string{`reading the kubeconfig: context "west" does not exist`, "fix: kubectl --kubeconfig config config get-contexts"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := folder(t, test.files)
			got := apply(t, dir, test.environment, strings.Fields(test.args)...)
			if got.Code != exit.Failed || got.Stdout != "" || strings.Contains(got.Stderr, "CANARY") {
				t.Errorf("code %d, standard output %q", got.Code, got.Stdout)
			}
			check(t, got.Stderr, dir, test.want)
		})
	}
}

func TestBadHub_HasAMessage(t *testing.T) {
	const bundles, secrets = "/apis/fleet.cattle.io/v1alpha1/namespaces/ws/bundles", "/api/v1/namespaces/ws/secrets"
	right := "fix: get the right that the message names, or use --context of a user who has it"
	for name, test := range map[string]struct {
		refused string
		code    int
		secret  *corev1.Secret
		args    string
		want    []string
	}{
		"no right to list Bundles":   {"GET " + bundles, http.StatusForbidden, nil, "", []string{"listing Bundles in ws: refused by the test", right}},
		"no right to read a Bundle":  {"GET " + bundles + "/demo", http.StatusForbidden, nil, "", []string{"reading Bundle ws/demo: refused by the test", right}},
		"no right to write a Bundle": {"POST " + bundles, http.StatusForbidden, nil, "", []string{"writing Bundle ws/demo: refused by the test", right}},
		"no right to read a Secret":  {"GET " + secrets + "/demo", http.StatusForbidden, nil, "", []string{"reading Secret ws/demo: refused by the test", right}},
		"no right to write a Secret": {
			"POST " + secrets, http.StatusForbidden, nil, "", []string{"writing Secret ws/demo with the values of the Bundle: refused by the test", right},
		},
		"no right to write an ImageScan": {
			"POST /apis/fleet.cattle.io/v1alpha1/namespaces/ws/imagescans", http.StatusForbidden, nil, "",
			[]string{"writing ImageScan ws/imagescan-demo-0: refused by the test", right},
		},
		"login has expired": {
			"GET " + bundles, http.StatusUnauthorized, nil, "",
			[]string{"listing Bundles in ws: refused by the test", "fix: log in again, then: kubectl auth whoami"},
		},
		"CRDs are missing": {
			"GET " + bundles, http.StatusNotFound, nil, "",
			[]string{
				"listing Bundles in ws: this cluster is not a hub, because it does not have the API fleet.cattle.io",
				"fix: select the hub with --context: kubectl config get-contexts",
			},
		},
		"OCI registry": {
			"", 0, secretOf("ocistorage", fleet.SecretTypeOCIStorage), "",
			[]string{"Secret ws/ocistorage names an OCI registry for the contents of Bundles, which is not supported; " +
				"delete it, or set OCI_STORAGE=false to store the contents in the cluster"},
		},
		"OCI registry of a flag": {
			"", 0, secretOf("own", fleet.SecretTypeOCIStorage), "--oci-registry-secret own",
			[]string{"Secret ws/own names an OCI registry for the contents of Bundles, which is not supported; " +
				"delete it, or set OCI_STORAGE=false to store the contents in the cluster"},
		},
		"OCI registry of a flag, but the Secret is missing": {"", 0, nil, "--oci-registry-secret own", []string{`secrets "own" not found`}},
		"OCI registry of a flag, but the Secret is another": {
			"", 0, secretOf("own", corev1.SecretTypeOpaque), "--oci-registry-secret own",
			[]string{`unexpected secret type: got "Opaque", want "fleet.cattle.io/bundle-oci-storage/v1alpha1"`},
		},
		"no right to read the Secret of an OCI registry": {
			"GET " + secrets + "/ocistorage", http.StatusForbidden, nil, "", []string{"reading Secret ws/ocistorage: refused by the test", right},
		},
		"Secret with the name of the Bundle": {
			"", 0, secretOf("demo", corev1.SecretTypeOpaque), "",
			[]string{"Secret ws/demo of type Opaque has the name of the Bundle, so that its Helm values cannot be stored; rename the Secret, or set `name` in ./fleet.yaml"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			hub := clitest.Start(t)
			if test.secret != nil {
				hub.Put(test.secret)
			}
			if test.refused != "" {
				hub.Refuse(test.refused, test.code)
			}
			dir := folder(t, map[string]string{"x.yaml": configMap, "fleet.yaml": "helm: {values: {a: 1}}\nimageScans: [{image: a, tagName: a}]"})
			got := write(t, hub, dir, append([]string{"--imagescan-enabled"}, strings.Fields(test.args)...)...)
			if got.Code != exit.Failed || got.Stdout != "" || strings.Contains(got.Stderr, "CANARY") {
				t.Errorf("code %d, standard output %q", got.Code, got.Stdout)
			}
			got.Stderr = strings.ReplaceAll(got.Stderr, " --kubeconfig "+hub.Kubeconfig, "")
			check(t, got.Stderr, dir, append([]string{"warning: fleet.yaml:2: imageScans have no effect yet: …"}, test.want...))
		})
	}
}

func TestUnreachableHub_HasAMessage(t *testing.T) {
	kubeconfig := `{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c}}], clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]}`
	dir := folder(t, map[string]string{"app/x.yaml": configMap, "config": kubeconfig})
	got := apply(t, dir, nil, "--kubeconfig", "config", "-n", "ws", "demo", "app")
	check(t, got.Stderr, dir, []string{"reading Secret ws/ocistorage: …", "fix: kubectl --kubeconfig config cluster-info"})
	if got.Code != exit.Failed || !strings.Contains(got.Stderr, "connection refused") {
		t.Errorf("code %d, standard error:\n%s", got.Code, got.Stderr)
	}
}

func TestMissingNamespace_HasAMessage(t *testing.T) {
	dir := folder(t, map[string]string{"app/x.yaml": configMap})
	kubeconfig := control.Plane(t).Hub.KubeconfigPath
	got := apply(t, dir, nil, "--kubeconfig", kubeconfig, "-n", "no-such-workspace", "demo", "app")
	check(t, got.Stderr, dir, []string{
		"writing Bundle no-such-workspace/demo-app: namespace no-such-workspace does not exist",
		"fix: kubectl --kubeconfig " + kubeconfig + " create namespace no-such-workspace", "fix: or select another workspace with -n",
	})
	if got.Code != exit.Failed {
		t.Errorf("code %d", got.Code)
	}
}
