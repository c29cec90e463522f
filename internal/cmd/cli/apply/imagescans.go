package apply

import (
	"context"
	"maps"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// writeScans writes the ImageScans of a Bundle, unless they are the same already.
func (w *writer) writeScans(ctx context.Context, t *target) error {
	if len(t.ImageScans) == 0 {
		return nil
	}
	all, err := dynamic.NewForConfig(w.cluster.Config)
	if err != nil {
		return err
	}
	client := all.Resource(fleet.SchemeGroupVersion.WithResource("imagescans")).Namespace(t.Namespace)
	for _, scan := range t.ImageScans {
		scan = scan.DeepCopy()
		scan.SetNamespace(t.Namespace)
		scan.SetLabels(t.Labels)
		scan.SetAnnotations(t.Annotations)
		if repository := t.Labels[fleet.LabelRepoName]; repository != "" {
			if err := unstructured.SetNestedField(scan.Object, repository, "spec", "gitrepoName"); err != nil {
				return err
			}
		}
		if err := writeScan(ctx, client, scan); err != nil {
			return err
		}
	}
	return nil
}

func writeScan(ctx context.Context, client dynamic.ResourceInterface, wanted *unstructured.Unstructured) error {
	old, err := client.Get(ctx, wanted.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = client.Create(ctx, wanted, metav1.CreateOptions{})
		return err
	}
	if err != nil {
		return err
	}
	if maps.Equal(old.GetLabels(), wanted.GetLabels()) && maps.Equal(old.GetAnnotations(), wanted.GetAnnotations()) &&
		equality.Semantic.DeepEqual(old.Object["spec"], wanted.Object["spec"]) {
		return nil
	}
	after := old.DeepCopy()
	after.SetLabels(wanted.GetLabels())
	after.SetAnnotations(wanted.GetAnnotations())
	after.Object["spec"] = wanted.Object["spec"]
	_, err = client.Update(ctx, after, metav1.UpdateOptions{})
	return err
}
