package apply

import (
	"context"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// scans returns the client of ImageScans.
func (w *writer) scans() (dynamic.ResourceInterface, error) {
	all, err := dynamic.NewForConfig(w.cluster.Config)
	if err != nil {
		return nil, fmt.Errorf("building client: %w", err)
	}
	return all.Resource(fleet.SchemeGroupVersion.WithResource("imagescans")).Namespace(w.cluster.Namespace), nil
}

// pruneScans deletes the ImageScans that an earlier call has made and this one has not. It leaves them alone if the user
// may not list them, because they have no effect.
func (w *writer) pruneScans(ctx context.Context, name string, targets []*target) error {
	selector, exists := selectorOf(name)
	if !exists {
		return nil
	}
	client, err := w.scans()
	if err != nil {
		return err
	}
	made, err := client.List(ctx, metav1.ListOptions{LabelSelector: selector})
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		w.report.Log("not deleting ImageScans: " + err.Error())
		return nil
	}
	if err != nil {
		return explain("listing ImageScans in "+w.cluster.Namespace, err)
	}
	for _, scan := range goneScans(made.Items, targets) {
		w.report.Log("deleting ImageScan " + scan)
		if err := client.Delete(ctx, scan, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return explain(fmt.Sprintf("deleting ImageScan %s/%s", w.cluster.Namespace, scan), err)
		}
	}
	return nil
}

// goneScans returns the names of the ImageScans that no Bundle has.
func goneScans(made []unstructured.Unstructured, targets []*target) []string {
	kept := map[string]bool{}
	for _, one := range targets {
		for _, scan := range one.ImageScans {
			kept[scan.GetName()] = true
		}
	}
	var names []string
	for _, scan := range made {
		if !kept[scan.GetName()] && scan.GetDeletionTimestamp() == nil {
			names = append(names, scan.GetName())
		}
	}
	return names
}

// writeScans writes the ImageScans of a Bundle, unless they are the same already.
func (w *writer) writeScans(ctx context.Context, t *target) error {
	if len(t.ImageScans) == 0 {
		return nil
	}
	client, err := w.scans()
	if err != nil {
		return err
	}
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
			return explain(fmt.Sprintf("writing ImageScan %s/%s", t.Namespace, scan.GetName()), err)
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
