// Package apply implements `fleet apply`: which Bundles do these folders make, and are they on the hub?
//
//	flags, variables, files ─► pack.Options ─► pack.Pack ─► Bundles ─► print (-o)
//	                                                             └──► sizes, dry runs ─► prune ─► write
//
// Its flags, variables, messages and exit codes are those of Rancher Fleet, whose GitRepo jobs call it.
package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/fleet-hub/fleet/internal/cmd/cli/access"
	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
	"github.com/fleet-hub/fleet/internal/cmd/cli/report"
	"github.com/fleet-hub/fleet/internal/cmd/env"
	"github.com/fleet-hub/fleet/internal/pack"
)

// command is one call.
type command struct {
	flags
	streams     genericiooptions.IOStreams
	environment env.Environment
	report      report.Reporter
	missing     []string // warnings about files that do not exist
}

// New returns the command.
func New(streams genericiooptions.IOStreams, environment env.Environment) *cobra.Command {
	clock := time.Now //nolint:forbidigo // this is where the clock is made
	c := &command{
		flags: flags{access: access.NewFlags()}, streams: streams, environment: environment,
		report: report.New(streams.ErrOut, environment, clock),
	}
	cobraCommand := &cobra.Command{
		Use:   "apply [flags] BUNDLE_NAME [PATH...]",
		Short: "Make Bundles of folders and write them to the hub",
		Long: `Makes a Bundle of each PATH that contains a fleet.yaml or manifests, and of each folder below it that contains a
fleet.yaml, and writes them to the hub. A PATH may be a glob, and begins at the working directory even with a slash in front.
Without PATH it is the working directory.

The name of a Bundle is BUNDLE_NAME with the path of its folder. Bundles that carry the label
fleet.cattle.io/repo-name=BUNDLE_NAME and are not among those of this call are deleted.

A fleet.yaml may name local charts and values files only in the git work tree of its folder. Without a work tree, it may name
those below PATH; of a glob, below the part before its wildcards. The SSH agent is used only for repositories that
--helm-repo-url-regex allows.

Helm values are not stored in a Bundle, but in a Secret of its name.

A folder without targets goes to the ClusterGroup "default". The hub creates it only in the workspace fleet-local: create it in
others, or name targets in fleet.yaml.

With -o, the Bundles are printed instead. No cluster is needed for that.

Exit codes: 0 done, 1 failed.`,
		Example: `  # Make a Bundle of the folder app for the targets of its fleet.yaml
  fleet apply -n fleet-default demo app

  # See what would be written
  fleet apply -o - demo app

  # Delete the Bundles of folders that are gone
  fleet apply -n fleet-default --label fleet.cattle.io/repo-name=demo demo ./apps/*`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cobraCommand *cobra.Command, args []string) error {
			return c.finish(c.run(cobraCommand.Context(), cobraCommand.Flags(), args))
		},
	}
	c.bind(cobraCommand.Flags())
	cobraCommand.SetFlagErrorFunc(func(cobraCommand *cobra.Command, err error) error {
		return c.finish(exit.Errorf(exit.Usage, "%w", err).With(cobraCommand.CommandPath() + " --help"))
	})
	return cobraCommand
}

// finish prints an error in the format that GitRepo jobs read.
func (c *command) finish(err error) error {
	if hint := pack.Hint(err); hint != "" {
		c.report.Warn(hint)
	}
	return c.report.Finish(exit.Reach(err, c.access.Target()))
}

// attempt makes the Bundles and prints or writes them.
func (c *command) attempt(ctx context.Context, paths []string, folders []pack.Folder, options pack.Options) error {
	for _, folder := range folders {
		c.report.Log("packing " + folder.Path)
	}
	bundles, err := pack.Pack(ctx, folders, options)
	if err != nil {
		return err
	}
	if err := c.warnings(bundles); err != nil {
		return err
	}
	if err := checkTargetNames(bundles); err != nil {
		return err
	}
	if c.output != "" {
		if len(bundles) == 0 {
			return nothingFound(paths)
		}
		return c.print(bundles)
	}
	return c.write(ctx, paths, options.Name, bundles)
}

func nothingFound(paths []string) error {
	return fmt.Errorf("no resource found at the following paths to deploy: %v", paths)
}

// warnings prints the warnings about all Bundles. With --strict they are an error.
func (c *command) warnings(bundles []*pack.Bundle) error {
	found := slices.Concat(c.missing, sameName(bundles))
	for _, bundle := range bundles {
		for _, warning := range bundle.Warnings {
			found = append(found, warning.String())
		}
	}
	for _, warning := range found {
		c.report.Warn(warning)
	}
	if len(found) > 0 && c.strict {
		return fmt.Errorf("warnings are errors with --strict: %d found", len(found))
	}
	return nil
}

// retrying calls attempt until there is no conflict with another writer.
func retrying(attempts int, attempt func() error) error {
	for {
		err := attempt()
		attempts--
		if attempts <= 0 || !hasConflict(err) {
			return err
		}
	}
}

// hasConflict reports whether an error, or one of those that joined has joined, is a conflict.
func hasConflict(err error) bool {
	var several *exit.Error
	if errors.As(err, &several) {
		return slices.ContainsFunc(several.Problems, apierrors.IsConflict)
	}
	return apierrors.IsConflict(err)
}
