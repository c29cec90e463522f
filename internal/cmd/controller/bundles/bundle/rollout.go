package bundle

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/controller/bundles/index"
	"github.com/fleet-hub/fleet/internal/reconcile"
	rulesdelivery "github.com/fleet-hub/fleet/internal/rules/delivery"
	"github.com/fleet-hub/fleet/internal/rules/rollout"
	"github.com/fleet-hub/fleet/internal/rules/targeting"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// rollOut writes what the rollout allows now. Each round may write a limited number, and refused writes use up that
// limit. The next rounds follow immediately and continue with the API server's answers. rollOut returns the errors of
// all rounds.
func (h *handler) rollOut(ctx context.Context, in input) error {
	key := keyOf(in.bundle)
	p := newPass(in.bundle, h.failing(key))
	p.failedWith(h.rounds(ctx, in, p))
	if outcome, changed := p.end(); changed {
		h.ledger.Set(key, outcome)
	}
	return errors.Join(p.errs...)
}

// rounds runs rounds until one of them makes no progress.
func (h *handler) rounds(ctx context.Context, in input, p *pass) error {
	aimed := takeAim(in)
	rest, together := flowing(aimed.layout)
	for {
		again, err := h.round(ctx, &in, aimed, p)
		if err != nil || !again || ctx.Err() != nil || !h.isCurrent(in.bundle) {
			return err
		}
		in.contentThere, in.left = true, p.left
		aimed.layout, p.together = rest, together
		if err := h.gatherDeployments(&in); err != nil {
			return err
		}
	}
}

// flowing returns the layout for the rounds after the first, and the number of concurrent writes. If only maxNew
// limits the number of creations, several rounds would only add pauses, because each round waits for its last request.
// In that case one more round creates all remaining BundleDeployments, with at most maxNew concurrent writes.
func flowing(layout rollout.Layout) (rest rollout.Layout, together int) {
	if layout.Limits() || layout.MaxNew <= 0 {
		return layout, atATime
	}
	together = min(layout.MaxNew, atATime)
	layout.MaxNew = max(layout.MaxNew, len(layout.Of))
	return layout, together
}

// round runs one round of a pass. again means that another round may follow.
func (h *handler) round(ctx context.Context, in *input, aimed aim, p *pass) (again bool, err error) {
	steps := aimed.steps(*in)
	decision := rollout.Decide(aimed.layout, steps)
	if slices.Contains(decision.Costly, true) && aimed.layout.Limits() && !h.mutations.isListed(keyOf(in.bundle)) {
		if err := h.list(in); err != nil {
			return false, err
		}
		steps = aimed.steps(*in)
		decision = rollout.Decide(aimed.layout, steps)
	}
	if err := h.gatherValues(ctx, in, aimed, steps, decision); err != nil {
		return false, err
	}
	h.waiting.set(keyOf(in.bundle), slices.ContainsFunc(decision.Waits, waitsForOthers))
	if err := h.act(ctx, *in, decide(*in, aimed, steps, decision), p); err != nil {
		return false, err
	}
	return p.tally().goesOn(decision.Again, isGated(aimed.layout)), nil
}

// waitsForOthers reports whether a target waits for the status of other BundleDeployments.
func waitsForOthers(wait rollout.Wait) bool {
	return wait == rollout.WaitLimit || wait == rollout.WaitPartition || wait == rollout.WaitMaxNew
}

// list reads the Bundle's BundleDeployments from the API server. The cache may be older than the promotions of an
// earlier process, which count too.
func (h *handler) list(in *input) error {
	live, err := h.live(in.bundle)
	if err != nil {
		return fmt.Errorf("listing what is promoted: %w", err)
	}
	h.mutations.noteAll(keyOf(in.bundle), live)
	return h.gatherDeployments(in)
}

// note stores an object that the API server returned, unless the cache has it already.
func (h *handler) note(bundle types.NamespacedName, written *fleet.BundleDeployment) {
	h.mutations.note(bundle, written)
	if cached, err := h.app.BundleDeployments.Cache().Get(written.Namespace, written.Name); err == nil {
		h.mutations.cached(bundle, cached)
	}
}

// gatherDeployments finds the Bundle's BundleDeployments as they were last seen.
func (h *handler) gatherDeployments(in *input) error {
	cached, err := h.deployments(in.bundle)
	if err != nil {
		return err
	}
	in.existing, in.inDoubt = h.mutations.newest(keyOf(in.bundle), cached)
	return h.gatherUnlabelled(in)
}

// gatherUnlabelled finds the Bundle's BundleDeployments whose labels were removed or changed. They have the Bundle's
// name, are in the namespace of one of its clusters, and still identify either their cluster or their Bundle. Their
// labels are restored with the next write.
func (h *handler) gatherUnlabelled(in *input) error {
	namesakes, err := h.app.BundleDeployments.Cache().GetByIndex(index.DeploymentsByName, in.bundle.Name)
	if err != nil || len(namesakes) == 0 {
		return err
	}
	namesakes = elsewhere(namesakes, in.existing)
	if len(namesakes) == 0 {
		return nil
	}
	namespaces, places := namespacesOf(in.clusters)
	for _, bd := range namesakes {
		if index.ClaimedBy(bd) == keyOf(in.bundle) && places[bd.Namespace] {
			in.existing = append(in.existing, bd)
			continue
		}
		if namespaces[index.ClusterOf(bd)] != bd.Namespace {
			continue
		}
		owned, err := h.isOwned(bd)
		if err != nil {
			return err
		}
		if !owned {
			in.existing = append(in.existing, bd)
		}
	}
	return nil
}

// elsewhere returns the BundleDeployments that are not being deleted, in namespaces where none of the existing ones is.
func elsewhere(namesakes, existing []*fleet.BundleDeployment) []*fleet.BundleDeployment {
	known := map[string]bool{"": true}
	for _, bd := range existing {
		known[bd.Namespace] = true
	}
	var others []*fleet.BundleDeployment
	for _, bd := range namesakes {
		if !known[bd.Namespace] && bd.DeletionTimestamp == nil {
			others = append(others, bd)
		}
	}
	return others
}

// isOwned reports whether the Bundle in the labels of a BundleDeployment exists.
func (h *handler) isOwned(bd *fleet.BundleDeployment) (bool, error) {
	of := index.BundleOf(bd)
	owner, err := reconcile.Optional(h.app.Bundles.Cache().Get(of.Namespace, of.Name))
	return owner != nil, err
}

// namespacesOf returns the cluster namespaces, by Cluster and as a set.
func namespacesOf(clusters []*fleet.Cluster) (namespaces map[types.NamespacedName]string, places map[string]bool) {
	namespaces, places = make(map[types.NamespacedName]string, len(clusters)), make(map[string]bool, len(clusters))
	for _, cluster := range clusters {
		namespaces[keyOf(cluster)], places[cluster.Status.Namespace] = cluster.Status.Namespace, true
	}
	return namespaces, places
}

// isCurrent reports whether the Bundle is unchanged since the pass began.
func (h *handler) isCurrent(bundle *fleet.Bundle) bool {
	now, err := reconcile.Optional(h.app.Bundles.Cache().Get(bundle.Namespace, bundle.Name))
	return err == nil && now != nil && now.UID == bundle.UID && now.Generation == bundle.Generation && now.DeletionTimestamp == nil
}

// fewValues is the number of values Secrets up to which they are read one by one.
const fewValues = 3

// gatherValues reads the values Secrets that are needed to compute the BundleDeployments.
func (h *handler) gatherValues(ctx context.Context, in *input, aimed aim, steps []rollout.Step, decision rollout.Decision) error {
	in.values = map[string]*rulesdelivery.Values{}
	var wanted []*fleet.BundleDeployment
	for i, target := range aimed.targets {
		if made := deploymentInput(*in, target, steps[i], decision.Verdicts[i]); made.NeedsValues() {
			wanted = append(wanted, steps[i].Deployment)
		}
	}
	if len(wanted) > fewValues {
		return h.listValues(ctx, in)
	}
	for _, bd := range wanted {
		secret, err := reconcile.Optional(h.app.Kube.CoreV1().Secrets(bd.Namespace).Get(ctx, bd.Name, metav1.GetOptions{}))
		if err != nil {
			return fmt.Errorf("reading the values of %s: %w", keyOf(bd), err)
		}
		if secret != nil {
			values := rulesdelivery.ReadValues(secret)
			in.values[bd.Namespace] = &values
		}
	}
	return nil
}

// pageOfValues is the page size for listing values Secrets.
const pageOfValues = 250

// listValues reads the values of all BundleDeployments of a Bundle in few requests. Their Secrets have the Bundle's
// name.
func (h *handler) listValues(ctx context.Context, in *input) error {
	options := metav1.ListOptions{
		FieldSelector: "metadata.name=" + in.bundle.Name + ",type=" + fleet.SecretTypeBundleDeployment, Limit: pageOfValues,
	}
	for {
		page, err := h.app.Kube.CoreV1().Secrets(metav1.NamespaceAll).List(ctx, options)
		if err != nil {
			return fmt.Errorf("reading the values of all clusters: %w", err)
		}
		for i := range page.Items {
			values := rulesdelivery.ReadValues(&page.Items[i])
			in.values[page.Items[i].Namespace] = &values
		}
		if options.Continue = page.Continue; options.Continue == "" {
			return nil
		}
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

// deploymentInput returns the input for the BundleDeployment of one target.
func deploymentInput(in input, target targeting.Target, step rollout.Step, verdict rollout.Verdict) rulesdelivery.Input {
	out := rulesdelivery.Input{
		Bundle: in.bundle, Target: target, Verdict: verdict, Existing: step.Deployment, Values: in.values[target.Cluster.Status.Namespace],
	}
	if bd := step.Deployment; bd != nil && in.secretHolds != nil {
		out.SecretKnown = in.secretHolds(bd.UID, bd.Spec.ValuesHash)
	}
	return out
}
