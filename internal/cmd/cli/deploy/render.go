package deploy

import (
	"context"
	"fmt"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/release"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/kustomize/kyaml/openapi"
	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/fleet-hub/fleet/internal/deploy/manifest"
	"github.com/fleet-hub/fleet/internal/deploy/outcome"
	"github.com/fleet-hub/fleet/internal/deploy/placement"
	deployrelease "github.com/fleet-hub/fleet/internal/deploy/release"
	"github.com/fleet-hub/fleet/internal/deploy/source"
	"github.com/fleet-hub/fleet/internal/rules/content"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// maxNamed is the maximum number of objects that a warning names.
const maxNamed = 10

type input struct {
	content    *fleet.Content
	deployment *fleet.BundleDeployment
	// namespace is that of the release if the options name none.
	namespace, agentNamespace string
	kubernetes                chartutil.KubeVersion
}

// rendering is what to print.
type rendering struct {
	// objects are the contents of the objects, those of hooks last.
	objects  []map[string]any
	warnings []string
}

// render returns the objects that an agent would install. Errors are those of the agent.
func render(ctx context.Context, in input) (rendering, error) {
	bd := in.deployment
	if what := source.Unsupported(bd); what != "" {
		return rendering{}, &outcome.UnsupportedError{What: what}
	}
	read, err := content.Read(in.content)
	if err != nil {
		return rendering{}, err
	}
	options := bd.Spec.Options.DeepCopy()
	if options.TargetNamespace == "" && options.DefaultNamespace == "" {
		options.DefaultNamespace = in.namespace
	}
	id, _ := content.SplitDeploymentID(bd.Spec.DeploymentID)
	bundle, err := source.New(source.Input{
		Name: bd.Name, ManifestID: id, Commit: bd.Labels[fleet.LabelCommit], Resources: read.Resources,
		Options: options, Annotations: source.ChartAnnotations(bd, in.agentNamespace),
	})
	if err != nil {
		return rendering{}, err
	}
	out := rendering{objects: []map[string]any{}, warnings: warnings(in, id, bundle.Chart)}
	set := placement.RenderedSet(bd.Name)
	made, err := deployrelease.Render(ctx, deployrelease.Installation{
		DeploymentID: bd.Spec.DeploymentID, Release: placement.ReleaseOf(bd.Name, options), Options: options, Values: valuesOf(options),
		Chart: bundle.Chart, Set: set, Finish: &source.PostRenderer{
			Package: bundle, Set: set, TargetNamespace: options.TargetNamespace, DeleteCRDs: options.DeleteCRDResources, Namespaced: namespaced,
		},
	}, in.kubernetes)
	if err != nil {
		return rendering{}, err
	}
	objects, err := objectsOf(made)
	if err != nil {
		return rendering{}, err
	}
	for _, object := range objects {
		if err := manifest.CheckIdentity(object); err != nil {
			return rendering{}, err
		}
		out.objects = append(out.objects, object.Object)
	}
	return out, nil
}

// objectsOf returns the objects of a revision, and then those of its hooks.
func objectsOf(made *release.Release) ([]*unstructured.Unstructured, error) {
	all, err := manifest.Parse([]byte(made.Manifest))
	if err != nil {
		return nil, err
	}
	for _, hook := range made.Hooks {
		objects, err := manifest.Parse([]byte(hook.Manifest))
		if err != nil {
			return nil, fmt.Errorf("hook %s: %w", hook.Path, err)
		}
		all = append(all, objects...)
	}
	return all, nil
}

// valuesOf returns the values in the options.
func valuesOf(options *fleet.BundleDeploymentOptions) map[string]any {
	if options.Helm == nil || options.Helm.Values == nil || options.Helm.Values.Data == nil {
		return map[string]any{}
	}
	return options.Helm.Values.DeepCopy().Data
}

// namespaced reports whether a kind is namespaced. Only a cluster knows that of kinds that are not built in.
func namespaced(gvk schema.GroupVersionKind) (bool, error) {
	is, known := openapi.IsNamespaceScoped(kyaml.TypeMeta{APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind})
	return is || !known, nil
}

// warnings says in what the output may differ from what an agent would install.
func warnings(in input, manifestID string, c *chart.Chart) (out []string) {
	bd := in.deployment
	if manifestID != in.content.Name {
		out = append(out, fmt.Sprintf("BundleDeployment %s was made for Content %q (spec.deploymentID), not for %q", bd.Name, manifestID, in.content.Name))
	}
	if bd.Spec.ValuesHash != "" {
		out = append(out, fmt.Sprintf("the Helm values of BundleDeployment %s are in Secret %s/%s on the hub (spec.valuesHash) and are left out; `fleet target` prints them",
			bd.Name, bd.Namespace, bd.Name))
	}
	if helm := bd.Spec.Options.Helm; helm != nil && len(helm.ValuesFrom) > 0 {
		out = append(out, "values from Secrets and ConfigMaps of the cluster (helm.valuesFrom) are left out")
	}
	if names := crds(c); len(names) > 0 {
		out = append(out, "files with CustomResourceDefinitions, which an agent also installs, are not printed: "+strings.Join(names, ", "))
	}
	return out
}

// crds returns the names of the first files with CRDs of a chart.
func crds(c *chart.Chart) (names []string) {
	files := c.CRDObjects()
	for _, crd := range files[:min(len(files), maxNamed)] {
		names = append(names, crd.Filename)
	}
	if more := len(files) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return names
}
