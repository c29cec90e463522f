package bundle

import (
	"errors"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/controller/bundles/ledger"
	"github.com/fleet-hub/fleet/internal/rules/rollout"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// pass is one pass over a Bundle, in however many rounds. What has failed in it waits for the next one and takes up no
// room meanwhile: each cluster is tried once, and those that fail keep nobody else waiting.
//
//	round ─► some are written, some refused ─► round without what was refused ─► … ─► the errors of all rounds
type pass struct {
	bundle *fleet.Bundle
	// together is how many writes are under way at a time.
	together int
	// failing are the failures that the pass before has told. They hold until this one has ended, or the status would
	// change with every try.
	failing failures
	// outcome is the last round's.
	outcome ledger.Outcome

	mu sync.Mutex // guards what follows
	// failed are those failures of this pass that last.
	failed failures
	// left are the namespaces in which something has failed; true where nobody knows what became of it.
	left map[string]bool
	// errs are what has to be tried again.
	errs []error
	// deleted are the BundleDeployments that were told to go.
	deleted map[types.UID]bool
	// round is what becomes of the present one.
	round tally
}

// tally counts what became of the clusters in one round.
type tally struct {
	// written are BundleDeployments, refused those that will not be there, or not be changed, for certain.
	written, refused int
	// over means that nothing else would be taken either.
	over bool
}

func newPass(bundle *fleet.Bundle, failing failures) *pass {
	return &pass{bundle: bundle, together: atATime, failing: failing, failed: failures{}, left: map[string]bool{}, deleted: map[types.UID]bool{}}
}

// goesOn says whether another round may do what this one did not: again is whether this one has created as many as
// it may, gated whether what was refused has taken up the room of others. A round in which nothing was achieved and
// nothing found out is the last.
func (t tally) goesOn(again, gated bool) bool {
	return !t.over && t.written+t.refused > 0 && (again || gated && t.refused > 0)
}

// isGated says whether some clusters wait for others, so that they depend on what becomes of those.
func isGated(layout rollout.Layout) bool { return layout.Limits() || len(layout.Partitions) > 1 }

// begin begins a round with what targeting has found out: these clusters cannot be told what to deploy.
func (p *pass) begin(outcome ledger.Outcome, failed failures) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.outcome, p.round = outcome, tally{refused: len(failed)}
	for namespace, why := range failed {
		p.failed[namespace], p.left[namespace] = why, false
	}
}

// told is what is said of the Bundle while the pass lasts.
func (p *pass) told() ledger.Outcome {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failing.tell(p.failed.tell(p.outcome))
}

// end is what is said of the Bundle after the pass; changed is false if that was said all the time.
func (p *pass) end() (outcome ledger.Outcome, changed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failed.tell(p.outcome), len(p.failing)+len(p.failed) > 0
}

// note remembers what became of a write, and returns the error if it has to be tried again.
func (p *pass) note(bd *fleet.BundleDeployment, err error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		p.round.written++
		return nil
	}
	certain := isTaken(err) || isRefusal(err)
	p.left[bd.Namespace] = !certain
	switch {
	case concernsAll(err):
		p.round.over = true
	case certain:
		p.round.refused++
	}
	if err = p.failed.note(bd.Namespace, err); err != nil {
		return fmt.Errorf("writing %s: %w", keyOf(bd), err)
	}
	return nil
}

// failedWith remembers errors for the end of the pass.
func (p *pass) failedWith(err error) {
	if err == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.errs = append(p.errs, err)
}

// stop has no other write begun.
func (p *pass) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.round.over = true
}

// tally is that of the present round.
func (p *pass) tally() tally {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.round
}

// undeleted are those that were not told to go yet.
func (p *pass) undeleted(orphans []*fleet.BundleDeployment) (out []*fleet.BundleDeployment) {
	for _, bd := range orphans {
		if !p.deleted[bd.UID] {
			p.deleted[bd.UID] = true
			out = append(out, bd)
		}
	}
	return out
}

// concernsAll says whether an error is none of the one object that was to be written: no answer came, or one that
// anybody would get now.
func concernsAll(err error) bool {
	var answer apierrors.APIStatus
	if isTaken(err) {
		return false
	}
	return !errors.As(err, &answer) || apierrors.IsUnauthorized(err) || apierrors.IsTooManyRequests(err) ||
		apierrors.IsServiceUnavailable(err) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err)
}

// isTaken says whether something of another owner is in the place of what was to be written.
func isTaken(err error) bool { return errors.Is(err, errForeign) || errors.Is(err, errSecretTaken) }
