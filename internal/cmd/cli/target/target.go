// Package target implements `fleet target`: to which clusters would the hub deploy this Bundle, and with which options?
//
//	file ─► Bundle ─► gather (Clusters, ClusterGroups, mappings, values) ─► decide ─► Content, BundleDeployments
//
// The rules are those of the hub: internal/rules/selection finds the clusters, internal/rules/delivery makes the
// BundleDeployments. Nothing is written.
package target

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/yaml"

	"github.com/fleet-hub/fleet/internal/cmd/cli/access"
	"github.com/fleet-hub/fleet/internal/cmd/cli/bundlefile"
	"github.com/fleet-hub/fleet/internal/cmd/cli/report"
	"github.com/fleet-hub/fleet/internal/cmd/env"
	"github.com/fleet-hub/fleet/internal/protocol/names"
)

type command struct {
	streams genericiooptions.IOStreams
	access  *access.Flags
	report  report.Reporter

	file   string
	inputs bool
}

// New returns the command. clock returns the current time.
func New(streams genericiooptions.IOStreams, clock func() time.Time, environment env.Environment) *cobra.Command {
	c := &command{streams: streams, access: access.NewFlags(), report: report.New(streams.ErrOut, environment, clock)}
	cobraCommand := &cobra.Command{
		Use:   "target -b FILE",
		Short: "Print what the hub would deploy of a Bundle, and to which clusters",
		Long: `Reads a Bundle from a file, finds its clusters as the hub does, and prints the Content and the BundleDeployment
of each cluster. Nothing is written.

The namespace of the Bundle is that of -n. The values of a Bundle without values of its own (spec.valuesHash) are
read from its Secret. Limits of the rollout do not apply. Helm values, which the hub keeps in Secrets, are part of
the output.

A cluster whose options cannot be computed is an error; the other clusters are printed all the same.

Exit codes: 0 done, 1 failed.`,
		Example: `  # Which objects would the folder app produce?
  fleet apply -o - demo app | fleet target -b - -n fleet-default

  # Which objects would the agent of the only matched cluster install?
  fleet target -b bundle.yaml -n fleet-default > deployment.yaml
  fleet deploy -d -i deployment.yaml`,
	}
	c.access.SetNamespace(names.LocalWorkspace) // as in the other Bundle verbs of Rancher Fleet
	c.access.Bind(cobraCommand.Flags())
	cobraCommand.Flags().StringVarP(&c.file, "bundle-file", "b", "", "file with the Bundle; - is standard input")
	cobraCommand.Flags().BoolVarP(&c.inputs, "dump-input-list", "l", false, "print the matched Clusters and ClusterGroups to standard error")
	c.report.Bind(cobraCommand, func(ctx context.Context) error {
		if c.file == "" {
			return cobraCommand.Help()
		}
		return c.run(ctx)
	})
	return cobraCommand
}

func (c *command) run(ctx context.Context) error {
	text, err := bundlefile.Read(c.file, c.streams.In)
	if err != nil {
		return err
	}
	bundle, err := bundlefile.ParseBundle(text)
	if err != nil {
		return err
	}
	bundle.Namespace = c.access.Namespace()
	hub, err := c.access.Open()
	if err != nil {
		return err
	}
	in, err := gather(ctx, hub, bundle)
	if err != nil {
		return err
	}
	result, err := decide(in)
	for _, warning := range result.warnings {
		c.report.Warn(warning)
	}
	if c.inputs {
		if err := export(c.streams.ErrOut, result.inputs...); err != nil {
			return err
		}
	}
	return errors.Join(export(c.streams.Out, result.objects...), err)
}

// export prints each object as a YAML document that begins with --- and ends with a blank line.
func export(out io.Writer, objects ...any) error {
	for _, object := range objects {
		text, err := yaml.Marshal(object)
		if err != nil {
			return fmt.Errorf("encoding object: %w", err)
		}
		if _, err := fmt.Fprintf(out, "---\n%s\n", text); err != nil {
			return err
		}
	}
	return nil
}
