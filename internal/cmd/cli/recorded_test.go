package cli_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/fleet-hub/fleet/internal/cmd/cli/clitest"
	"github.com/fleet-hub/fleet/internal/cmd/cli/recordedtest"
	"github.com/fleet-hub/fleet/internal/protocol/names"
)

const recorded = recordedtest.Folder("testdata/recorded")

// The cases of `apply -o`. Those against a cluster are in package apply.
//
// One difference is on purpose: the progress of a dependency update is printed to standard error, so that standard output
// is YAML. So the first two lines of chart-file-dependency are missing. Its dependency is outside of PATH, which is allowed
// only in a git work tree.
func TestRecordedApply_PrintsTheSameBytes(t *testing.T) {
	for _, name := range recorded.CasesWithout(t, "cli-", "online-") {
		t.Run(name, func(t *testing.T) {
			opened := recorded.Open(t, name)
			if name == "chart-file-dependency" {
				if err := os.Mkdir(filepath.Join(opened.In, ".git"), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			got, want := opened.Run(t, nil), opened.Want(t)
			if name == "chart-file-dependency" {
				want.Stdout = strings.TrimPrefix(want.Stdout, "Saving 1 charts\nDeleting outdated charts\n")
				got.Stdout = regexp.MustCompile(`generated: ".*"`).ReplaceAllString(got.Stdout, `generated: "<TIME>"`)
				got.Stdout = regexp.MustCompile(`content: H4sI\S*`).ReplaceAllString(got.Stdout, `content: <ARCHIVE>`)
			}
			if diff := cmp.Diff(strings.Split(want.Stdout, "\n"), strings.Split(got.Stdout, "\n")); diff != "" {
				t.Errorf("standard output (-want +got):\n%.5000s", diff)
			}
			if got.Stderr != want.Stderr || got.Code != want.Code {
				t.Errorf("standard error %q, exit code %d; want %q, %d", got.Stderr, got.Code, want.Stderr, want.Code)
			}
		})
	}
}

// recordedNamespace is the namespace of the objects in the recorded cases.
const recordedNamespace = "rec-apply"

// hub starts an API server with the objects that are in the cluster before a case.
func hub(t *testing.T, before string) *clitest.Server {
	t.Helper()
	server := clitest.Start(t)
	for document := range strings.SplitSeq(before, "\n---\n") {
		object := &clitest.Object{}
		if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
			t.Fatal(err)
		}
		if len(object.Object) == 0 {
			continue
		}
		object.SetNamespace(recordedNamespace)
		if object.GetKind() == "Cluster" { // the recordings do not contain the status
			object.Object["status"] = map[string]any{"namespace": names.ClusterNamespace(recordedNamespace, object.GetName())}
		}
		server.Put(runtime.Object(object))
	}
	return server
}

// The cases of target, deploy and bundlediff. There is no difference.
func TestRecordedOtherVerbs_PrintTheSameBytes(t *testing.T) {
	for _, name := range recorded.Cases(t, "cli-") {
		t.Run(name, func(t *testing.T) {
			opened := recorded.Open(t, name)
			server := hub(t, opened.File("before.yaml"))
			got, want := opened.Run(t, nil, "--kubeconfig", server.Kubeconfig), opened.Want(t)
			if diff := cmp.Diff(strings.Split(want.Stdout, "\n"), strings.Split(got.Stdout, "\n")); diff != "" {
				t.Errorf("standard output (-want +got):\n%.5000s", diff)
			}
			if got.Stderr != want.Stderr || got.Code != want.Code {
				t.Errorf("standard error %q, exit code %d; want %q, %d", got.Stderr, got.Code, want.Stderr, want.Code)
			}
			if writes := server.Writes(); len(writes) > 0 {
				t.Errorf("requests that write: %v", writes)
			}
		})
	}
}

// The tests of this package and of package apply run every recorded case, each once.
func TestRecordedCases_AreAllRun(t *testing.T) {
	const all = 97
	run := slices.Concat(recorded.CasesWithout(t, "cli-", "online-"), recorded.Cases(t, "cli-"), recorded.Cases(t, "online-"))
	slices.Sort(run)
	folders, err := filepath.Glob(filepath.Join(string(recorded), "*", "cmd"))
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, folder := range folders {
		found = append(found, filepath.Base(filepath.Dir(folder)))
	}
	if diff := cmp.Diff(found, run); diff != "" || len(found) != all {
		t.Errorf("%d cases (-found +run):\n%s", len(found), diff)
	}
	text, err := os.ReadFile("apply/recorded_test.go")
	if err != nil || !strings.Contains(string(text), `recorded.Cases(t, "online-")`) {
		t.Errorf("package apply does not run the cases against a cluster: %v", err)
	}
}
