package deploy

import (
	"bytes"
	"fmt"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/kube"
	"helm.sh/helm/v3/pkg/release"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// finisher turns what Helm rendered into what is installed: it adds the objects that are
// no templates, marks every object as one of the set, and moves it where the options want it. It is Helm's
// post-renderer, which sees no hooks: FinishHooks does the same with these.
type finisher struct {
	Package *bundlePackage
	Set     set
	// TargetNamespace, if not empty, is where every object goes.
	TargetNamespace string
	// DeleteCRDs lets CRDs go with the release.
	DeleteCRDs bool
	// Namespaced tells whether objects of a kind are in a namespace. Only asked for with a TargetNamespace.
	Namespaced func(schema.GroupVersionKind) (bool, error)
	// Installed is the agent's Deployment of another release, of which some is kept; nil for none.
	Installed *unstructured.Unstructured
	// Done is told the manifest that will be installed.
	Done func(manifest string)

	// rendered are the objects that wait for the hooks, and are kustomized with them; see FinishHooks.
	rendered   []*unstructured.Unstructured
	hooks      []*release.Hook
	kustomized bool
}

// Run does it, for Helm.
func (f *finisher) Run(rendered *bytes.Buffer) (*bytes.Buffer, error) {
	objects, err := parseObjects(rendered.Bytes())
	if err != nil {
		return nil, err
	}
	switch {
	case f.kustomized:
		objects = f.rendered // what was rendered now may differ, and does not go with the hooks
	case f.kustomizesHooks():
		f.rendered = objects
		return &bytes.Buffer{}, nil // nothing is installed in this run
	case f.Package.Style.Kustomization != "":
		if objects, err = kustomize(f.Package, objects); err != nil {
			return nil, err
		}
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
	sortForInstall(objects)
	text, err := formatObjects(objects)
	if err != nil {
		return nil, err
	}
	f.Done(string(text))
	return bytes.NewBuffer(text), nil
}

// rawObjects are the objects of a chart that Helm does not render. Documents without a kind are no objects.
func rawObjects(c *chart.Chart) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	for _, f := range c.Files {
		name, isRaw := strings.CutPrefix(f.Name, rawFolder)
		if !isRaw {
			continue
		}
		parsed, err := parseObjects(f.Data)
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

func (f *finisher) finish(object *unstructured.Unstructured) error {
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
	if isCRD(object.GroupVersionKind()) && !f.DeleteCRDs {
		annotations[kube.ResourcePolicyAnno] = kube.KeepPolicy
	}
	object.SetAnnotations(annotations)
	if f.Installed != nil && isAgentDeployment(object) {
		keepInstalled(object, f.Installed)
	}
	return f.move(object)
}

// checkMetadata refuses what could not be marked: setting a label there would lose what the user wrote.
func checkMetadata(object *unstructured.Unstructured) error {
	for _, field := range []string{"labels", "annotations"} {
		if _, _, err := unstructured.NestedStringMap(object.Object, "metadata", field); err != nil {
			return fmt.Errorf("YAML parse error: metadata.%s of %s %q: every value has to be a string", field,
				object.GetKind(), object.GetName())
		}
	}
	return nil
}

func isCRD(gvk schema.GroupVersionKind) bool {
	return gvk.Group == "apiextensions.k8s.io" && gvk.Kind == "CustomResourceDefinition"
}

func (f *finisher) move(object *unstructured.Unstructured) error {
	if f.TargetNamespace == "" {
		return nil
	}
	gvk := object.GroupVersionKind()
	namespaced, err := f.Namespaced(gvk)
	if err != nil {
		return fmt.Errorf("finding out whether %s is in a namespace: %w", gvk.Kind, err)
	}
	if !namespaced {
		return clusterScoped(object.GetName(), gvk)
	}
	object.SetNamespace(f.TargetNamespace)
	return nil
}

// clusterScoped is the error for an object that is in no namespace and would have to be in one.
func clusterScoped(name string, gvk schema.GroupVersionKind) error {
	return because(fleet.ReasonOutsideNamespace, fmt.Errorf("invalid cluster scoped object [name=%s kind=%s apiVersion=%s]: with \"namespace\" every object has to be in a namespace; use \"defaultNamespace\" instead",
		name, gvk.Kind, gvk.GroupVersion()))
}
