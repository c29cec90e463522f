// Package jobs provides the jobs that charts of Rancher Fleet start with the image of the hub: before and after an
// installation, and every day. What do they do here?
//
//	fleet cleanup clusterregistration, fleet cleanup gitjob ─┐
//	fleet migrate gitrepo-helm-url-regex ────────────────────┴─► one log line ─► exit code 0
//
// Other jobs are refused, so that a job with work to do does not seem to succeed.
package jobs

import (
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
	"github.com/fleet-hub/fleet/internal/cmd/companion"
)

// New returns the commands. They are hidden, and write their log to out.
func New(out io.Writer) []*cobra.Command {
	cleanup := group("cleanup")
	companion.Add(cleanup, out,
		companion.Command{Use: "clusterregistration", Why: "the controllers delete what a newer registration replaces", Ends: true},
		companion.Command{Use: "gitjob", Why: "GitRepos are not acted on", Ends: true},
	)
	migrate := group("migrate")
	companion.Add(migrate, out, companion.Command{Use: "gitrepo-helm-url-regex", Why: "GitRepos are not acted on", Ends: true})
	return []*cobra.Command{cleanup, migrate}
}

// group returns a command that contains jobs.
func group(use string) *cobra.Command {
	return &cobra.Command{
		Use:    use,
		Short:  "Jobs of other charts, which have nothing to do here",
		Hidden: true,
		Args:   cobra.ArbitraryArgs,
		RunE:   noSuchJob,
	}
}

func noSuchJob(command *cobra.Command, args []string) error {
	return exit.Errorf(exit.Failed, "%q is not a job of this image", strings.Join(append([]string{command.CommandPath()}, args...), " ")).
		With("use one of: fleet cleanup clusterregistration, fleet cleanup gitjob, fleet migrate gitrepo-helm-url-regex")
}
