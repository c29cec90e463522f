package bundle

import (
	"context"
	"errors"
	"fmt"
	"maps"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/controller/bundles/index"
	"github.com/fleet-hub/fleet/internal/kube/answers"
	"github.com/fleet-hub/fleet/internal/reconcile"
	"github.com/fleet-hub/fleet/internal/rules/content"
	rulesdelivery "github.com/fleet-hub/fleet/internal/rules/delivery"
	"github.com/fleet-hub/fleet/internal/rules/selection"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// act makes the writes of a round: first the Content, then the BundleDeployment of each cluster. Then it deletes the
// orphans. A failure for one cluster does not stop the others; it is recorded in the progress.
func (h *handler) act(ctx context.Context, out writes, p *progress) error {
	p.begin(out.outcome, out.failed)
	if out.createContent {
		if err := h.createContent(p.bundle, out.outcome.ManifestHash); err != nil {
			return h.withoutContent(err, p)
		}
	}
	h.outcomes.Set(reconcile.KeyOf(p.bundle), p.reported())
	h.writeAll(ctx, out.first, p)
	h.writeAll(ctx, out.others, p)
	isOver := func() bool { return h.isOver(ctx, p) }
	if !isOver() {
		p.addError(h.deleteAll(p.undeleted(out.orphans), isOver))
	}
	return nil
}

// isOver reports whether the rest is left to another pass, which may decide differently.
func (h *handler) isOver(ctx context.Context, p *progress) bool {
	return ctx.Err() != nil || p.result().over || !h.isCurrent(p.bundle)
}

// withoutContent ends a pass whose Content could not be stored. It reports the error in the status if a user has to
// act on it.
func (h *handler) withoutContent(err error, p *progress) error {
	p.stop()
	switch {
	case answers.IsTooLarge(err):
		p.outcome = p.outcome.WithFailure(conditions.ReasonError, selection.TargetingError+errContentTooLarge.Error())
		err = nil
	case needsUser(err):
		p.outcome = p.outcome.WithFailure(conditions.ReasonError, writeError+answers.Message(err))
	}
	h.outcomes.Set(reconcile.KeyOf(p.bundle), p.reported())
	return err
}

// errBundleChanged means that the Bundle has changed since the pass began.
var errBundleChanged = errors.New("the Bundle was changed in the meantime; the next reconcile uses its new resources")

// createContent stores the Bundle's resources. The cache holds only their hash, so that they are read from the API
// server.
func (h *handler) createContent(bundle *fleet.Bundle, hash string) error {
	if bundle.Spec.ResourcesHash != "" {
		live, err := reconcile.Optional(h.app.Bundles.Get(bundle.Namespace, bundle.Name, metav1.GetOptions{}))
		if err != nil {
			return fmt.Errorf("reading the resources of bundle %s: %w", bundle.Name, err)
		}
		if live == nil || (content.Manifest{Resources: live.Spec.Resources}).SHA256() != hash {
			return errBundleChanged
		}
		bundle = live
	}
	object := content.Object(content.Manifest{Resources: bundle.Spec.Resources})
	_, err := h.app.Contents.Create(object)
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating content %s: %w", object.Name, err)
	}
	return nil
}

// writeAll writes several BundleDeployments concurrently. It continues after a failure, unless that failure concerns
// all of them.
func (h *handler) writeAll(ctx context.Context, writes []write, p *progress) {
	p.addError(each(h.slots, p.concurrent, writes, func(w write) error {
		if h.isOver(ctx, p) {
			return nil
		}
		return p.add(w.Deployment, h.write(ctx, w))
	}))
}

func (h *handler) write(ctx context.Context, w write) error {
	h.outcomes.Writing.Add(1)
	defer h.outcomes.Writing.Add(-1)
	if w.existing == nil {
		return h.create(ctx, w)
	}
	bundle := index.BundleOf(w.Deployment)
	if !w.KeepSecret {
		if err := h.values.Write(ctx, w.existing, w.Values); err != nil {
			return err
		}
	}
	if !rulesdelivery.Same(w.existing, w.Deployment) {
		written, err := reconcile.Update(h.client(w), w.existing, func(bd *fleet.BundleDeployment) {
			copied := bd.Spec.DownstreamResourcesGeneration // other writers only increase it
			bd.Labels, bd.Spec = maps.Clone(w.Deployment.Labels), *w.Deployment.Spec.DeepCopy()
			rulesdelivery.CopyMark(bd, w.Deployment)
			bd.Spec.DownstreamResourcesGeneration = max(copied, bd.Spec.DownstreamResourcesGeneration)
		})
		if err != nil {
			h.mutations.noteUncertain(bundle, w.existing, err)
			return err
		}
		if written == w.existing {
			h.mutations.gone(bundle, w.existing) // the watch reports the deletion
			return nil
		}
		if written.ResourceVersion == w.existing.ResourceVersion && rulesdelivery.SameButLabels(w.existing, w.Deployment) {
			w.settle() // an admission webhook has undone the write
		}
		h.note(bundle, written)
		h.app.Log.Debug("bundledeployment changed", "bundledeployment", reconcile.KeyOf(w.Deployment).String(), "deploymentID", w.Deployment.Spec.DeploymentID)
	}
	if w.KeepSecret {
		return nil
	}
	return h.values.Finish(ctx, w.existing, w.Values)
}

// note stores an object that the API server returned, unless the cache has it already.
func (h *handler) note(bundle types.NamespacedName, written *fleet.BundleDeployment) {
	h.mutations.note(bundle, written)
	if cached, err := h.app.BundleDeployments.Cache().Get(written.Namespace, written.Name); err == nil {
		h.mutations.cached(bundle, cached)
	}
}

// errMoved means that a BundleDeployment has changed since its promotion was decided.
var errMoved = errors.New("the BundleDeployment was changed in the meantime; the next reconcile decides again")

// once is a client that does not repeat an update after a conflict, because the promotion has to be decided again.
type once struct {
	reconcile.Updater[*fleet.BundleDeployment]
}

// Get is called after a conflict and returns that conflict.
func (once) Get(_, name string, _ metav1.GetOptions) (*fleet.BundleDeployment, error) {
	return nil, apierrors.NewConflict(schema.GroupResource{Group: fleet.SchemeGroupVersion.Group, Resource: "bundledeployments"}, name, errMoved)
}

// client returns the client to update a BundleDeployment with.
func (h *handler) client(w write) reconcile.Updater[*fleet.BundleDeployment] {
	if w.Deployment.Spec.DeploymentID != w.existing.Spec.DeploymentID {
		return once{h.app.BundleDeployments}
	}
	return h.app.BundleDeployments
}

// create writes the Secret before the BundleDeployment, which refers to it. The BundleDeployment has a UID only
// afterwards, so a patch then makes it the owner. If that patch fails, the next pass compares the Secret and sets the
// owner; if the process ends before, the guard of the next process does.
func (h *handler) create(ctx context.Context, w write) error {
	wanted := w.Deployment
	if err := refuseForeign(wanted)(h.app.BundleDeployments.Cache().Get(wanted.Namespace, wanted.Name)); err != nil {
		return err
	}
	if !w.Values.Empty() {
		if err := h.values.Create(ctx, w.Values.Secret(wanted)); err != nil {
			return err
		}
	}
	created, err := h.app.BundleDeployments.Create(wanted)
	if apierrors.IsAlreadyExists(err) {
		// The object is ours but not in the cache yet, so the write is retried. Otherwise it belongs to another
		// Bundle.
		err = errors.Join(err, refuseForeign(wanted)(h.app.BundleDeployments.Get(wanted.Namespace, wanted.Name, metav1.GetOptions{})))
	}
	if err != nil {
		return err
	}
	h.note(index.BundleOf(created), created)
	h.app.Log.Debug("bundledeployment created", "bundledeployment", reconcile.KeyOf(created).String(), "deploymentID", created.Spec.DeploymentID)
	if w.Values.Empty() {
		return nil
	}
	if err := h.values.SetOwner(ctx, created); err != nil {
		return fmt.Errorf("%w: %w", errNoOwner, err)
	}
	return nil
}

// errNoOwner means that a BundleDeployment was created and its Secret did not get its owner.
var errNoOwner = errors.New("the BundleDeployment was created")

// refuseForeign returns errForeign for a BundleDeployment that was made from another Bundle. Its Secret is not ours
// either.
func refuseForeign(wanted *fleet.BundleDeployment) func(*fleet.BundleDeployment, error) error {
	return func(found *fleet.BundleDeployment, err error) error {
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err != nil:
			return err
		case index.BundleOf(found) != index.BundleOf(wanted):
			return errForeign
		default:
			return nil
		}
	}
}
