package cli_test

import (
	"bytes"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/fleet-hub/fleet/internal/cmd/cli"
	"github.com/fleet-hub/fleet/internal/cmd/cli/clitest"
	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func run(t *testing.T, args ...string) (code exit.Code, stdout, stderr string) {
	t.Helper()
	var out, problems bytes.Buffer
	streams := genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &problems}
	code = cli.Run(t.Context(), args, streams, func(string) string { return "" })
	return code, out.String(), problems.String()
}

func TestInvalidCommandLine_ExitsWithUsageAndNamesTheHelp(t *testing.T) {
	for name, test := range map[string]struct {
		args         []string
		problem, fix string
	}{
		"unknown command":   {[]string{"fleet", "no-such"}, `unknown command "no-such"`, "fix: fleet --help"},
		"unknown flag":      {[]string{"fleet", "version", "--no-such"}, "unknown flag: --no-such", "fix: fleet version --help"},
		"unknown format":    {[]string{"fleet", "version", "-o", "xml"}, `unknown format "xml"`, "fix: fleet version --help"},
		"too many":          {[]string{"fleet", "version", "now"}, `unknown command "now"`, "fix: fleet version --help"},
		"plugin of kubectl": {[]string{"/usr/bin/kubectl-fleet", "version", "--no-such"}, "unknown flag", "fix: kubectl fleet version --help"},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := run(t, test.args...)
			if code != exit.Usage || stdout != "" || !strings.Contains(stderr, test.problem) || !strings.Contains(stderr, test.fix) {
				t.Errorf("code %d, stdout %q, stderr:\n%s", code, stdout, stderr)
			}
		})
	}
}

func TestVersion_PrintsEveryFormat(t *testing.T) {
	for format, want := range map[string]string{
		"table": "dev\n", "name": "dev\n", "json": "{\n  \"version\": \"dev\"\n}\n", "yaml": "version: dev\n",
	} {
		if code, stdout, stderr := run(t, "fleet", "version", "-o", format); code != exit.Done || stdout != want || stderr != "" {
			t.Errorf("%s: code %d, stdout %q, stderr %q", format, code, stdout, stderr)
		}
	}
}

func TestCompletionPluginOfKubectl_CompletesCommands(t *testing.T) {
	code, stdout, _ := run(t, "/usr/bin/kubectl_complete-fleet", "vers")
	if code != exit.Done || !strings.HasPrefix(stdout, "version\t") {
		t.Errorf("code %d, stdout:\n%s", code, stdout)
	}
}

func TestJobsOfOtherCharts_EndWithoutAnError(t *testing.T) {
	for _, job := range []string{"cleanup clusterregistration --min 10ms", "cleanup gitjob --batch-size=5000", "migrate gitrepo-helm-url-regex -v 3"} {
		code, stdout, stderr := run(t, append([]string{"/usr/bin/fleet"}, strings.Fields(job)...)...)
		if code != exit.Done || stdout != "" || strings.Count(stderr, "nothing to do") != 1 {
			t.Errorf("%s: code %d, stdout %q, stderr:\n%s", job, code, stdout, stderr)
		}
	}
	if _, help, _ := run(t, "fleet", "--help"); strings.Contains(help, "cleanup") || strings.Contains(help, "migrate") {
		t.Errorf("the help shows the jobs:\n%s", help)
	}
}

func TestPluginOfKubectl_ListsAndCompletesClusters(t *testing.T) {
	server := clitest.Start(t,
		&fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet-local", Name: "local"}},
		&fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet-default", Name: "east"}},
		&fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet-default", Name: "west"}},
	)
	code, stdout, stderr := run(t, "/usr/bin/kubectl-fleet", "clusters", "-A", "-o", "name", "--kubeconfig", server.Kubeconfig)
	if want := "cluster.fleet.cattle.io/east\ncluster.fleet.cattle.io/west\ncluster.fleet.cattle.io/local\n"; code != exit.Done || stdout != want {
		t.Errorf("code %d, stdout:\n%s\nstderr:\n%s", code, stdout, stderr)
	}
	code, stdout, stderr = run(t, "/usr/bin/kubectl_complete-fleet", "clusters", "describe", "--kubeconfig", server.Kubeconfig, "")
	if code != exit.Done || stdout != "east\nwest\n:4\n" {
		t.Errorf("code %d, stdout:\n%s\nstderr:\n%s", code, stdout, stderr)
	}
}
