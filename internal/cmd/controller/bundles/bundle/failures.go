package bundle

import (
	"errors"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/controller/bundles/values"
	"github.com/fleet-hub/fleet/internal/kube/answers"
	"github.com/fleet-hub/fleet/internal/reconcile"
	"github.com/fleet-hub/fleet/internal/rules/selection"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// writeError is the prefix of messages about a BundleDeployment that the API server refuses.
const writeError = "write error: "

// errForeign means that the cluster's namespace has a BundleDeployment of this name that was made from a Bundle of the
// same name in another namespace.
var errForeign = errors.New("a Bundle of the same name from another workspace is already deployed there: rename one of them")

// errContentTooLarge means that the Content of a Bundle cannot be stored.
var errContentTooLarge = errors.New("resources: their Content is larger than the API server accepts; make them smaller, or split them into several Bundles")

// messageTooLarge is the Event message for a Bundle that is too large to be updated.
const messageTooLarge = "the Bundle is so large that the API server accepts neither a finalizer nor a status, so it is not deployed; make spec.resources smaller"

// reportUnprepared reports why the finalizer of a Bundle cannot be written. A Bundle that is too large takes no status
// either, so it gets an Event only. What is deployed stays unchanged.
func (h *handler) reportUnprepared(bundle *fleet.Bundle, err error) error {
	switch {
	case answers.IsTooLarge(err):
		h.app.Recorder.Event(bundle, corev1.EventTypeWarning, conditions.ReasonBundleTooLarge, messageTooLarge)
		return nil
	case needsUser(err):
		before, _ := h.outcomes.Get(reconcile.KeyOf(bundle))
		before.Generation = bundle.Generation
		h.outcomes.Set(reconcile.KeyOf(bundle), before.WithFailure(conditions.ReasonError, writeError+answers.Message(err)))
	}
	return err
}

// needsUser reports whether a user has to act on an answer of the API server.
func needsUser(err error) bool { return answers.IsForObject(err) || apierrors.IsInternalError(err) }

// failure is the reason why a BundleDeployment cannot be written.
type failure struct {
	// message is shown in the Bundle's status.
	message string
	// uncertain means that the write may have been applied, or may succeed the next time.
	uncertain bool
}

// failures are the failures of a Bundle's clusters, by namespace.
type failures map[string]failure

// add records an error that a user has to act on. It returns the error if the write has to be retried. An internal
// server error mostly means that an admission webhook cannot be reached.
func (f failures) add(namespace, name string, err error) error {
	switch {
	case errors.Is(err, errForeign):
		f[namespace] = failure{message: selection.TargetingError + errForeign.Error()}
		return nil // the deletion of the other BundleDeployment enqueues the Bundle
	case errors.Is(err, values.ErrTaken):
		f[namespace] = failure{message: writeError + "Secret " + namespace + "/" + name + " exists and was not created by Fleet: kubectl describe secret -n " + namespace + " " + name + "; delete it, or rename the Bundle"}
	case answers.IsForObject(err):
		f[namespace] = failure{message: writeError + answers.Message(err)}
	case apierrors.IsInternalError(err):
		f[namespace] = failure{message: writeError + answers.Message(err), uncertain: true}
	}
	return err
}

// addTo returns the outcome with the failures added to its targets.
func (f failures) addTo(outcome selection.Outcome) selection.Outcome {
	outcome.Targets = slices.Clone(outcome.Targets)
	for i := range outcome.Targets {
		target := &outcome.Targets[i]
		if failed, found := f[target.Namespace]; found && target.Failure == "" {
			target.Failure, target.Uncertain = failed.message, failed.uncertain
		}
	}
	return outcome
}

// failing returns the failures that the Bundle's last pass reported. They stay in the status until the Bundle is tried
// again. Otherwise the status would change with every try.
func (h *handler) failing(bundle types.NamespacedName) failures {
	before, _ := h.outcomes.Get(bundle)
	found := failures{}
	for _, target := range before.Targets {
		if strings.HasPrefix(target.Failure, writeError) || target.Failure == selection.TargetingError+errForeign.Error() {
			found[target.Namespace] = failure{target.Failure, target.Uncertain}
		}
	}
	return found
}
