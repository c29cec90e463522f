package source

import (
	"bytes"
	"fmt"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/kube"
	"helm.sh/helm/v3/pkg/release"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fleet-hub/fleet/internal/deploy/manifest"
	"github.com/fleet-hub/fleet/internal/deploy/outcome"
	"github.com/fleet-hub/fleet/internal/deploy/placement"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// PostRenderer turns what Helm rendered into the objects to install: it adds the objects that are not templates, marks
// every object as part of the set, and moves it to the target namespace. It is Helm's post-renderer. Helm passes
// no hooks to a post-renderer, so FinishHooks does the same for hooks.
type PostRenderer struct {
	Package *Package
	Set     placement.Set
	// TargetNamespace, if not empty, is the namespace of every object.
	TargetNamespace string
	// DeleteCRDs deletes CRDs together with the release.
	DeleteCRDs bool
	// Namespaced reports whether a kind is namespaced. It is only called with a TargetNamespace.
	Namespaced func(schema.GroupVersionKind) (bool, error)
	// Installed is the agent's Deployment of another release; some of its fields are kept. May be nil.
	Installed *unstructured.Unstructured
	// Limit calls a function that builds the kustomization, and may return an error before it has ended. Nil means no limit.
	Limit func(build func() error) error

	// rendered are objects that have to be kustomized together with the hooks; see FinishHooks.
	rendered   []*unstructured.Unstructured
	hooks      []*release.Hook
	kustomized bool
	// plainHooks are hooks that are not templates, of the last run.
	plainHooks []*release.Hook
}

// CheckDependencies is that of the package.
func (f *PostRenderer) CheckDependencies() error { return f.Package.CheckDependencies() }

// Run implements Helm's post-renderer.
func (f *PostRenderer) Run(rendered *bytes.Buffer) (*bytes.Buffer, error) {
	objects, err := manifest.Parse(rendered.Bytes())
	if err != nil {
		return nil, err
	}
	switch {
	case f.kustomized:
		objects = f.rendered // a second rendering may differ from the one that was kustomized with the hooks
	case f.kustomizesHooks():
		f.rendered = objects
		return &bytes.Buffer{}, nil // this run installs nothing
	case f.Package.Style.Kustomization != "":
		var built []*unstructured.Unstructured
		if err := f.limit(func() (err error) {
			built, err = kustomize(f.Package, objects)
			return err
		}); err != nil {
			return nil, err
		}
		objects = built
	}
	if f.Package.Style.isRaw() {
		raw, err := rawObjects(f.Package.Chart)
		if err != nil {
			return nil, err
		}
		objects = append(objects, raw...)
	}
	for _, object := range objects {
		if err := f.finish(object); err != nil {
			return nil, err
		}
	}
	if objects, f.plainHooks, err = withoutHooks(objects); err != nil {
		return nil, err
	}
	manifest.SortForInstall(objects)
	text, err := manifest.Format(objects)
	if err != nil {
		return nil, err
	}
	return bytes.NewBuffer(text), nil
}

// limit calls a function with the limit. After an error, the function may still be running, and its results must not be read.
func (f *PostRenderer) limit(build func() error) error {
	if f.Limit == nil {
		return build()
	}
	return f.Limit(build)
}

// rawObjects returns the objects of a chart that Helm does not render. It skips documents without a kind.
func rawObjects(c *chart.Chart) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	for _, f := range c.Files {
		name, isRaw := strings.CutPrefix(f.Name, rawFolder)
		if !isRaw {
			continue
		}
		parsed, err := manifest.Parse(f.Data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		for _, object := range parsed {
			if object.GetKind() != "" {
				objects = append(objects, object)
			}
		}
	}
	return objects, nil
}

func (f *PostRenderer) finish(object *unstructured.Unstructured) error {
	if err := checkMetadata(object); err != nil {
		return err
	}
	labels := object.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[fleet.LabelSetHash] = f.Set.Hash
	object.SetLabels(labels)

	annotations := object.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[fleet.AnnotationSetID] = f.Set.ID
	if manifest.IsCRD(object.GroupVersionKind()) && !f.DeleteCRDs {
		annotations[kube.ResourcePolicyAnno] = kube.KeepPolicy
	}
	object.SetAnnotations(annotations)
	if f.Installed != nil && isAgentDeployment(object) {
		keepInstalled(object, f.Installed)
	}
	return f.move(object)
}

// checkMetadata returns an error if the labels or annotations are not strings: setting a label would drop the
// user's values. It makes null an empty map, or an empty value in a map, as the API server does.
func checkMetadata(object *unstructured.Unstructured) error {
	for _, field := range []string{"labels", "annotations"} {
		values, found, err := unstructured.NestedNullCoercingStringMap(object.Object, "metadata", field)
		if err == nil && found {
			err = unstructured.SetNestedStringMap(object.Object, values, "metadata", field)
		}
		if err != nil {
			return fmt.Errorf("YAML parse error: metadata.%s of %s %q: every value has to be a string", field,
				object.GetKind(), object.GetName())
		}
	}
	return nil
}

func (f *PostRenderer) move(object *unstructured.Unstructured) error {
	if f.TargetNamespace == "" {
		return nil
	}
	gvk := object.GroupVersionKind()
	namespaced, err := f.Namespaced(gvk)
	if err != nil {
		return fmt.Errorf("checking whether %s is namespaced: %w", gvk.Kind, err)
	}
	if !namespaced {
		return outcome.ClusterScoped(object.GetName(), gvk)
	}
	object.SetNamespace(f.TargetNamespace)
	return nil
}
