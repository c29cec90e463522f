package jobs_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
	"github.com/fleet-hub/fleet/internal/cmd/cli/jobs"
)

func TestJobs(t *testing.T) {
	tests := map[string]struct{ args, says, err string }{
		"after an installation": {args: "cleanup clusterregistration --min 10ms", says: "the controllers delete what a newer registration replaces"},
		"every day":             {args: "cleanup gitjob --batch-size 5000", says: "GitRepos are not acted on"},
		"before an upgrade":     {args: "migrate gitrepo-helm-url-regex", says: "GitRepos are not acted on"},
		"an unknown cleanup":    {args: "cleanup all", err: `error: "fleet cleanup all" is not a job of this image` + "\nfix: use one of: fleet cleanup clusterregistration, "},
		"an unknown migration":  {args: "migrate all", err: `error: "fleet migrate all" is not a job of this image`},
		"no cleanup":            {args: "cleanup", err: `error: "fleet cleanup" is not a job of this image`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			command := &cobra.Command{Use: "fleet", SilenceUsage: true, SilenceErrors: true}
			command.AddCommand(jobs.New(&out)...)
			command.SetArgs(strings.Fields(test.args))
			err := command.ExecuteContext(t.Context())
			if (err == nil) != (test.err == "") || err != nil && (!strings.HasPrefix(exit.Text(err), test.err) || exit.CodeOf(err) != exit.Failed) {
				t.Fatalf("error %v, want %q", err, test.err)
			}
			if !strings.Contains(out.String(), test.says) {
				t.Errorf("it said %q, want %q", out.String(), test.says)
			}
		})
	}
}
