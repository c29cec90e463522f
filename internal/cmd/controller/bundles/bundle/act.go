package bundle

import (
	"context"
	"errors"
	"fmt"
	"maps"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/cmd/controller/bundles/index"
	"github.com/fleet-hub/fleet/internal/reconcile"
	"github.com/fleet-hub/fleet/internal/rules/content"
	rulesdelivery "github.com/fleet-hub/fleet/internal/rules/delivery"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// errForeign means that the cluster's namespace has a BundleDeployment of this name that was made from a Bundle of the
// same name in another namespace.
var errForeign = errors.New("the cluster has a BundleDeployment of another Bundle of this name")

// act writes the plan of a round: first the Content, then the BundleDeployment of each cluster. Then it deletes the
// orphans. A failure for one cluster does not stop the others; it is recorded in the pass.
func (h *handler) act(ctx context.Context, in input, out plan, p *pass) error {
	p.begin(out.outcome, out.failed)
	if out.createContent {
		if err := h.createContent(in.bundle); err != nil {
			return h.withoutContent(err, p)
		}
	}
	h.ledger.Set(keyOf(in.bundle), p.told())
	h.writeAll(ctx, out.first, p)
	h.writeAll(ctx, out.writes, p)
	if !p.tally().over {
		p.failedWith(h.deleteAll(p.undeleted(out.orphans)))
	}
	return nil
}

// withoutContent ends a pass whose Content could not be stored. It reports the error in the status if a user has to
// act on it.
func (h *handler) withoutContent(err error, p *pass) error {
	p.stop()
	switch {
	case isTooLarge(err):
		p.outcome = aim{outcome: p.outcome}.failed(fleet.ReasonError, targetingError, errContentTooLarge).outcome
		err = nil
	case isTold(err):
		p.outcome = aim{outcome: p.outcome}.failed(fleet.ReasonError, writeError, errors.New(wordsOf(err))).outcome
	}
	h.ledger.Set(keyOf(p.bundle), p.told())
	return err
}

func (h *handler) createContent(bundle *fleet.Bundle) error {
	object := content.Object(content.Manifest{Resources: bundle.Spec.Resources})
	_, err := h.app.Contents.Create(object)
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating content %s: %w", object.Name, err)
	}
	return nil
}

// writeAll writes several BundleDeployments concurrently. It continues after a failure, unless that failure concerns
// all of them.
func (h *handler) writeAll(ctx context.Context, writes []write, p *pass) {
	p.failedWith(each(h.slots, p.together, writes, func(w write) error {
		if ctx.Err() != nil || p.tally().over || !h.isCurrent(p.bundle) {
			return nil //nolint:nilerr // another pass writes it
		}
		return p.note(w.Deployment, h.write(ctx, w))
	}))
}

func (h *handler) write(ctx context.Context, w write) error {
	h.ledger.Writing.Add(1)
	defer h.ledger.Writing.Add(-1)
	if w.existing == nil {
		return h.create(ctx, w)
	}
	bundle := index.BundleOf(w.Deployment)
	if err := h.writeValues(ctx, w); err != nil {
		return err
	}
	if !rulesdelivery.Same(w.existing, w.Deployment) {
		written, err := reconcile.Update(h.client(w), w.existing, func(bd *fleet.BundleDeployment) {
			copied := bd.Spec.DownstreamResourcesGeneration // other writers only increase it
			bd.Labels, bd.Spec = maps.Clone(w.Deployment.Labels), *w.Deployment.Spec.DeepCopy()
			rulesdelivery.CopyMark(bd, w.Deployment)
			bd.Spec.DownstreamResourcesGeneration = max(copied, bd.Spec.DownstreamResourcesGeneration)
		})
		if err != nil {
			h.mutations.doubt(bundle, w.existing, err)
			return err
		}
		if written.ResourceVersion == w.existing.ResourceVersion {
			h.mutations.gone(bundle, w.existing) // the watch reports the deletion
			return nil
		}
		h.note(bundle, written)
		h.app.Log.Debug("bundledeployment changed", "bundledeployment", keyOf(w.Deployment).String(), "deploymentID", w.Deployment.Spec.DeploymentID)
	}
	if w.KeepSecret {
		return nil
	}
	h.memo.trust(w.existing.UID)
	if w.Values.Empty() && w.existing.Spec.ValuesHash != "" {
		return h.deleteSecret(ctx, w.existing)
	}
	return nil
}

// writeValues writes the values before the BundleDeployment that carries their hash. If the BundleDeployment has that
// hash already, the values were written before.
func (h *handler) writeValues(ctx context.Context, w write) error {
	uid := w.existing.UID
	switch {
	case w.KeepSecret || w.Values.Empty():
		return nil
	case h.memo.doubts(uid):
		return h.checkSecret(ctx, w.Values.Secret(w.existing))
	case w.existing.Spec.ValuesHash == w.Values.Hash():
		return nil
	case w.existing.Spec.ValuesHash == "":
		h.memo.doubt(uid)
		return h.createSecret(ctx, w.Values.Secret(w.existing))
	default:
		h.memo.doubt(uid) // until the BundleDeployment has the same hash
		return h.changeSecret(ctx, w.Values.Secret(w.existing))
	}
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
		if err := h.createSecret(ctx, w.Values.Secret(wanted)); err != nil {
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
	h.app.Log.Debug("bundledeployment created", "bundledeployment", keyOf(created).String(), "deploymentID", created.Spec.DeploymentID)
	if w.Values.Empty() {
		return nil
	}
	if err := h.setOwner(ctx, w.Values.Secret(created)); err != nil {
		h.memo.doubt(created.UID)
		return err
	}
	return nil
}

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
