package cli_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/fleet-hub/fleet/internal/cmd/cli"
	"github.com/fleet-hub/fleet/internal/cmd/cli/clitest"
	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
	"github.com/fleet-hub/fleet/internal/cmd/cli/jointext"
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
		if code != exit.Done || stdout != "" || strings.Count(stderr, "this command does nothing") != 1 {
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

func TestFixes_ReachTheClusterOfTheFlags(t *testing.T) {
	hub := clitest.Start(t).Kubeconfig
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"hub":        {[]string{"clusters", "describe", "east", "--context", "hub"}, "fix: fleet --kubeconfig " + hub + " --context hub clusters -A\n"},
		"a sentence": {[]string{"token", "create", "east", "--context", "hub", "--timeout", "300ms"}, "fix: then print the text with: fleet --kubeconfig " + hub + " --context hub token show east"},
		"help":       {[]string{"token", "create", "East", "--context", "hub"}, "fix: fleet token create --help\n"},
		// --context of join is not that of the hub, on which the command is to run
		"join": {[]string{"join", "--context", "east", "--file", joinText(t)}, "fix: on the hub: fleet repair west -n fleet-default\n"},
	} {
		t.Run(name, func(t *testing.T) {
			code, _, stderr := run(t, append([]string{"fleet"}, append(test.args, "--kubeconfig", hub)...)...)
			if code == exit.Done || !strings.Contains(stderr, test.want) {
				t.Errorf("code %d, want %s, stderr:\n%s", code, test.want, stderr)
			}
		})
	}
}

// joinText returns a file with a join text that has expired.
func joinText(t *testing.T) string {
	t.Helper()
	expired := time.Unix(0, 0)
	text, err := jointext.Encode(jointext.Text{
		URL: "https://hub.example.com", Workspace: "fleet-default", Token: "t", TokenName: "west", ClientID: "c", Cluster: "west", Expires: &expired,
		SystemRegistrationNamespace: "cattle-fleet-clusters-system",
	})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "west.join")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// A shell takes " (" for syntax. Remarks belong in front of a command, with a colon.
func TestCommandsInMessages_HaveNoRemarkInParentheses(t *testing.T) {
	remark := regexp.MustCompile(`"([^"]*: )?(fleet|kubectl|helm) [^'"]* \([^"]*"`)
	files := 0
	err := filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		files++
		text, err := os.ReadFile(path)
		for line := range strings.Lines(string(text)) {
			if found := remark.FindString(line); found != "" {
				t.Errorf("%s: %s", path, found)
			}
		}
		return err
	})
	if err != nil || files < 50 {
		t.Fatalf("%d files, error %v", files, err)
	}
}
