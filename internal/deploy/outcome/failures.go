package outcome

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// recognised matches the messages of errors that a retry does not resolve.
var recognised = regexp.MustCompile(strings.Join([]string{
	`timed out waiting for the condition`,
	`error validating data`,
	`chart requires kubeVersion`,
	`annotation validation error`,
	`failed, and has been rolled back due to atomic being set`,
	`YAML parse error`,
	`MalformedYAMLError`,
	`unknown field`,
	`Forbidden: updates to .* spec for fields other than .* are forbidden`,
	`Forbidden: spec is immutable after creation`,
	`has failed and cannot complete`,
}, "|"))

// messageLimit limits an error message in a status, in bytes.
const messageLimit = 4096

// failure is a permanent error: the deployment probably fails again until the BundleDeployment changes.
type failure struct{ cause error }

func (f *failure) Error() string { return f.cause.Error() }
func (f *failure) Unwrap() error { return f.cause }

// Classify turns recognized errors, and bundles that are too large, into failures. Other errors are retried.
func Classify(err error) error {
	if err == nil || !recognised.MatchString(err.Error()) && ReasonOf(err) != conditions.ReasonBundleTooLarge {
		return err
	}
	return &failure{cause: err}
}

// IsFailure reports whether err is a failure.
func IsFailure(err error) bool {
	var f *failure
	return errors.As(err, &f)
}

// DependencyError means that a dependency is not in an accepted state. It is not a failure: the next change of a
// dependency triggers a reconcile.
type DependencyError struct {
	Waiting []string
	// Invalid, if set, says which accepted state does not exist, and what to do.
	Invalid string
}

func (e *DependencyError) Error() string {
	text := fmt.Sprintf("dependent bundle(s) are not ready: [%s]", strings.Join(e.Waiting, ", "))
	if e.Invalid != "" {
		text += "; " + e.Invalid
	}
	return text
}

// Reason returns the reason of condition Deployed. A state that does not exist is never reached.
func (e *DependencyError) Reason() string {
	if e.Invalid != "" {
		return conditions.ReasonError
	}
	return conditions.ReasonAwaitingDependencies
}

// LabelsRefusedError means that the release is in place, but that its namespace could not be labelled: the labels or annotations
// are invalid, or the account may not set them.
type LabelsRefusedError struct{ Cause error }

func (e *LabelsRefusedError) Error() string { return e.Cause.Error() }
func (e *LabelsRefusedError) Unwrap() error { return e.Cause }

// UnsupportedError means that this agent cannot deploy such a bundle.
type UnsupportedError struct{ What string }

func (e *UnsupportedError) Error() string { return e.What }

// Outcome is the result of an attempt to deploy a bundle.
type Outcome string

const (
	// Succeeded means that the release is in place.
	Succeeded Outcome = "succeeded"
	// Failed means that the deployment failed permanently. It is retried rarely, because it probably fails again.
	Failed Outcome = "failed"
	// Retried means that the deployment failed for another reason and is retried.
	Retried Outcome = "retried"
)

// Message returns the text of an error, truncated to messageLimit.
func Message(err error) string {
	text := err.Error()
	if len(text) <= messageLimit {
		return text
	}
	return strings.ToValidUTF8(text[:messageLimit], "") + "…"
}

// ClusterScoped returns the error for a cluster-scoped object of a bundle that is limited to one namespace.
func ClusterScoped(name string, gvk schema.GroupVersionKind) error {
	return Because(conditions.ReasonOutsideNamespace, fmt.Errorf("invalid cluster scoped object [name=%s kind=%s apiVersion=%s]: with \"namespace\" every object has to be in a namespace; use \"defaultNamespace\" instead",
		name, gvk.Kind, gvk.GroupVersion()))
}
