package outcome

import (
	"errors"
	"regexp"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/fleet-hub/fleet/internal/rules/content"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// reasoned is an error with a condition reason.
type reasoned struct {
	reason string
	cause  error
}

// Because adds a condition reason to an error.
func Because(reason string, cause error) error {
	if cause == nil {
		return nil
	}
	return &reasoned{reason: reason, cause: cause}
}

func (r *reasoned) Error() string { return r.cause.Error() }
func (r *reasoned) Unwrap() error { return r.cause }

// Helm, kustomize and admission report these failures only as text, so their reasons are derived from the text.
var (
	admissionDenied = regexp.MustCompile(`admission webhook ".*" denied|ValidatingAdmissionPolicy '.*'|failed calling webhook` +
		`|(exceeded|failed) quota: |insufficient quota to |(maximum|minimum) \S+ usage per |violates PodSecurity "`)
	userForbidden   = regexp.MustCompile(`is forbidden: User "`)
	tookTooLong     = regexp.MustCompile(`timed out waiting for the condition|rolled back due to atomic being set|has failed and cannot complete`)
	wrongKubernetes = regexp.MustCompile(`chart requires kubeVersion`)
	objectTaken     = regexp.MustCompile(`cannot be imported into`)
	wrongValues     = regexp.MustCompile(`don't meet the specifications of the schema|schema validation`)
	noYAML          = regexp.MustCompile(`YAML parse error|MalformedYAMLError`)
	doesNotRender   = regexp.MustCompile(`error calling |execution error at|parse error at|kustomize: |template: `)
)

// toldBy returns the reason for the text of an error, "" if no text matches. The first match wins.
func toldBy(text string) string {
	for _, rule := range []struct {
		text   *regexp.Regexp
		reason string
	}{
		{admissionDenied, conditions.ReasonAdmissionDenied},
		{userForbidden, conditions.ReasonForbidden},
		{tookTooLong, conditions.ReasonNotReadyInTime},
		{wrongKubernetes, conditions.ReasonKubeVersionUnsupported},
		{objectTaken, conditions.ReasonObjectTaken},
		{wrongValues, conditions.ReasonHelmValuesInvalid},
		{noYAML, conditions.ReasonManifestInvalid},
		{doesNotRender, conditions.ReasonRenderingFailed},
	} {
		if rule.text.MatchString(text) {
			return rule.reason
		}
	}
	return ""
}

// lacksNamespace reports whether an API server refused an object because its namespace does not exist.
func lacksNamespace(err error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) {
		return false
	}
	details := status.Status().Details
	return details != nil && details.Group == "" && details.Kind == "namespaces"
}

// ReasonOf returns the condition reason for an error: an explicit one, or one for its type, its text or its
// API status, in this order.
func ReasonOf(err error) string {
	var given *reasoned
	switch {
	case errors.As(err, &given):
		return given.reason
	case errors.Is(err, content.ErrHashMismatch):
		return conditions.ReasonContentDamaged
	case errors.Is(err, content.ErrTooLarge):
		return conditions.ReasonBundleTooLarge
	case meta.IsNoMatchError(err):
		return conditions.ReasonKindMissing
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return conditions.ReasonNamespaceTerminating
	case lacksNamespace(err):
		return conditions.ReasonNamespaceMissing
	}
	told := toldBy(err.Error())
	switch {
	case told != "":
		return told
	case apierrors.IsForbidden(err):
		return conditions.ReasonForbidden
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsConflict(err):
		return conditions.ReasonObjectRejected
	}
	return conditions.ReasonError
}
