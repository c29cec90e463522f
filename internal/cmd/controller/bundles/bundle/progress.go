package bundle

import (
	"errors"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/controller/bundles/values"
	"github.com/fleet-hub/fleet/internal/reconcile"
	"github.com/fleet-hub/fleet/internal/rules/selection"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// progress is the progress of one reconcile of a Bundle, called a pass, in one or more rounds. Each cluster is tried
// once. A cluster that fails is retried in the next pass; the later rounds of this pass skip it, so that it does not use
// up the rollout's limit for others.
//
//	round ─► some are written, some refused ─► round without the refused writes ─► … ─► the errors of all rounds
type progress struct {
	bundle *fleet.Bundle
	// concurrent is the number of concurrent writes.
	concurrent int
	// failing are the failures that the previous pass reported. They stay in the status until this pass ends.
	// Otherwise the status would change with every try.
	failing failures
	// outcome is the outcome of the last round.
	outcome selection.Outcome

	mu sync.Mutex // guards the fields below
	// failed are the failures of this pass that the status reports.
	failed failures
	// failedWrites are the namespaces in which a write failed. The value is true if it is unknown whether the write was
	// applied.
	failedWrites map[string]bool
	// errs are the errors to retry.
	errs []error
	// deleted are the BundleDeployments whose deletion was requested.
	deleted map[types.UID]bool
	// round is the result of the current round.
	round roundResult
}

// roundResult counts the results of one round.
type roundResult struct {
	// written is the number of BundleDeployments that were written. refused is the number that were certainly not
	// created or changed.
	written, refused int
	// over means that other writes would fail as well.
	over bool
}

func newProgress(bundle *fleet.Bundle, failing failures) *progress {
	return &progress{bundle: bundle, concurrent: atATime, failing: failing, failed: failures{}, failedWrites: map[string]bool{}, deleted: map[types.UID]bool{}}
}

// hasMore reports whether another round may achieve more than this one. again means that this round created as many
// BundleDeployments as it may. gated means that refused writes have used up the limit for other clusters. A round
// without any result is the last.
func (r roundResult) hasMore(again, gated bool) bool {
	return !r.over && r.written+r.refused > 0 && (again || gated && r.refused > 0)
}

// begin starts a round with the targeting outcome. failed are the clusters for which no deployment can be computed.
func (p *progress) begin(outcome selection.Outcome, failed failures) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.outcome, p.round = outcome, roundResult{refused: len(failed)}
	for namespace, why := range failed {
		p.failed[namespace], p.failedWrites[namespace] = why, false
	}
}

// reported returns the outcome to report while the pass runs.
func (p *progress) reported() selection.Outcome {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failing.addTo(p.failed.addTo(p.outcome))
}

// end returns the outcome to report after the pass. changed is false if that outcome was reported during the pass
// already.
func (p *progress) end() (outcome selection.Outcome, changed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failed.addTo(p.outcome), len(p.failing)+len(p.failed) > 0
}

// add records the result of a write. It returns the error if the write has to be retried.
func (p *progress) add(bd *fleet.BundleDeployment, err error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		p.round.written++
		return nil
	}
	created := errors.Is(err, errNoOwner)
	certain := !created && (isTaken(err) || isRefusal(err))
	p.failedWrites[bd.Namespace] = !certain
	switch {
	case created:
		p.round.written++
	case concernsAll(err):
		p.round.over = true
	case certain:
		p.round.refused++
	}
	if err = p.failed.add(bd.Namespace, bd.Name, err); err != nil {
		return fmt.Errorf("writing %s: %w", reconcile.KeyOf(bd), err)
	}
	return nil
}

// addError adds an error to those that the pass returns.
func (p *progress) addError(err error) {
	if err == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.errs = append(p.errs, err)
}

// stop prevents further writes in this pass.
func (p *progress) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.round.over = true
}

// result returns the result of the current round.
func (p *progress) result() roundResult {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.round
}

// undeleted returns the orphans whose deletion was not requested yet, and marks them as deleted.
func (p *progress) undeleted(orphans []*fleet.BundleDeployment) (out []*fleet.BundleDeployment) {
	for _, bd := range orphans {
		if !p.deleted[bd.UID] {
			p.deleted[bd.UID] = true
			out = append(out, bd)
		}
	}
	return out
}

// concernsAll reports whether an error is independent of the object that was written: there was no answer, or every
// request would now get the same answer.
func concernsAll(err error) bool {
	var answer apierrors.APIStatus
	if isTaken(err) {
		return false
	}
	return !errors.As(err, &answer) || apierrors.IsUnauthorized(err) || apierrors.IsTooManyRequests(err) ||
		apierrors.IsServiceUnavailable(err) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err)
}

// isTaken reports whether an object of another owner has the name of the object to be written.
func isTaken(err error) bool { return errors.Is(err, errForeign) || errors.Is(err, values.ErrTaken) }
