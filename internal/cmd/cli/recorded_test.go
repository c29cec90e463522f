package cli_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fleet-hub/fleet/internal/cmd/cli/recordings"
)

const recorded = recordings.Folder("testdata/recorded")

// The cases of `apply -o`. Those against a cluster are in package apply.
//
// One difference is on purpose: the progress of a dependency update is printed to standard error, so that standard output
// is YAML. So the first two lines of chart-file-dependency are missing.
func TestRecordedApply_PrintsTheSameBytes(t *testing.T) {
	for _, name := range recorded.CasesWithout(t, "cli-", "online-") {
		t.Run(name, func(t *testing.T) {
			opened := recorded.Open(t, name)
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
