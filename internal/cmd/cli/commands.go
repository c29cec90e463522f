package cli

import (
	"time"

	"github.com/spf13/cobra"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/fleet-hub/fleet/internal/cmd/cli/apply"
	"github.com/fleet-hub/fleet/internal/cmd/cli/clusters"
	"github.com/fleet-hub/fleet/internal/cmd/cli/deploy"
	"github.com/fleet-hub/fleet/internal/cmd/cli/diff"
	"github.com/fleet-hub/fleet/internal/cmd/cli/doctor"
	"github.com/fleet-hub/fleet/internal/cmd/cli/importcluster"
	"github.com/fleet-hub/fleet/internal/cmd/cli/jobs"
	"github.com/fleet-hub/fleet/internal/cmd/cli/join"
	"github.com/fleet-hub/fleet/internal/cmd/cli/release"
	"github.com/fleet-hub/fleet/internal/cmd/cli/repair"
	"github.com/fleet-hub/fleet/internal/cmd/cli/status"
	"github.com/fleet-hub/fleet/internal/cmd/cli/takeover"
	"github.com/fleet-hub/fleet/internal/cmd/cli/target"
	"github.com/fleet-hub/fleet/internal/cmd/cli/token"
	"github.com/fleet-hub/fleet/internal/cmd/cli/unregister"
	"github.com/fleet-hub/fleet/internal/cmd/env"
)

// commands returns all commands, in the order of the help.
func commands(streams genericiooptions.IOStreams, environment env.Environment) []*cobra.Command {
	return append([]*cobra.Command{
		status.New(streams, clock),
		token.New(streams, clock),
		join.New(streams, clock),
		importcluster.New(streams, clock),
		clusters.New(streams, clock),
		doctor.New(streams, clock),
		repair.New(streams, clock),
		unregister.New(streams),
		takeover.New(streams, clock),
		apply.New(streams, environment),
		target.New(streams, clock, environment),
		deploy.New(streams, clock, environment),
		diff.New(streams, clock, environment),
		release.New(streams),
	}, jobs.New(streams.ErrOut)...)
}

// clock returns the current time. Commands take it as an argument.
func clock() time.Time {
	return time.Now() //nolint:forbidigo // the only clock of the command line
}
