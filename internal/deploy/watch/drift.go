package watch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"reflect"
	"sync"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"

	"github.com/fleet-hub/fleet/internal/deploy/access"
	"github.com/fleet-hub/fleet/internal/deploy/manifest"
	"github.com/fleet-hub/fleet/internal/rules/drift"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// setRules takes the rules for ignored differences from the options. If the rules changed, every object is compared
// again.
func (t *Tracking) setRules(options *fleet.BundleDeploymentOptions) {
	if t.rules.AreOf(options.Diff) {
		return
	}
	t.rules = drift.RulesOf(options.Diff)
	for ref, seen := range t.seen {
		seen.ResourceVersion, seen.Compared = "", false
		t.seen[ref] = seen
	}
}

// ErrReleaseLost means that the Secret in which Helm stores the revision was deleted.
var ErrReleaseLost = errors.New("the release no longer exists")

// processLive processes live objects as read from the API server; a nil entry means that the object does not exist. It
// compares the objects that changed with the deployed manifest, which it reads from the history if wanted is nil.
func (o *Observer) processLive(ctx context.Context, bd *fleet.BundleDeployment, t *Tracking, live, wanted manifest.Objects) error {
	uncompared := t.note(live, ignoredConditions(&bd.Spec.Options), o.Clock())
	if len(uncompared) == 0 {
		return nil
	}
	if wanted == nil {
		t.rewritten(uncompared, o.Clock())
		var err error
		if wanted, err = o.Revision(ctx, t.Release); apierrors.IsNotFound(err) {
			return fmt.Errorf("%w: %w", ErrReleaseLost, err)
		} else if err != nil {
			return err
		}
	}
	var errs []error
	autoscalers := drift.AutoscalersOf(wanted.List())
	findIdentity := sync.OnceValues(func() (*access.Identity, error) { return o.Accounts.Find(ctx, bd) })
	clean := sync.OnceValue(func() func(string) string { return o.Cleaner(ctx, bd) })
	for _, now := range uncompared {
		ref := now.Ref
		result, err := compare(ctx, findIdentity, ref, drift.Input{Desired: wanted[ref], Live: live[ref], Autoscalers: autoscalers, Rules: t.rules})
		if err != nil {
			errs = append(errs, fmt.Errorf("comparing %s with the deployed manifest: %w", ref.Text(), err))
			continue
		}
		now.Compared = true
		if result.again > 0 {
			now.CompareAgain = o.Clock().Add(result.again)
			o.Again(bd.Name, result.again)
		}
		if result.patch != nil {
			now.Patch = result.patch.Text(clean())
		}
		if result.dropped != nil && t.set.IsAgent {
			now.Dropped = result.dropped.Text(clean())
		}
		t.seen[ref] = now.observation
	}
	return errors.Join(errs...)
}

// note updates the objects that need no comparison, and returns those that do.
func (t *Tracking) note(live manifest.Objects, ignored []map[string]string, at time.Time) (uncompared []observedObject) {
	for _, ref := range t.refs {
		object, looked := live[ref]
		switch {
		case !looked:
			continue
		case object == nil:
			t.seen[ref] = observation{}
			continue
		}
		now := observe(object, t.set.Hash, ignored)
		last, known := t.seen[ref]
		if !known && t.wasLeaving(object) {
			t.leaving = append(t.leaving, ref)
		}
		if last.comparedAs(now) && !last.isDue(at) {
			now.Patch, now.Dropped, now.Compared, now.CompareAgain = last.Patch, last.Dropped, true, last.CompareAgain
		}
		if now.Owned && !now.Compared {
			uncompared = append(uncompared, observedObject{ref, now})
			continue
		}
		t.seen[ref] = now
	}
	return uncompared
}

// wasLeaving reports whether the deletion of an object was requested before the deployment. Its deletionTimestamp is later than the
// request, by the grace period.
func (t *Tracking) wasLeaving(object *unstructured.Unstructured) bool {
	gone := object.GetDeletionTimestamp()
	if gone == nil {
		return false
	}
	grace := time.Duration(ptr.Deref(object.GetDeletionGracePeriodSeconds(), 0)) * time.Second
	return t.deployed.IsZero() || gone.Add(-grace).Before(t.deployed)
}

// effectPause is the pause until a difference is compared again that a policy or webhook keeps: the policy may be removed.
const effectPause = 15 * time.Minute

// comparison is the result of comparing an object with the deployed manifest.
type comparison struct {
	// patch would restore the deployed state, nil without drift. dropped is a patch that the API server does not apply.
	patch, dropped drift.Patch
	// again is the pause after which the result may change without a change of the object, or 0.
	again time.Duration
}

// compare compares an object with the deployed manifest. It asks the API server with a dry run whether the patch has an effect,
// except for Secrets, whose patches are redacted.
func compare(ctx context.Context, findIdentity func() (*access.Identity, error), ref manifest.Ref, in drift.Input) (comparison, error) {
	if in.Desired == nil {
		return comparison{}, nil // the manifest has no such object
	}
	patch, err := drift.Comparer{New: builtIn}.Compare(in)
	if err != nil || patch == nil || ref.GroupKind() == (schema.GroupKind{Kind: "Secret"}) {
		return comparison{patch: patch}, err
	}
	nothing, err := changesNothing(ctx, findIdentity, ref, in.Live, patch)
	switch {
	case nothing:
		return comparison{dropped: patch, again: effectPause}, nil
	case err != nil && !isRefusal(err):
		return comparison{patch: patch, again: pollPause}, nil
	}
	return comparison{patch: patch}, nil
}

func isRefusal(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsMethodNotSupported(err)
}

// changesNothing reports whether a patch would leave its fields unchanged, by a dry run: the API server drops
// fields that the schema does not know, and policies and webhooks may revert others.
func changesNothing(ctx context.Context, findIdentity func() (*access.Identity, error), ref manifest.Ref, live *unstructured.Unstructured, patch drift.Patch) (bool, error) {
	identity, err := findIdentity()
	if err != nil {
		return false, err
	}
	mapping, err := identity.Mapping(ref.GroupVersionKind)
	if err != nil {
		return false, err
	}
	text, err := json.Marshal(patch)
	if err != nil {
		return false, err
	}
	options := metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}, FieldManager: access.FieldManager}
	answer, err := identity.Dynamic.Resource(mapping.Resource).Namespace(ref.Namespace).Patch(ctx, ref.Name, types.MergePatchType, text, options)
	return err == nil && haveSame(patch, live.Object, answer.Object), err
}

// haveSame reports whether two objects are equal in the fields of a patch. Controllers may have changed other fields of the live
// object since it was read. serviceAccount is another name of serviceAccountName, which wins: it may differ although the API server
// keeps it.
func haveSame(patch, a, b map[string]any) bool {
	for key, change := range patch {
		if key == "serviceAccount" {
			return false
		}
		fields, _ := change.(map[string]any)
		inA, isMapA := a[key].(map[string]any)
		inB, isMapB := b[key].(map[string]any)
		same := reflect.DeepEqual(a[key], b[key])
		if len(fields) > 0 && isMapA && isMapB {
			same = haveSame(fields, inA, inB)
		}
		if !same {
			return false
		}
	}
	return true
}

// builtIn returns an empty object of a built-in kind, or nil for other kinds.
func builtIn(gvk schema.GroupVersionKind) any {
	if manifest.IsCRD(gvk) && gvk.Version == apiextensionsv1.SchemeGroupVersion.Version {
		return &apiextensionsv1.CustomResourceDefinition{}
	}
	object, err := scheme.Scheme.New(gvk)
	if err != nil {
		return nil
	}
	return object
}

// comparedAs reports whether the last comparison is still valid: nothing but the status has changed since.
func (o observation) comparedAs(now observation) bool {
	return o.Compared && o.UID == now.UID && o.Content == now.Content
}

// isCurrent reports whether the object was in place at a version, and needs no other comparison.
func (o observation) isCurrent(version string, now time.Time) bool {
	return o.inPlace() && o.ResourceVersion == version && !o.isDue(now)
}

// isDue reports whether the object has to be compared again although it did not change.
func (o observation) isDue(now time.Time) bool {
	return !o.CompareAgain.IsZero() && !now.Before(o.CompareAgain)
}

// contentOf returns a hash of everything in an object that can drift. The generation does not suffice: some kinds
// do not increase it with every change.
func contentOf(object *unstructured.Unstructured) uint64 {
	content := maps.Clone(object.Object)
	delete(content, "status")
	if metadata, ok := content["metadata"].(map[string]any); ok {
		metadata = maps.Clone(metadata)
		delete(metadata, "resourceVersion")
		delete(metadata, "generation")
		delete(metadata, "managedFields")
		content["metadata"] = metadata
	}
	hash := fnv.New64a()
	_ = json.NewEncoder(hash).Encode(content) // the object came from JSON, and writing to a hash cannot fail
	return hash.Sum64()
}
