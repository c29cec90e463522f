// Package diff implements `fleet bundlediff`: which deployed resources differ from their Bundle, or are not ready?
//
//	BundleDeployments (status) ─► gather ─► Bundles with differences ─► text, JSON
//	                                                           └──► + Bundle ─► snippet for fleet.yaml
//
// The agents have compared the resources. This command only reads what they reported.
package diff

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/yaml"

	"github.com/fleet-hub/fleet/internal/cmd/cli/access"
	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
	"github.com/fleet-hub/fleet/internal/cmd/cli/report"
	"github.com/fleet-hub/fleet/internal/cmd/env"
	"github.com/fleet-hub/fleet/internal/protocol/names"
)

// everywhere is the value of -n that means all namespaces. It is the default, as in Rancher Fleet.
const everywhere = names.LocalWorkspace

type command struct {
	streams genericiooptions.IOStreams
	access  *access.Flags
	report  report.Reporter

	deployment, bundle string
	json, fleetYAML    bool
}

// New returns the command. clock returns the current time.
func New(streams genericiooptions.IOStreams, clock func() time.Time, environment env.Environment) *cobra.Command {
	c := &command{streams: streams, access: access.NewFlags(), report: report.New(streams.ErrOut, environment, clock)}
	cobraCommand := &cobra.Command{
		Use:     "bundlediff",
		Aliases: []string{"diff"},
		Short:   "Show deployed resources that differ from their Bundle or are not ready",
		Long: `Shows the resources that agents report as modified, missing, extra or not ready, by Bundle and BundleDeployment.
BundleDeployments without such resources are not shown. An agent reports the first 10 resources of each list.

With --fleet-yaml, prints the comparePatches for fleet.yaml with which the modifications of one BundleDeployment no
longer count: those of its Bundle, and one for each modified resource. Missing and extra resources are left out.

The namespace of a BundleDeployment is that of its cluster, not the workspace. -n fleet-local, the default, means all
namespaces.

Exit codes: 0 done, also if there are differences, 1 failed.`,
		Example: `  fleet bundlediff
  fleet bundlediff --bundle demo-app --json | jq '.bundleDeploymentDiffs[].namespace'
  fleet bundlediff --bundle-deployment cluster-fleet-default-west-0123456789ab/demo-app --fleet-yaml`,
	}
	c.bind(cobraCommand.Flags())
	c.report.Bind(cobraCommand, c.run)
	return cobraCommand
}

func (c *command) bind(flags *pflag.FlagSet) {
	c.access.SetNamespace(everywhere)
	c.access.Bind(flags)
	c.access.BindAll(flags)
	flags.Lookup("namespace").Usage = "namespace of the BundleDeployments; fleet-local means all"
	flags.Lookup("all-namespaces").Usage = "in all namespaces"
	flags.StringVar(&c.deployment, "bundle-deployment", "", "show only this BundleDeployment: NAME or NAMESPACE/NAME")
	flags.StringVarP(&c.bundle, "bundle", "b", "", "show only this Bundle: NAME or WORKSPACE/NAME")
	flags.BoolVar(&c.json, "json", false, "print JSON")
	flags.BoolVar(&c.fleetYAML, "fleet-yaml", false, "print comparePatches for fleet.yaml (needs --bundle-deployment)")
}

func (c *command) run(ctx context.Context) error {
	switch {
	case c.json && c.fleetYAML:
		return errors.New("cannot specify both --json and --fleet-yaml")
	case c.fleetYAML && c.deployment == "":
		return errors.New("--fleet-yaml needs --bundle-deployment")
	}
	hub, err := c.access.Open()
	if err != nil {
		return err
	}
	namespace := hub.Namespace
	if namespace == everywhere {
		namespace = ""
	}
	wanted := filter{deployment: parseRef(c.deployment, namespace), bundle: parseRef(c.bundle, "")}
	if c.deployment == "" {
		wanted.deployment.namespace = namespace
	}
	found, err := gather(ctx, hub, wanted)
	if err != nil {
		return err
	}
	for _, warning := range found.warnings {
		c.report.Warn(warning)
	}
	if c.deployment != "" {
		return c.printOne(ctx, hub, found)
	}
	return c.printAll(found, wanted)
}

// printOne prints the only BundleDeployment that was asked for.
func (c *command) printOne(ctx context.Context, hub *access.Cluster, found findings) error {
	all := deploymentsOf(found.bundles)
	switch {
	case len(all) == 0:
		return fmt.Errorf("failed to find bundle deployment %s", c.deployment)
	case len(all) > 1:
		return several("BundleDeployments", c.deployment, each(all, func(d Deployment) string { return d.Namespace })).
			With("fleet bundlediff --bundle-deployment " + all[0].Namespace + "/" + all[0].Name)
	case c.json:
		return c.encode(all[0])
	case !c.fleetYAML:
		return c.write(textOf(all[0]))
	}
	return c.printSnippet(ctx, hub, found.bundles[0])
}

func (c *command) printAll(found findings, wanted filter) error {
	bundles := found.bundles
	if c.json && c.bundle == "" {
		return c.encode(bundles)
	}
	if c.json && len(bundles) > 1 {
		return several("Bundles", c.bundle, each(bundles, func(b Bundle) string { return b.Namespace })).
			With("fleet bundlediff --bundle " + bundles[0].Namespace + "/" + bundles[0].Name + " --json")
	}
	if len(bundles) == 0 {
		_, err := fmt.Fprintln(c.streams.ErrOut, c.access.Target().On(nothing(found, wanted)))
		if err != nil || !c.json {
			return err
		}
		return c.encode(Bundle{Name: wanted.bundle.name, Namespace: wanted.bundle.namespace, Deployments: []Deployment{}})
	}
	if c.json {
		return c.encode(bundles[0])
	}
	return c.write(textOfAll(bundles))
}

// nothing says that there is no difference, and where that was looked for.
func nothing(found findings, wanted filter) string {
	if found.selected == 0 && wanted.bundle.name != "" {
		return fmt.Sprintf("Bundle %s has no BundleDeployments%s: it does not exist, or no target picks a cluster. To list Bundles: "+
			"kubectl get bundles.fleet.cattle.io -A", line(wanted.bundle.String()), in(wanted.deployment.namespace))
	}
	if wanted.deployment.namespace == "" {
		return "No BundleDeployment has resources that are modified or not ready."
	}
	return fmt.Sprintf("No BundleDeployment in namespace %s has resources that are modified or not ready. "+
		"The namespace of a BundleDeployment is that of its cluster; without -n, all are searched.", line(wanted.deployment.namespace))
}

// in returns the text for a namespace that limits a search.
func in(namespace string) string {
	if namespace == "" {
		return ""
	}
	return " in namespace " + line(namespace)
}

// several returns the error for a name that objects in these namespaces have.
func several(kind, name string, namespaces []string) *exit.Error {
	const most = 10
	list := namespaces
	if more := len(namespaces) - most; more > 0 {
		list = append(namespaces[:most:most], fmt.Sprintf("and %d more", more))
	}
	return exit.Errorf(exit.Failed, "%d %s have the name %s, in the namespaces %s", len(namespaces), kind, name, strings.Join(list, ", "))
}

func (c *command) encode(result any) error {
	text, err := json.MarshalIndent(result, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding as JSON: %w", err)
	}
	return c.write(plain(string(text)) + "\n")
}

func (c *command) write(text string) error {
	_, err := fmt.Fprint(c.streams.Out, text)
	return err
}

// printSnippet prints the comparePatches of the only BundleDeployment of a Bundle.
func (c *command) printSnippet(ctx context.Context, hub *access.Cluster, bundle Bundle) error {
	own, warning, err := patchesOf(ctx, hub, bundle)
	if err != nil {
		return err
	}
	made, warnings := snippet(own, bundle.Deployments[0].Modified)
	for _, text := range append([]string{warning}, warnings...) {
		if text != "" {
			c.report.Warn(text)
		}
	}
	text, err := yaml.Marshal(made)
	if err != nil {
		return fmt.Errorf("encoding as YAML: %w", err)
	}
	return c.write(string(text))
}
