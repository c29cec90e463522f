package apply

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/cmd/cli/access"
	"github.com/fleet-hub/fleet/internal/cmd/cli/report"
	"github.com/fleet-hub/fleet/internal/pack"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// ociSecret is the Secret of an OCI registry if no flag names one.
const ociSecret = "ocistorage"

// target is a Bundle to write, with its values apart.
type target struct {
	*pack.Bundle

	// values are the data of its values Secret.
	values map[string][]byte
	// size is the number of bytes of its JSON.
	size int
}

// write deletes the Bundles that are gone and writes the others.
func (c *command) write(ctx context.Context, paths []string, name string, bundles []*pack.Bundle) error {
	targets := make([]*target, 0, len(bundles))
	for _, bundle := range bundles {
		one := &target{Bundle: bundle}
		var err error
		if one.values, err = takeValues(bundle.Bundle); err != nil {
			return err
		}
		one.size = pack.Size(bundle.Bundle)
		targets = append(targets, one)
	}
	cluster, err := c.access.Open()
	if err != nil {
		return err
	}
	w := &writer{cluster: cluster, report: c.report}
	if len(targets) > 0 {
		if err := c.refuseRegistry(ctx, cluster); err != nil {
			return err
		}
	}
	old, err := w.gone(ctx, name, targets)
	if err != nil {
		return err
	}
	addOverwrites(old, bundles)
	// What may not fit is tried before anything is deleted.
	large := slices.DeleteFunc(slices.Clone(targets), func(t *target) bool { return t.size <= pack.StoreLimit })
	rest := slices.DeleteFunc(targets, func(t *target) bool { return t.size > pack.StoreLimit })
	refused, err := w.writeLarge(ctx, large)
	if err != nil {
		return err
	}
	if err := w.delete(ctx, old); err != nil {
		return err
	}
	if len(bundles) == 0 {
		return nothingFound(paths)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(c.concurrency)
	for _, one := range rest {
		group.Go(func() error { return w.bundle(ctx, one) })
	}
	return errors.Join(group.Wait(), refused)
}

// refuseRegistry returns an error if the contents are to be stored in an OCI registry.
func (c *command) refuseRegistry(ctx context.Context, cluster *access.Cluster) error {
	if enabled, err := strconv.ParseBool(c.environment("OCI_STORAGE")); err == nil && !enabled {
		return nil
	}
	name := c.ociSecret
	if name == "" {
		name = ociSecret
	}
	secret, err := cluster.Core.CoreV1().Secrets(cluster.Namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) && c.ociSecret == "":
		return nil
	case err != nil:
		return err
	case secret.Type != fleet.SecretTypeOCIStorage:
		return fmt.Errorf("unexpected secret type: got %q, want %q", secret.Type, fleet.SecretTypeOCIStorage)
	}
	return fmt.Errorf("Secret %s/%s names an OCI registry for the contents of Bundles, which is not supported; "+ //nolint:staticcheck // a kind
		"delete it, or set OCI_STORAGE=false to store the contents in the cluster", secret.Namespace, secret.Name)
}

// writer writes the Bundles of one call.
type writer struct {
	cluster *access.Cluster
	report  report.Reporter
}

// writeLarge writes the Bundles that may be too large. Those that are too large are in refused.
func (w *writer) writeLarge(ctx context.Context, large []*target) (refused, err error) {
	for _, one := range large {
		if one.size <= pack.RequestLimit {
			err := w.bundle(ctx, one)
			if err == nil {
				continue
			}
			if !isTooLarge(err) {
				return nil, err
			}
		}
		refused = errors.Join(refused, errors.New(pack.Oversize(one.Bundle.Bundle, pack.StoreLimit)))
	}
	return refused, nil
}

// isTooLarge reports whether an API server or its store refused an object because of its size.
func isTooLarge(err error) bool {
	return apierrors.IsRequestEntityTooLargeError(err) || strings.Contains(err.Error(), "request is too large") ||
		strings.Contains(err.Error(), "larger than max")
}

// bundle writes a Bundle, its values and its ImageScans, unless they are the same already.
func (w *writer) bundle(ctx context.Context, t *target) error {
	client := w.cluster.Bundles(t.Namespace)
	old, err := client.Get(ctx, t.Name, metav1.GetOptions{})
	isNew := apierrors.IsNotFound(err)
	switch {
	case isNew:
	case err != nil:
		return err
	case old.DeletionTimestamp != nil:
		return fmt.Errorf("the bundle %q is being deleted, cannot create during a delete operation", t.Name)
	case old.Spec.HelmOpOptions != nil:
		return fmt.Errorf("a helmOps bundle with name %q already exists", t.Name)
	}
	secret, err := w.secret(ctx, t)
	if err != nil {
		return err
	}
	written := t.Bundle.Bundle
	switch {
	case isNew:
		written, err = client.Create(ctx, written, metav1.CreateOptions{})
	case isSame(old, written):
		written = old
	default:
		written, err = client.Update(ctx, replaced(old, written), metav1.UpdateOptions{})
	}
	if err != nil {
		return err
	}
	if err := w.writeSecret(ctx, secret, written, t.values); err != nil {
		return err
	}
	return w.writeScans(ctx, t)
}

// isSame reports whether a Bundle has to be written.
func isSame(old, wanted *fleet.Bundle) bool {
	after := replaced(old, wanted)
	return equality.Semantic.DeepEqual(old.Spec, after.Spec) && maps.Equal(old.Labels, wanted.Labels) &&
		maps.Equal(old.Annotations, wanted.Annotations)
}

// replaced returns the old Bundle with the wanted spec, labels and annotations.
func replaced(old, wanted *fleet.Bundle) *fleet.Bundle {
	after := old.DeepCopy()
	after.Spec, after.Labels, after.Annotations = *wanted.Spec.DeepCopy(), wanted.Labels, wanted.Annotations
	if after.Spec.TargetCustomizationMode == "" && old.Spec.TargetCustomizationMode == fleet.TargetCustomizationFirstMatch {
		after.Spec.TargetCustomizationMode = fleet.TargetCustomizationFirstMatch // the default, which the API server adds
	}
	return after
}

// secret returns the Secret of a Bundle's name, or nil. It fails if the Bundle has values and the Secret is not for them.
func (w *writer) secret(ctx context.Context, t *target) (*corev1.Secret, error) {
	secret, err := w.cluster.Core.CoreV1().Secrets(t.Namespace).Get(ctx, t.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, err
	case secret.Type == fleet.SecretTypeBundleValues:
		return secret, nil
	case len(t.values) > 0:
		return nil, fmt.Errorf("Secret %s/%s of type %s has the name of the Bundle, so that its Helm values cannot be stored; "+ //nolint:staticcheck // a kind
			"rename the Secret, or set `name` in %s", t.Namespace, t.Name, secret.Type, t.Folder+"/fleet.yaml")
	}
	return nil, nil
}
