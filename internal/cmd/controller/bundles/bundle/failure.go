package bundle

import (
	"errors"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/controller/bundles/ledger"
	"github.com/fleet-hub/fleet/internal/cut"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// writeError begins every message about a BundleDeployment that the API server does not take.
const writeError = "write error: "

// errContentTooLarge means that the Content of a Bundle cannot be stored.
var errContentTooLarge = errors.New("resources: their Content is larger than the API server stores; make them smaller, or several Bundles of them")

// messageTooLarge is the Event of a Bundle that cannot even be written to.
const messageTooLarge = "the Bundle is so large that the API server stores no finalizer and no status with it, so it is not delivered; make spec.resources smaller"

// isTooLarge says whether the API server, or its store, refuses an object for its size.
func isTooLarge(err error) bool {
	return apierrors.IsRequestEntityTooLargeError(err) || err != nil &&
		(strings.Contains(err.Error(), "request is too large") || strings.Contains(err.Error(), "larger than max"))
}

// tellUnprepared tells why a Bundle cannot be written to. One that is too large takes no status either, and there is
// nothing else to do. What is deployed stays as it is.
func (h *handler) tellUnprepared(bundle *fleet.Bundle, err error) error {
	switch {
	case isTooLarge(err):
		h.app.Recorder.Event(bundle, corev1.EventTypeWarning, fleet.ReasonBundleTooLarge, messageTooLarge)
		return nil
	case isTold(err):
		before, _ := h.ledger.Get(keyOf(bundle))
		before.Generation = bundle.Generation
		h.ledger.Set(keyOf(bundle), aim{outcome: before}.failed(fleet.ReasonError, writeError, errors.New(wordsOf(err))).outcome)
	}
	return err
}

// isTold says whether somebody has to do something about an answer of the API server.
func isTold(err error) bool { return isForOne(err) || apierrors.IsInternalError(err) }

// isForOne says whether an API server's answer is about the object that was sent.
func isForOne(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) || isTooLarge(err)
}

// failure is why a BundleDeployment cannot be written.
type failure struct {
	// message is what the Bundle says of it.
	message string
	// inDoubt means that it may have been written all the same, or would be the next time.
	inDoubt bool
}

// failures are those of a Bundle's clusters, by their namespaces.
type failures map[string]failure

// note remembers an error that somebody has to do something about, and returns what has to be tried again. A server that
// fails is mostly one that reaches no admission webhook.
func (f failures) note(namespace string, err error) error {
	switch {
	case errors.Is(err, errForeign):
		f[namespace] = failure{message: targetingError + errForeign.Error()}
		return nil // when the other one goes, we are woken
	case errors.Is(err, errSecretTaken):
		f[namespace] = failure{message: writeError + errSecretTaken.Error()}
	case isForOne(err):
		f[namespace] = failure{message: writeError + wordsOf(err)}
	case apierrors.IsInternalError(err):
		f[namespace] = failure{message: writeError + wordsOf(err), inDoubt: true}
	}
	return err
}

// localPort is the one thing in what API servers say of a connection that is another one with each.
var localPort = regexp.MustCompile(`(\b(?:read|write) tcp \S+):\d+->`)

// maxWords is how long an error may be of which each cluster's target keeps one.
const maxWords = 2 << 10

// wordsOf is an error in the API server's own words, the same as long as its cause is.
func wordsOf(err error) string {
	text := err.Error()
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		text = status.Status().Message
	}
	return cut.Text(localPort.ReplaceAllString(text, "$1->"), maxWords)
}

// tell is the outcome with what fails.
func (f failures) tell(outcome ledger.Outcome) ledger.Outcome {
	outcome.Targets = slices.Clone(outcome.Targets)
	for i := range outcome.Targets {
		target := &outcome.Targets[i]
		if failed, found := f[target.Namespace]; found && target.Failure == "" {
			target.Failure, target.InDoubt = failed.message, failed.inDoubt
		}
	}
	return outcome
}

// failing are the failures that were told of a Bundle when it was last tried. Until it is tried again they hold, or the
// status would change with every try.
func (h *handler) failing(bundle types.NamespacedName) failures {
	before, _ := h.ledger.Get(bundle)
	found := failures{}
	for _, target := range before.Targets {
		if strings.HasPrefix(target.Failure, writeError) || target.Failure == targetingError+errForeign.Error() {
			found[target.Namespace] = failure{target.Failure, target.InDoubt}
		}
	}
	return found
}
