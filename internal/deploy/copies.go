package deploy

import (
	"context"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// copyResources brings the Secrets and ConfigMaps that go with a BundleDeployment downstream. It reports
// whether one that was there already has changed: then the release has to be made again.
func (d *deployer) copyResources(ctx context.Context, bd *fleet.BundleDeployment, r *record, status *fleet.BundleDeploymentStatus) (changed bool, err error) {
	wanted := bd.Spec.Options.DownstreamResources
	r.copies = r.copies || len(wanted) > 0
	inPlace := status.DownstreamResourcesGeneration == bd.Spec.DownstreamResourcesGeneration &&
		status.AppliedDeploymentID == bd.Spec.DeploymentID
	if len(wanted) == 0 || inPlace || unsupported(bd) != "" {
		return false, nil
	}
	namespace := namespaceFor(&bd.Spec.Options)
	if err := d.ensureNamespace(ctx, namespace); err != nil {
		return false, err
	}
	for _, resource := range wanted {
		var updated bool
		switch {
		case strings.EqualFold(resource.Kind, "Secret"):
			updated, err = d.copySecret(ctx, bd.Name, resource.Name, namespace)
		case strings.EqualFold(resource.Kind, "ConfigMap"):
			updated, err = d.copyConfigMap(ctx, bd.Name, resource.Name, namespace)
		default:
			err = fmt.Errorf("downstreamResources: kind %q is neither Secret nor ConfigMap", resource.Kind)
		}
		if err != nil {
			return false, err
		}
		changed = changed || updated
	}
	status.DownstreamResourcesGeneration = bd.Spec.DownstreamResourcesGeneration
	return changed, nil
}

func (d *deployer) ensureNamespace(ctx context.Context, name string) error {
	namespaces := d.agent.clientset.CoreV1().Namespaces()
	_, err := namespaces.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = namespaces.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{FieldManager: fieldManager})
		if apierrors.IsAlreadyExists(err) {
			err = nil
		}
	}
	if err != nil {
		return fmt.Errorf("preparing namespace %s: %w", name, err)
	}
	return nil
}

func (d *deployer) copySecret(ctx context.Context, bundleDeployment, name, namespace string) (updated bool, err error) {
	source, err := d.hub.secret(ctx, name)
	if err != nil {
		return false, fmt.Errorf("reading Secret %s, which is to be copied: %w", name, err)
	}
	wanted := &corev1.Secret{ObjectMeta: copyMeta(source.ObjectMeta, bundleDeployment, namespace), Type: source.Type, Data: source.Data}
	secrets := d.agent.clientset.CoreV1().Secrets(namespace)
	current, err := secrets.Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		_, err = secrets.Create(ctx, wanted, metav1.CreateOptions{FieldManager: fieldManager})
		return false, err
	case err != nil:
		return false, fmt.Errorf("reading Secret %s/%s: %w", namespace, name, err)
	case sameMeta(current.ObjectMeta, wanted.ObjectMeta) && equality.Semantic.DeepEqual(current.Data, wanted.Data):
		return false, nil
	}
	next := current.DeepCopy()
	next.Labels, next.Annotations, next.Data = wanted.Labels, wanted.Annotations, wanted.Data
	_, err = secrets.Update(ctx, next, metav1.UpdateOptions{FieldManager: fieldManager})
	return true, err
}

func (d *deployer) copyConfigMap(ctx context.Context, bundleDeployment, name, namespace string) (updated bool, err error) {
	source, err := d.hub.configMap(ctx, name)
	if err != nil {
		return false, fmt.Errorf("reading ConfigMap %s, which is to be copied: %w", name, err)
	}
	wanted := &corev1.ConfigMap{ObjectMeta: copyMeta(source.ObjectMeta, bundleDeployment, namespace), Data: source.Data, BinaryData: source.BinaryData}
	configMaps := d.agent.clientset.CoreV1().ConfigMaps(namespace)
	current, err := configMaps.Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		_, err = configMaps.Create(ctx, wanted, metav1.CreateOptions{FieldManager: fieldManager})
		return false, err
	case err != nil:
		return false, fmt.Errorf("reading ConfigMap %s/%s: %w", namespace, name, err)
	case sameMeta(current.ObjectMeta, wanted.ObjectMeta) && equality.Semantic.DeepEqual(current.Data, wanted.Data) &&
		equality.Semantic.DeepEqual(current.BinaryData, wanted.BinaryData):
		return false, nil
	}
	next := current.DeepCopy()
	next.Labels, next.Annotations = wanted.Labels, wanted.Annotations
	next.Data, next.BinaryData = wanted.Data, wanted.BinaryData
	_, err = configMaps.Update(ctx, next, metav1.UpdateOptions{FieldManager: fieldManager})
	return true, err
}

// copyMeta is what a copy has of its source, and the label it is found by when it has to go.
func copyMeta(source metav1.ObjectMeta, bundleDeployment, namespace string) metav1.ObjectMeta {
	labels := maps.Clone(source.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[fleet.LabelBundleDeployment] = bundleDeployment
	return metav1.ObjectMeta{Name: source.Name, Namespace: namespace, Labels: labels, Annotations: source.Annotations}
}

func sameMeta(a, b metav1.ObjectMeta) bool {
	return maps.Equal(a.Labels, b.Labels) && maps.Equal(a.Annotations, b.Annotations)
}

// optional turns NotFound into success.
func optional(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
