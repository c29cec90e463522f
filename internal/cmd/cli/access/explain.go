package access

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
	"github.com/fleet-hub/fleet/internal/kube/foreign"
)

// saidLimit is the length of a text of an API server in an error, in bytes.
const saidLimit = 1024

// Explain returns the error of a request as one that says how to go on. doing says what failed, "reading Cluster a/b" for
// example. Errors that are explained already stay as they are.
func Explain(doing string, err error) error {
	var explained *exit.Error
	if err == nil || errors.As(err, &explained) {
		return err
	}
	if errors.Is(err, context.Canceled) { // the user interrupted the command
		return fmt.Errorf("%s: interrupted: %w", doing, context.Canceled)
	}
	err = foreign.Classify(err)
	problem := boundedError{text: foreign.Excerpt(doing+": "+err.Error(), saidLimit), error: err}
	failure := func(code exit.Code) *exit.Error { return &exit.Error{Code: code, Problems: []error{problem}} }
	switch {
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "is being terminated"):
		return failure(exit.Refused).With("wait until the namespace is deleted, and create it again")
	case apierrors.IsForbidden(err):
		return failure(exit.Refused).With("get the right that the message names, or use --context of a user who has it")
	case apierrors.IsUnauthorized(err):
		return failure(exit.Preflight).With("log in again, then: kubectl auth whoami")
	case IsMissingKind(err):
		return exit.Errorf(exit.Preflight, "%s: this cluster is not a hub, because it does not have the API fleet.cattle.io", doing).
			With("select the hub with --context: kubectl config get-contexts")
	case errors.Is(err, foreign.ErrUntrusted), errors.Is(err, foreign.ErrUnreachable):
		return failure(exit.Preflight).With("kubectl cluster-info")
	}
	return fmt.Errorf("%w", problem)
}

// NoWorkspace returns the error for a workspace that does not exist.
func NoWorkspace(name string) error {
	return exit.Errorf(exit.Preflight, "workspace %s does not exist", name).
		With("kubectl create namespace "+name, "or select another workspace with -n")
}

// IsPassing reports whether the same request may succeed in a moment: the server was not reached, was overloaded, or failed
// itself. API servers do so while they restart. Commands that wait look again.
func IsPassing(err error) bool {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		code := status.Status().Code
		return code >= http.StatusInternalServerError || code == http.StatusTooManyRequests
	}
	return !errors.Is(err, context.Canceled) && errors.Is(foreign.Classify(err), foreign.ErrUnreachable)
}

// boundedError is an error whose text is bounded and has one line.
type boundedError struct {
	text string
	error
}

func (s boundedError) Error() string { return s.text }

func (s boundedError) Unwrap() error { return s.error }

// IsMissingKind reports whether the API server does not know the resource of a request.
func IsMissingKind(err error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) {
		return false
	}
	details := status.Status().Details
	return details == nil || details.Name == "" || apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}
