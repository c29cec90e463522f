package apply

import (
	"context"
	"errors"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/fleet-hub/fleet/internal/pack"
	"github.com/fleet-hub/fleet/internal/rules/delivery"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// takeValues moves the Helm values of a Bundle into the data of its values Secret. The Bundle keeps their hash.
func takeValues(bundle *fleet.Bundle) (map[string][]byte, error) {
	data := map[string][]byte{}
	take := func(options *fleet.BundleDeploymentOptions, key string) error {
		text, err := delivery.TakeValues(options)
		if err != nil || text == nil {
			return err
		}
		if key == "" {
			return errors.New("a target with helm.values has no name, which their Secret needs")
		}
		if data[key] != nil {
			return fmt.Errorf("two targets with helm.values have the name %q: give each a name of its own (%q is that of the Bundle's values)",
				key, delivery.KeyBundleValues)
		}
		data[key] = text
		return nil
	}
	if err := take(&bundle.Spec.BundleDeploymentOptions, delivery.KeyBundleValues); err != nil {
		return nil, err
	}
	for i := range bundle.Spec.Targets {
		if err := take(&bundle.Spec.Targets[i].BundleDeploymentOptions, bundle.Spec.Targets[i].Name); err != nil {
			return nil, err
		}
	}
	if len(data) == 0 {
		return nil, nil
	}
	bundle.Spec.ValuesHash = delivery.BundleValuesHash(data)
	dropValuesFiles(&bundle.Spec.BundleDeploymentOptions)
	for i := range bundle.Spec.Targets {
		dropValuesFiles(&bundle.Spec.Targets[i].BundleDeploymentOptions)
	}
	return data, nil
}

// checkTargetNames returns an error if a Secret cannot contain the values of a target, whose name is their key. They are checked before
// anything is deleted or written.
func checkTargetNames(bundles []*pack.Bundle) error {
	for _, bundle := range bundles {
		for _, target := range bundle.Spec.Targets {
			text, err := delivery.TakeValues(&target.BundleDeploymentOptions) // of a copy
			if err != nil {
				return fmt.Errorf("%s: %w", bundle.Folder, err)
			}
			if text != nil && target.Name != "" && len(validation.IsConfigMapKey(target.Name)) > 0 {
				return fmt.Errorf("%s: target %q has helm.values, so its name may contain only letters, digits, '-', '_' and '.'",
					bundle.Folder, target.Name)
			}
		}
	}
	return nil
}

// dropValuesFiles removes the names of the values files, which are merged into the values. TakeValues has not copied the
// options if they have no values.
func dropValuesFiles(options *fleet.BundleDeploymentOptions) {
	if options.Helm != nil {
		helm := *options.Helm
		helm.ValuesFiles = nil
		options.Helm = &helm
	}
}

// writeSecret writes the values Secret of a Bundle, or deletes it if the Bundle has no values. No other Secret is touched.
func (w *writer) writeSecret(ctx context.Context, t *target, bundle *fleet.Bundle) error {
	secrets, old, values := w.cluster.Core.CoreV1().Secrets(bundle.Namespace), t.secret, t.values
	owner := *metav1.NewControllerRef(bundle, fleet.SchemeGroupVersion.WithKind("Bundle"))
	if len(values) == 0 {
		if !isOwn(old, bundle) {
			return nil
		}
		err := secrets.Delete(ctx, old.Name, *metav1.NewPreconditionDeleteOptions(string(old.UID)))
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	}
	wanted := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: bundle.Namespace, Name: bundle.Name, Labels: bundle.Labels, OwnerReferences: []metav1.OwnerReference{owner},
		},
		Type: fleet.SecretTypeBundleValues,
		Data: values,
	}
	if old == nil {
		_, err := secrets.Create(ctx, wanted, metav1.CreateOptions{})
		return err
	}
	if maps.Equal(old.Labels, wanted.Labels) && equality.Semantic.DeepEqual(old.OwnerReferences, wanted.OwnerReferences) &&
		equality.Semantic.DeepEqual(old.Data, wanted.Data) {
		return nil
	}
	after := old.DeepCopy()
	after.Labels, after.OwnerReferences, after.Data = wanted.Labels, wanted.OwnerReferences, wanted.Data
	_, err := secrets.Update(ctx, after, metav1.UpdateOptions{})
	return err
}
