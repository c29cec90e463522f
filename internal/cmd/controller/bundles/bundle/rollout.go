package bundle

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/fleet-hub/fleet/internal/reconcile"
	"github.com/fleet-hub/fleet/internal/rules/rollout"
	"github.com/fleet-hub/fleet/internal/rules/selection"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// rollOut writes what the rollout allows now. Each round may write a limited number, and refused writes use up that
// limit. The next rounds follow immediately and continue with the API server's answers. rollOut returns the errors of
// all rounds.
func (h *handler) rollOut(ctx context.Context, in input) error {
	selected := in.selected()
	if in.isStale() {
		return nil // the change has enqueued the Bundle
	}
	key := reconcile.KeyOf(in.bundle)
	p := newProgress(in.bundle, h.failing(key))
	p.addError(h.rounds(ctx, in, selected, p))
	if outcome, changed := p.end(); changed {
		h.outcomes.Set(key, outcome)
	}
	if wait := h.mutations.uncertainFor(key); wait > 0 {
		h.queue.AddAfter(key, wait) // or earlier, when a later state is seen
	}
	return errors.Join(p.errs...)
}

// rounds runs rounds until one of them makes no progress.
func (h *handler) rounds(ctx context.Context, in input, selected selection.Selection, p *progress) error {
	rest, concurrent := streamed(selected.Layout)
	for {
		r, err := h.gatherRound(ctx, in, selected)
		if err != nil {
			return err
		}
		h.cache.setWaiting(reconcile.KeyOf(in.bundle), slices.ContainsFunc(r.decision.Waits, rollout.Wait.IsForOthers))
		if err := h.act(ctx, r.writes(), p); err != nil {
			return err
		}
		if !p.result().hasMore(r.decision.Again, isGated(selected.Layout)) || h.isOver(ctx, p) {
			return nil // if it is over, another pass, or the next leader, continues
		}
		in.contentThere, in.written.Failed = true, maps.Clone(p.failedWrites)
		selected.Layout, p.concurrent = rest, concurrent
		if err := h.gatherDeployments(&in); err != nil {
			return err
		}
	}
}

// streamed returns the layout for the rounds after the first, and the number of concurrent writes. If only maxNew limits the
// creations, one more round makes all of them, with at most maxNew concurrent writes: more rounds would only add pauses.
func streamed(layout rollout.Layout) (rest rollout.Layout, concurrent int) {
	if layout.Limits() || layout.MaxNew <= 0 {
		return layout, atATime
	}
	concurrent = min(layout.MaxNew, atATime)
	layout.MaxNew = max(layout.MaxNew, len(layout.Of))
	return layout, concurrent
}

// round is one round of a rollout: its input, and what the rollout allows.
type round struct {
	input

	selected selection.Selection
	steps    []rollout.Step
	decision rollout.Decision
}

func newRound(in input, selected selection.Selection) round {
	steps := selected.Steps(in.existing, in.written)
	return round{input: in, selected: selected, steps: steps, decision: rollout.Decide(selected.Layout, steps)}
}

// gatherRound decides what a round may do, and reads the values Secrets that are needed to compute the
// BundleDeployments. Before this process first promotes under a limit, it lists the Bundle's BundleDeployments.
func (h *handler) gatherRound(ctx context.Context, in input, selected selection.Selection) (r round, err error) {
	r = newRound(in, selected)
	if slices.Contains(r.decision.Disruptive, true) && selected.Layout.Limits() && !h.mutations.isListed(reconcile.KeyOf(in.bundle)) {
		if err := h.listDeployments(&in); err != nil {
			return r, err
		}
		r = newRound(in, selected)
	}
	var wanted []*fleet.BundleDeployment
	for i := range selected.Targets {
		if r.deliveryInput(i, selected.Targets[i]).NeedsValues() {
			wanted = append(wanted, r.steps[i].Deployment)
		}
	}
	r.values, err = h.values.Read(ctx, in.bundle.Name, wanted)
	return r, err
}

// isGated reports whether some clusters wait for the results of others.
func isGated(layout rollout.Layout) bool { return layout.Limits() || len(layout.Partitions) > 1 }

// isCurrent reports whether the Bundle is unchanged since the pass began, and still of this shard.
func (h *handler) isCurrent(bundle *fleet.Bundle) bool {
	now, err := reconcile.Optional(h.app.Bundles.Cache().Get(bundle.Namespace, bundle.Name))
	return err == nil && now != nil && now.UID == bundle.UID && now.Generation == bundle.Generation && now.DeletionTimestamp == nil && h.app.Owns(now)
}
