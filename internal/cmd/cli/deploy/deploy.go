// Package deploy implements `fleet deploy -d`: which objects would an agent install for this BundleDeployment?
//
//	file ─► Content, BundleDeployment ─► render (chart, Helm, marks of the agent) ─► objects, hooks ─► YAML list
//
// The chart and the objects are made by the packages of the agent, internal/deploy/source and internal/deploy/release. No
// cluster is needed.
package deploy

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"helm.sh/helm/v3/pkg/chartutil"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/yaml"

	"github.com/fleet-hub/fleet/internal/cmd/cli/access"
	"github.com/fleet-hub/fleet/internal/cmd/cli/bundlefile"
	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
	"github.com/fleet-hub/fleet/internal/cmd/cli/report"
	"github.com/fleet-hub/fleet/internal/cmd/env"
	"github.com/fleet-hub/fleet/internal/protocol/names"
)

// Defaults of flags.
const (
	defaultNamespace   = "default"
	defaultKubeVersion = "v1.25.0"
)

type command struct {
	streams genericiooptions.IOStreams
	access  *access.Flags
	report  report.Reporter

	file, agentNamespace, kubeVersion string
	dryRun                            bool
}

// New returns the command. clock returns the current time.
func New(streams genericiooptions.IOStreams, clock func() time.Time, environment env.Environment) *cobra.Command {
	c := &command{streams: streams, access: access.NewFlags(), report: report.New(streams.ErrOut, environment, clock)}
	cobraCommand := &cobra.Command{
		Use:   "deploy -d -i FILE",
		Short: "Print the objects that an agent would install for a BundleDeployment",
		Long: `Reads a Content and a BundleDeployment from a file, as 'fleet target' prints them, and prints the objects that an
agent would install for them: a YAML list, hooks last. No cluster is needed, and --kubeconfig and --context have no
effect.

Without a cluster, templates find no objects with 'lookup', values from Secrets and ConfigMaps (valuesFrom) are left
out, and kinds that are not built in count as namespaced. CustomResourceDefinitions in the folder crds/ of a chart
are not part of the output.

Only this dry run exists: without -d the command is refused.

Exit codes: 0 done, 1 failed.`,
		Example: `  fleet target -b bundle.yaml -n fleet-default > deployment.yaml
  fleet deploy -d -i deployment.yaml`,
	}
	c.bind(cobraCommand.Flags())
	c.report.Bind(cobraCommand, func(ctx context.Context) error {
		if c.file == "" {
			return cobraCommand.Help()
		}
		return c.run(ctx)
	})
	return cobraCommand
}

func (c *command) bind(flags *pflag.FlagSet) {
	c.access.SetNamespace(defaultNamespace)
	c.access.Bind(flags)
	flags.Lookup("context").Usage = "has no effect here"
	flags.Lookup("namespace").Usage = "namespace of the release if the options name none"
	flags.StringVarP(&c.file, "input-file", "i", "", "file with a Content and a BundleDeployment; - is standard input")
	flags.BoolVarP(&c.dryRun, "dry-run", "d", false, "print the objects instead of installing them (required)")
	flags.StringVarP(&c.agentNamespace, "agent-namespace", "a", names.SystemNamespace, "namespace of the agent, for annotations of the chart")
	flags.StringVar(&c.kubeVersion, "kube-version", defaultKubeVersion, "version of Kubernetes to render for")
}

func (c *command) run(ctx context.Context) error {
	if !c.dryRun {
		return exit.Errorf(exit.Failed, "without -d, deploy would install the release itself, which only agents do here").
			With("fleet deploy -d -i "+c.file, "to write Bundles to the hub, whose agents deploy them: fleet apply BUNDLE_NAME PATH")
	}
	version, err := chartutil.ParseKubeVersion(c.kubeVersion)
	if err != nil {
		return fmt.Errorf("--kube-version %q: %w", c.kubeVersion, err)
	}
	text, err := bundlefile.Read(c.file, c.streams.In)
	if err != nil {
		return err
	}
	content, deployment, err := bundlefile.ParseDeployment(text)
	if err != nil {
		return err
	}
	rendered, err := render(ctx, input{
		content: content, deployment: deployment, namespace: c.access.Namespace(), agentNamespace: c.agentNamespace, kubernetes: *version,
	})
	if err != nil {
		return err
	}
	for _, warning := range rendered.warnings {
		c.report.Warn(warning)
	}
	list, err := yaml.Marshal(rendered.objects)
	if err != nil {
		return fmt.Errorf("encoding objects: %w", err)
	}
	_, err = fmt.Fprintf(c.streams.Out, "%s\n", list)
	return err
}
