// Package release implements `fleet version`: which release this program is.
package release

import (
	"fmt"

	"github.com/spf13/cobra"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/fleet-hub/fleet/internal/cmd/cli/output"
	"github.com/fleet-hub/fleet/internal/version"
)

// Release is the result of the command.
type Release struct {
	// Version is the release, or "dev" in a build without one.
	Version string `json:"version"`
}

// New returns the command.
func New(streams genericiooptions.IOStreams) *cobra.Command {
	format := output.Table
	command := &cobra.Command{
		Use:   "version",
		Short: "Print the version of this program",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			result := Release{Version: version.Version}
			if format == output.Table || format == output.Name {
				_, err := fmt.Fprintln(streams.Out, result.Version)
				return err
			}
			return output.Print(streams.Out, format, result)
		},
	}
	format.Bind(command.Flags())
	return command
}
