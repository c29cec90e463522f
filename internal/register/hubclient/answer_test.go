package hubclient

import (
	"crypto/x509"
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fleet-hub/fleet/internal/rules/registering"
)

func TestAnswerOf(t *testing.T) {
	resource := schema.GroupResource{Resource: "bundledeployments"}
	tests := map[string]struct {
		err  error
		want registering.Answer
	}{
		"no error":               {nil, registering.Accepted},
		"401":                    {apierrors.NewUnauthorized("no"), registering.Rejected},
		"403":                    {apierrors.NewForbidden(resource, "", nil), registering.Rejected},
		"404, no CRDs yet":       {apierrors.NewNotFound(resource, ""), registering.Unanswered},
		"429":                    {apierrors.NewTooManyRequests("slow down", 1), registering.Unanswered},
		"500":                    {apierrors.NewInternalError(errors.New("etcd")), registering.Unanswered},
		"503":                    {apierrors.NewServiceUnavailable("starting"), registering.Unanswered},
		"an unknown CA":          {x509.UnknownAuthorityError{}, registering.Untrusted},
		"an expired certificate": {x509.CertificateInvalidError{Reason: x509.Expired}, registering.Unanswered},
		"another host's":         {x509.HostnameError{Certificate: &x509.Certificate{}}, registering.Unanswered},
		"anything else":          {errors.New("connection refused"), registering.Unanswered},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := AnswerOf(test.err); got != test.want {
				t.Errorf("answer %q, want %q", got, test.want)
			}
		})
	}
}
