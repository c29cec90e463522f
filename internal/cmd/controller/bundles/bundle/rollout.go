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

// rollOut writes what the rollout allows now. What one round may do is limited, and what was refused has taken up room
// of others; the next ones follow at once, with what the API server answered to the last. Errors are those of all
// rounds.
func (h *handler) rollOut(ctx context.Context, in input) error {
	key := keyOf(in.bundle)
	p := newPass(in.bundle, h.failing(key))
	p.failedWith(h.rounds(ctx, in, p))
	if outcome, changed := p.end(); changed {
		h.ledger.Set(key, outcome)
	}
	return errors.Join(p.errs...)
}

// rounds makes one round after the other while they get on.
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

// flowing is the layout for the rounds after the first, and how many writes are under way together. Where nothing but
// maxNew limits what is created, rounds would differ in nothing but the pauses between them, in which the last of one
// is waited for: then there is one more for all the rest, with as many under way as a round may create.
func flowing(layout rollout.Layout) (rest rollout.Layout, together int) {
	if layout.Limits() || layout.MaxNew <= 0 {
		return layout, atATime
	}
	together = min(layout.MaxNew, atATime)
	layout.MaxNew = max(layout.MaxNew, len(layout.Of))
	return layout, together
}

// round makes one round of a pass; again says that the next may follow.
func (h *handler) round(ctx context.Context, in *input, aimed aim, p *pass) (again bool, err error) {
	steps := aimed.steps(*in)
	decision := rollout.Decide(aimed.layout, steps)
	if slices.Contains(decision.Costly, true) && aimed.layout.Limits() && !h.sights.isListed(keyOf(in.bundle)) {
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

// waitsForOthers says whether a target waits for something that BundleDeployments tell of.
func waitsForOthers(wait rollout.Wait) bool {
	return wait == rollout.WaitLimit || wait == rollout.WaitPartition || wait == rollout.WaitMaxNew
}

// list asks the API server for the Bundle's BundleDeployments: what an earlier process has promoted counts, though the
// cache may have been filled before.
func (h *handler) list(in *input) error {
	live, err := h.live(in.bundle)
	if err != nil {
		return fmt.Errorf("listing what is promoted: %w", err)
	}
	h.sights.noteAll(keyOf(in.bundle), live)
	return h.gatherDeployments(in)
}

// note remembers what the API server answered to a write, unless the cache has it already.
func (h *handler) note(bundle types.NamespacedName, written *fleet.BundleDeployment) {
	h.sights.note(bundle, written)
	if cached, err := h.app.BundleDeployments.Cache().Get(written.Namespace, written.Name); err == nil {
		h.sights.cached(bundle, cached)
	}
}

// gatherDeployments finds the Bundle's BundleDeployments as they were last seen.
func (h *handler) gatherDeployments(in *input) error {
	cached, err := h.deployments(in.bundle)
	if err != nil {
		return err
	}
	in.existing, in.inDoubt = h.sights.newest(keyOf(in.bundle), cached)
	return h.gatherUnlabelled(in)
}

// gatherUnlabelled finds the Bundle's BundleDeployments that somebody took labels off, or misspelt them: they have its
// name, are in the namespace of one of its clusters, and say still of which cluster or of which Bundle they are. They get
// their labels back.
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

// namespacesOf are the cluster namespaces, by Cluster and as a set.
func namespacesOf(clusters []*fleet.Cluster) (namespaces map[types.NamespacedName]string, places map[string]bool) {
	namespaces, places = make(map[types.NamespacedName]string, len(clusters)), make(map[string]bool, len(clusters))
	for _, cluster := range clusters {
		namespaces[keyOf(cluster)], places[cluster.Status.Namespace] = cluster.Status.Namespace, true
	}
	return namespaces, places
}

// isCurrent says whether a Bundle is what it was when the pass began.
func (h *handler) isCurrent(bundle *fleet.Bundle) bool {
	now, err := reconcile.Optional(h.app.Bundles.Cache().Get(bundle.Namespace, bundle.Name))
	return err == nil && now != nil && now.UID == bundle.UID && now.Generation == bundle.Generation && now.DeletionTimestamp == nil
}

// fewValues is up to how many values Secrets are read one by one.
const fewValues = 3

// gatherValues reads the Secrets of what goes on with values that nothing else knows.
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

// pageOfValues is how many Secrets come with one answer.
const pageOfValues = 250

// listValues reads the values of all of a Bundle's BundleDeployments, which have its name, in few requests.
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

// errMoved says that a BundleDeployment is no longer what a promotion was decided for.
var errMoved = errors.New("it was changed meanwhile; the next pass decides anew")

// once is a client whose updates are not worked out anew when somebody else was faster: whether a promotion may be
// written has to be decided anew, too.
type once struct {
	reconcile.Updater[*fleet.BundleDeployment]
}

// Get is asked after a conflict, and says that it was one.
func (once) Get(_, name string, _ metav1.GetOptions) (*fleet.BundleDeployment, error) {
	return nil, apierrors.NewConflict(schema.GroupResource{Group: fleet.SchemeGroupVersion.Group, Resource: "bundledeployments"}, name, errMoved)
}

// client is what a BundleDeployment is updated with.
func (h *handler) client(w write) reconcile.Updater[*fleet.BundleDeployment] {
	if w.Deployment.Spec.DeploymentID != w.existing.Spec.DeploymentID {
		return once{h.app.BundleDeployments}
	}
	return h.app.BundleDeployments
}

// deploymentInput is what the BundleDeployment of one target is made of.
func deploymentInput(in input, target targeting.Target, step rollout.Step, verdict rollout.Verdict) rulesdelivery.Input {
	out := rulesdelivery.Input{
		Bundle: in.bundle, Target: target, Verdict: verdict, Existing: step.Deployment, Values: in.values[target.Cluster.Status.Namespace],
	}
	if bd := step.Deployment; bd != nil && in.secretHolds != nil {
		out.SecretKnown = in.secretHolds(bd.UID, bd.Spec.ValuesHash)
	}
	return out
}
