package apply_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/yaml"

	"github.com/fleet-hub/fleet/internal/cmd/cli"
	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// printed returns the Bundle that a call prints.
func printed(t *testing.T, dir string, environment map[string]string, args ...string) *fleet.Bundle {
	t.Helper()
	got := apply(t, dir, environment, append([]string{"-o", "-"}, args...)...)
	bundle := &fleet.Bundle{}
	if err := yaml.UnmarshalStrict([]byte(got.Stdout), bundle); got.Code != exit.Done || err != nil {
		t.Fatalf("code %d, error %v, standard error:\n%s", got.Code, err, got.Stderr)
	}
	return bundle
}

func TestVariables_CountOnlyWithoutTheFlag(t *testing.T) {
	dir := folder(t, map[string]string{"cm.yaml": configMap})
	for name, test := range map[string]struct {
		environment       map[string]string
		args              string
		namespace, commit string
	}{
		"defaults":                   {nil, "demo", "fleet-local", ""},
		"variables":                  {map[string]string{"NAMESPACE": "ws", "COMMIT": "abc"}, "demo", "ws", "abc"},
		"flags win":                  {map[string]string{"NAMESPACE": "ws", "COMMIT": "abc"}, "-n own --commit def demo", "own", "def"},
		"flags after it":             {nil, "demo -n own --commit=def", "own", "def"},
		"negative number of workers": {map[string]string{"FLEET_BUNDLE_CREATION_MAX_CONCURRENCY": "-1"}, "demo", "fleet-local", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := printed(t, dir, test.environment, strings.Fields(test.args)...)
			if got.Namespace != test.namespace || got.Labels["fleet.cattle.io/commit"] != test.commit {
				t.Errorf("namespace %q, labels %v", got.Namespace, got.Labels)
			}
		})
	}
}

func TestCertificatesOfAProxy_AreChecked(t *testing.T) {
	dir := folder(t, map[string]string{"cm.yaml": configMap})
	got := apply(t, dir, map[string]string{"PROXY_CA_BUNDLE": "/etc/ca.pem"}, "-o", "-", "demo")
	if got.Code == 0 || !strings.Contains(got.Stderr, "variable PROXY_CA_BUNDLE contains no certificate in PEM") {
		t.Errorf("%+v", got)
	}
}

func TestLabels_AreSplitAtTheFirstSign(t *testing.T) {
	dir := folder(t, map[string]string{"cm.yaml": configMap})
	got := printed(t, dir, nil, "-l", "a=1,b=x=y", "--label", "c", "-l", "a=2", "demo")
	if diff := cmp.Diff(map[string]string{"a": "2", "b": "x=y", "c": ""}, got.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
}

func TestTargetsFile_IsAddedAndMayBeMissing(t *testing.T) {
	dir := folder(t, map[string]string{"app/cm.yaml": configMap, "t.yaml": "targets: [{clusterName: a}]\ntargetRestrictions: [{clusterName: b}]\n"})
	got := printed(t, dir, nil, "--targets-file", "t.yaml", "demo", "app")
	if len(got.Spec.Targets) != 1 || got.Spec.Targets[0].ClusterName != "a" || got.Spec.TargetRestrictions[0].ClusterName != "b" {
		t.Errorf("spec %+v", got.Spec)
	}
	if got := printed(t, dir, nil, "--targets-file", "gone.yaml", "demo", "app"); got.Spec.Targets[0].ClusterGroup != "default" {
		t.Errorf("targets %+v", got.Spec.Targets)
	}
	const warning = "warning: the file gone.yaml of --targets-file does not exist"
	for _, strict := range []bool{false, true} {
		ended := apply(t, dir, nil, "-o", "-", "--targets-file", "gone.yaml", fmt.Sprintf("--strict=%t", strict), "demo", "app")
		if (ended.Code != exit.Done) != strict || strings.Count(ended.Stderr, warning) != 1 {
			t.Errorf("strict %t: code %d, standard error:\n%s", strict, ended.Code, ended.Stderr)
		}
	}
}

func TestTooMuchStandardInput_IsRefused(t *testing.T) {
	t.Chdir(folder(t, map[string]string{"a/cm.yaml": configMap}))
	var out, problems bytes.Buffer
	streams := genericiooptions.IOStreams{In: strings.NewReader("namespace: in\n" + strings.Repeat("#\n", 2<<20)), Out: &out, ErrOut: &problems}
	code := cli.Run(t.Context(), []string{"fleet", "apply", "-o", "-", "-b", "-", "demo", "a"}, streams, func(string) string { return "" })
	if code == exit.Done || !strings.Contains(problems.String(), "standard input is larger than 4 MiB") {
		t.Errorf("code %d, standard output:\n%s\nstandard error:\n%s", code, out.String(), problems.String())
	}
}

func TestOptionsFromStandardInput_HoldForEveryFolder(t *testing.T) {
	t.Chdir(folder(t, map[string]string{"a/cm.yaml": configMap, "a/fleet.yaml": "namespace: own", "b/cm.yaml": configMap}))
	var out, problems bytes.Buffer
	streams := genericiooptions.IOStreams{In: strings.NewReader("namespace: in\nnmae: x\n"), Out: &out, ErrOut: &problems}
	code := cli.Run(t.Context(), []string{"fleet", "apply", "-o", "-", "-b", "-", "demo", "a", "b"}, streams, func(string) string { return "" })
	if code != exit.Done || strings.Count(out.String(), "\n  namespace: in\n") != 2 {
		t.Errorf("code %d, standard output:\n%s\nstandard error:\n%s", code, out.String(), problems.String())
	}
	if !strings.Contains(problems.String(), `warning: standard input:2: unknown key "nmae" is ignored; did you mean "name"?`) {
		t.Errorf("standard error:\n%s", problems.String())
	}
}
