package deploy

import (
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fleet-hub/fleet/internal/deploy/hub"
	"github.com/fleet-hub/fleet/internal/deploy/outcome"
	"github.com/fleet-hub/fleet/internal/deploy/release/objects"
	"github.com/fleet-hub/fleet/internal/deploy/source"
	"github.com/fleet-hub/fleet/internal/rules/content"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

func TestReasonOf(t *testing.T) {
	configMaps := schema.GroupResource{Resource: "configmaps"}
	terminating := apierrors.NewForbidden(configMaps, "a", errors.New("being terminated"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	text := func(text string) error { return errors.New(text) }
	tests := map[string]struct {
		err  error
		want string
	}{
		"explicit reason wins":         {outcome.Because(conditions.ReasonReleaseTaken, terminating), conditions.ReasonReleaseTaken},
		"damaged content":              {content.ErrHashMismatch, conditions.ReasonContentDamaged},
		"content that is too large":    {content.ErrTooLarge, conditions.ReasonBundleTooLarge},
		"name leads out of the bundle": {source.ErrPathEscapes, conditions.ReasonManifestInvalid},
		"values do not match the hash": {hub.ErrValuesHash, conditions.ReasonHelmValuesInvalid},
		"unknown kind":                 {&meta.NoKindMatchError{}, conditions.ReasonKindMissing},
		"terminating namespace":        {terminating, conditions.ReasonNamespaceTerminating},
		"missing namespace":            {apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "a"), conditions.ReasonNamespaceMissing},
		"another missing object":       {apierrors.NewNotFound(configMaps, "a"), conditions.ReasonError},
		"an account without the right": {apierrors.NewForbidden(configMaps, "a", errors.New("no")), conditions.ReasonForbidden},
		"an account without the right, within a template": {text(`template: x/templates/a.yaml:3: error calling lookup: secrets "a" is forbidden: User "b" cannot get`),
			conditions.ReasonForbidden},
		"a webhook that denies":                {text(`admission webhook "a.example.com" denied the request: no`), conditions.ReasonAdmissionDenied},
		"a webhook that does not answer":       {text(`Internal error occurred: failed calling webhook "a.example.com": timeout`), conditions.ReasonAdmissionDenied},
		"a policy that denies":                 {text(`configmaps "x" is forbidden: ValidatingAdmissionPolicy 'a' with binding 'a' denied request: no`), conditions.ReasonAdmissionDenied},
		"a quota that is exceeded":             {apierrors.NewForbidden(configMaps, "x", errors.New("exceeded quota: q, requested: count/configmaps=1, used: count/configmaps=1, limited: count/configmaps=1")), conditions.ReasonAdmissionDenied},
		"a quota that needs a limit":           {apierrors.NewForbidden(configMaps, "x", errors.New("failed quota: q: must specify limits.cpu for: c")), conditions.ReasonAdmissionDenied},
		"a quota that nothing covers":          {apierrors.NewForbidden(configMaps, "x", errors.New("insufficient quota to consume: cpu")), conditions.ReasonAdmissionDenied},
		"a LimitRange":                         {apierrors.NewForbidden(configMaps, "x", errors.New("[minimum memory usage per Pod is 1Gi, but request is 1Mi, maximum cpu usage per Container is 1, but limit is 2]")), conditions.ReasonAdmissionDenied},
		"a Pod Security level":                 {apierrors.NewForbidden(configMaps, "x", errors.New(`violates PodSecurity "restricted:latest": privileged`)), conditions.ReasonAdmissionDenied},
		"invalid object":                       {apierrors.NewInvalid(schema.GroupKind{Kind: "Service"}, "a", nil), conditions.ReasonObjectRejected},
		"bad request":                          {apierrors.NewBadRequest("no"), conditions.ReasonObjectRejected},
		"timeout":                              {objects.ErrNotReadyInTime, conditions.ReasonNotReadyInTime},
		"chart for another Kubernetes version": {text("chart requires kubeVersion: <1.20"), conditions.ReasonKubeVersionUnsupported},
		"object of another owner":              {text("Unable to continue with install: ConfigMap x exists and cannot be imported into the current release"), conditions.ReasonObjectTaken},
		"values that do not fit a schema":      {text("values don't meet the specifications of the schema(s) in the following chart(s)"), conditions.ReasonHelmValuesInvalid},
		"not YAML":                             {text("YAML parse error on x/templates/a.yaml"), conditions.ReasonManifestInvalid},
		"a template that fails":                {text("execution error at (x/templates/a.yaml:1:3): no good"), conditions.ReasonRenderingFailed},
		"a kustomization that fails":           {text("kustomize: no such file"), conditions.ReasonRenderingFailed},
		"anything else":                        {text("connection refused"), conditions.ReasonError},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			for _, err := range []error{test.err, fmt.Errorf("doing something: %w", test.err), outcome.NewRedaction(map[string]any{"a": "something"}).Wrap(fmt.Errorf("something: %w", test.err))} {
				if got := outcome.ReasonOf(err); got != test.want {
					t.Errorf("%v: %s, want %s", err, got, test.want)
				}
			}
		})
	}
	if outcome.Because(conditions.ReasonError, nil) != nil {
		t.Error("no error became one")
	}
}
