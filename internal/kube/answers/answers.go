package answers

import (
	"errors"
	"regexp"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/cut"
)

// IsTooLarge reports whether the API server or its store refuses an object because of its size. err may be nil.
func IsTooLarge(err error) bool {
	return apierrors.IsRequestEntityTooLargeError(err) || err != nil &&
		(strings.Contains(err.Error(), "request is too large") || strings.Contains(err.Error(), "larger than max"))
}

// IsForObject reports whether an error is about the object that was sent, so that only another object can be accepted.
func IsForObject(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) || IsTooLarge(err)
}

// IsDeleted reports whether the API server answered that an object does not exist. A 404 without a Status says nothing
// about the object: it comes from a proxy without a route, or from a server without the kind, which has lost all data.
func IsDeleted(err error) bool {
	return apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// localPort matches the client's port, the only part of a connection error that differs with each connection.
var localPort = regexp.MustCompile(`(\b(?:read|write) tcp \S+):\d+->`)

// maxMessage limits the length of a message in bytes.
const maxMessage = 2 << 10

// Message returns the API server's message for an error, in at most 2 KiB. The text stays the same as long as the cause
// does.
func Message(err error) string {
	text := err.Error()
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		text = status.Status().Message
	}
	return cut.Text(localPort.ReplaceAllString(text, "$1->"), maxMessage)
}
