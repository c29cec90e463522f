package token

import (
	"fmt"

	"github.com/spf13/cobra"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/fleet-hub/fleet/internal/cmd/cli/access"
	"github.com/fleet-hub/fleet/internal/cmd/cli/complete"
	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
	"github.com/fleet-hub/fleet/internal/cmd/cli/output"
)

func newRevoke(streams genericiooptions.IOStreams) *cobra.Command {
	flags, dryRun := access.NewFlags(), false
	command := &cobra.Command{
		Use:   "revoke NAME...",
		Short: "Delete tokens, so that no more clusters can join with them",
		Long: `Revoke deletes tokens. Their join texts and values are no longer valid. Clusters that have joined with them stay, and
keep reporting.`,
		Example: "  fleet token revoke west",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(command *cobra.Command, names []string) error {
			hub, err := flags.Open()
			if err != nil {
				return err
			}
			options := metav1.DeleteOptions{}
			if dryRun {
				options.DryRun = []string{metav1.DryRunAll}
			}
			failure, changed := &exit.Error{Code: exit.Failed}, false
			for _, name := range names {
				if err := hub.Tokens(flags.Namespace()).Delete(command.Context(), name, options); err != nil {
					failure.Add(missing(flags.Namespace(), name, err))
					continue
				}
				changed = !dryRun
				fmt.Fprintln(streams.Out, output.Line(revoked(name, dryRun)))
			}
			switch {
			case len(failure.Problems) == 0:
				return nil
			case changed:
				return exit.AfterChange(failure)
			}
			return failure
		},
		ValidArgsFunction: complete.Tokens(flags),
	}
	flags.Bind(command.Flags())
	command.Flags().BoolVar(&dryRun, "dry-run", false, "print which tokens would be deleted, and delete nothing")
	return command
}

func revoked(name string, dryRun bool) string {
	text := "clusterregistrationtoken.fleet.cattle.io/" + name + " revoked"
	if dryRun {
		text += " (dry run)"
	}
	return text
}
