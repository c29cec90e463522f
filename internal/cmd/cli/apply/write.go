package apply

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"strconv"

	"golang.org/x/sync/errgroup"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/cmd/cli/access"
	"github.com/fleet-hub/fleet/internal/cmd/cli/report"
	"github.com/fleet-hub/fleet/internal/kube/answers"
	"github.com/fleet-hub/fleet/internal/pack"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// ociSecret is the Secret of an OCI registry if no flag names one.
const ociSecret = "ocistorage"

// target is a Bundle to write, with its values apart, and the objects of its name that exist.
type target struct {
	*pack.Bundle

	// values are the data of its values Secret.
	values map[string][]byte
	// size is the number of bytes of its JSON.
	size int
	// old and secret are the existing Bundle and Secret, or nil.
	old    *fleet.Bundle
	secret *corev1.Secret
}

// write deletes the Bundles that are gone and writes the others. Nothing is deleted if a Bundle cannot be written.
func (c *command) write(ctx context.Context, paths []string, name string, bundles []*pack.Bundle) error {
	targets, err := targetsOf(bundles)
	if err != nil {
		return err
	}
	cluster, err := c.access.Open()
	if err != nil {
		return err
	}
	if len(targets) > 0 {
		if err := c.refuseRegistry(ctx, cluster); err != nil {
			return err
		}
	}
	w := &writer{cluster: cluster, report: c.report, concurrency: c.concurrency}
	made, err := w.made(ctx, name)
	if err != nil {
		return err
	}
	if err := w.each(ctx, targets, w.readOld); err != nil {
		return err
	}
	old := gone(made, targets)
	addOverwrites(old, targets) // they count for the size, and have no effect while the old Bundles exist
	if err := w.replace(ctx, name, old, targets); err != nil {
		return err
	}
	if len(bundles) == 0 {
		return nothingFound(paths)
	}
	return nil
}

// targetsOf returns the Bundles to write. Of those with the same name it is the last one.
func targetsOf(bundles []*pack.Bundle) ([]*target, error) {
	var targets []*target
	index := map[string]int{}
	for _, bundle := range bundles {
		values, err := takeValues(bundle.Bundle)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", bundle.Folder, err)
		}
		one := &target{Bundle: bundle, values: values}
		if i, again := index[bundle.Name]; again {
			targets[i] = one
			continue
		}
		index[bundle.Name] = len(targets)
		targets = append(targets, one)
	}
	return targets, nil
}

// refuseRegistry returns an error if the contents are to be stored in an OCI registry.
func (c *command) refuseRegistry(ctx context.Context, cluster *access.Cluster) error {
	if enabled, err := strconv.ParseBool(c.environment("OCI_STORAGE")); err == nil && !enabled {
		return nil
	}
	name := cmp.Or(c.ociSecret, ociSecret)
	secret, err := cluster.Core.CoreV1().Secrets(cluster.Namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) && c.ociSecret == "":
		return nil
	case apierrors.IsNotFound(err):
		return err
	case err != nil:
		return explain(fmt.Sprintf("reading Secret %s/%s", cluster.Namespace, name), err)
	case secret.Type != fleet.SecretTypeOCIStorage:
		return fmt.Errorf("unexpected secret type: got %q, want %q", secret.Type, fleet.SecretTypeOCIStorage)
	}
	return fmt.Errorf("Secret %s/%s names an OCI registry for the contents of Bundles, which is not supported; "+ //nolint:staticcheck // a kind
		"delete it, or set OCI_STORAGE=false to store the contents in the cluster", secret.Namespace, secret.Name)
}

// writer writes the Bundles of one call.
type writer struct {
	cluster     *access.Cluster
	report      report.Reporter
	concurrency int
}

// each calls do for several targets concurrently. The first error stops it.
func (w *writer) each(ctx context.Context, targets []*target, do func(context.Context, *target) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(w.concurrency)
	for _, one := range targets {
		group.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			return do(ctx, one)
		})
	}
	return group.Wait()
}

// all calls do for several targets concurrently. It returns the errors in the order of the targets. Only an interrupt stops it: a
// write that is cancelled because of another Bundle could leave a Bundle without its Secret.
func (w *writer) all(ctx context.Context, targets []*target, do func(context.Context, *target) error) []error {
	errs := make([]error, len(targets))
	var group errgroup.Group
	group.SetLimit(w.concurrency)
	for i, one := range targets {
		group.Go(func() error {
			if errs[i] = ctx.Err(); errs[i] == nil {
				errs[i] = do(ctx, one)
			}
			return nil
		})
	}
	_ = group.Wait() // no function returns an error
	return errs
}

// replace deletes the old Bundles and writes the others. What may be refused is tried before anything is deleted.
func (w *writer) replace(ctx context.Context, name string, old []*fleet.Bundle, targets []*target) error {
	large, rest, refused := decide(targets)
	tooLarge, err := w.writeLarge(ctx, large)
	if err != nil {
		return err
	}
	refused = append(refused, tooLarge...)
	var failed []error
	if len(old) > 0 && len(refused) == 0 {
		rest, failed = w.try(ctx, rest)
	}
	if len(refused)+len(failed) == 0 {
		if err := w.prune(ctx, name, old, targets); err != nil {
			return err
		}
	}
	return refused.with(joined(append(failed, w.all(ctx, rest, w.bundle)...)))
}

// try sends the Bundles in dry runs. It returns those that the API server accepts, and the errors of the others.
func (w *writer) try(ctx context.Context, targets []*target) (accepted []*target, failed []error) {
	errs := w.all(ctx, targets, func(ctx context.Context, t *target) error {
		_, err := w.send(ctx, t, metav1.DryRunAll)
		return err
	})
	for i, err := range errs {
		if err != nil {
			failed = append(failed, err)
			continue
		}
		accepted = append(accepted, targets[i])
	}
	return accepted, failed
}

// readOld reads the objects of a Bundle's name.
func (w *writer) readOld(ctx context.Context, t *target) error {
	name := t.Namespace + "/" + t.Name
	var err error
	if t.old, err = access.Find(ctx, w.cluster.Bundles(t.Namespace), "Bundle "+name, t.Name); err != nil {
		return err
	}
	t.secret, err = access.Find(ctx, w.cluster.Core.CoreV1().Secrets(t.Namespace), "Secret "+name, t.Name)
	return err
}

// writeLarge writes the Bundles that may be too large. It returns the problems of those that are.
func (w *writer) writeLarge(ctx context.Context, large []*target) (problems, error) {
	var refused problems
	for _, one := range large {
		err := w.bundle(ctx, one)
		switch {
		case err == nil:
		case answers.IsTooLarge(err):
			refused = append(refused, pack.Oversize(one.Bundle.Bundle, pack.StoreLimit))
		default:
			return nil, err
		}
	}
	return refused, nil
}

// bundle writes a Bundle, its values and its ImageScans, unless they are the same already.
func (w *writer) bundle(ctx context.Context, t *target) error {
	written, err := w.send(ctx, t)
	if err != nil {
		return err
	}
	if err := w.writeSecret(ctx, t, written); err != nil {
		return explain(fmt.Sprintf("writing Secret %s/%s with the values of the Bundle", t.Namespace, t.Name), err)
	}
	return w.writeScans(ctx, t)
}

// send creates or updates a Bundle, unless it is the same already. dryRun is that of the options of the request.
func (w *writer) send(ctx context.Context, t *target, dryRun ...string) (written *fleet.Bundle, err error) {
	switch {
	case t.old == nil:
		written, err = w.cluster.Bundles(t.Namespace).Create(ctx, t.Bundle.Bundle, metav1.CreateOptions{DryRun: dryRun})
	case isSame(t.old, t.Bundle.Bundle):
		return t.old, nil
	default:
		written, err = w.update(ctx, t, dryRun)
	}
	return written, explain(fmt.Sprintf("writing Bundle %s/%s", t.Namespace, t.Name), err)
}

// mostUpdates is how often a Bundle is updated whose status changes at the same time.
const mostUpdates = 5

// update updates a Bundle. The hub writes the status of a Bundle that rolls out twice a second, so that the version which was read
// is soon outdated. A change of the spec is a conflict.
func (w *writer) update(ctx context.Context, t *target, dryRun []string) (*fleet.Bundle, error) {
	client := w.cluster.Bundles(t.Namespace)
	for updates := 1; ; updates++ {
		written, err := client.Update(ctx, replaced(t.old, t.Bundle.Bundle), metav1.UpdateOptions{DryRun: dryRun})
		if !apierrors.IsConflict(err) || updates == mostUpdates {
			return written, err
		}
		live, readErr := client.Get(ctx, t.Name, metav1.GetOptions{})
		if readErr != nil || live.UID != t.old.UID || live.DeletionTimestamp != nil || live.ResourceVersion == t.old.ResourceVersion ||
			!equality.Semantic.DeepEqual(live.Spec, t.old.Spec) {
			return nil, err
		}
		t.old = live
	}
}

// isSame reports whether a Bundle needs not be written.
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
