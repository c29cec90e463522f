package clusterimport

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fleet-hub/fleet/internal/cmd/controller/agentmanagement/clusterimport/install"
	"github.com/fleet-hub/fleet/internal/kube/foreign"
	kubeconfigs "github.com/fleet-hub/fleet/internal/kube/kubeconfig"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

func TestObstacle(t *testing.T) {
	secrets := schema.GroupResource{Resource: "secrets"}
	tests := map[string]struct {
		err    error
		reason string
		says   string
	}{
		"a command":          {kubeconfigs.ErrKubeconfigExec, conditions.ReasonKubeconfigRefused, "exec"},
		"a plugin":           {kubeconfigs.ErrKubeconfigAuthProvider, conditions.ReasonKubeconfigRefused, "auth-provider"},
		"a file":             {fmt.Errorf("%w: tokenFile", kubeconfigs.ErrKubeconfigFile), conditions.ReasonKubeconfigRefused, "embed"},
		"no verification":    {kubeconfigs.ErrKubeconfigInsecure, conditions.ReasonKubeconfigRefused, "CA"},
		"another user":       {kubeconfigs.ErrKubeconfigImpersonates, conditions.ReasonKubeconfigRefused, "as-groups"},
		"no TLS":             {foreign.ErrKubeconfigPlain, conditions.ReasonKubeconfigRefused, "https"},
		"a proxy":            {foreign.ErrKubeconfigProxy, conditions.ReasonKubeconfigRefused, "allowLocalKubeconfigs"},
		"a local address":    {fmt.Errorf("asking: %w", foreign.ErrKubeconfigAddress), conditions.ReasonKubeconfigRefused, "allowLocalKubeconfigs"},
		"a local hub":        {fmt.Errorf("asking: %w", foreign.ErrHubAddress), conditions.ReasonKubeconfigRefused, "apiServerURL"},
		"an old credential":  {foreign.ErrKubeconfigExpired, conditions.ReasonKubeconfigExpired, "a new one"},
		"a redirect":         {fmt.Errorf("asking: %w", foreign.ErrRedirected), conditions.ReasonDownstreamAnswerRefused, "redirect"},
		"too much":           {fmt.Errorf("asking: %w", foreign.ErrAnswerTooLong), conditions.ReasonDownstreamAnswerRefused, "1 MiB"},
		"an old certificate": {fmt.Errorf("asking: %w", foreign.ErrExpired), conditions.ReasonDownstreamCertificateExpired, "renew"},
		"no context":         {kubeconfigs.ErrKubeconfigContext, conditions.ReasonKubeconfigInvalid, "context"},
		"no kubeconfig":      {kubeconfigs.ErrKubeconfigMalformed, conditions.ReasonKubeconfigInvalid, "malformed"},
		"another CA":         {fmt.Errorf("asking: %w", foreign.ErrUntrusted), conditions.ReasonTLSUntrusted, "certificate-authority-data"},
		"no server":          {fmt.Errorf("asking: %w", foreign.ErrUnreachable), conditions.ReasonDownstreamUnreachable, "reachable"},
		"another cluster":    {install.ErrOtherCluster, conditions.ReasonLocalClusterMismatch, "another cluster"},
		"a bad token":        {apierrors.NewUnauthorized("no"), conditions.ReasonDownstreamUnauthorized, "token"},
		"too few rights":     {fmt.Errorf("x: %w", apierrors.NewForbidden(secrets, "a", errors.New("no"))), conditions.ReasonDownstreamForbidden, "cluster-admin"},
		"anything else":      {errors.New("the token is s3cr3t"), conditions.ReasonError, "kubectl logs -n hub-system deployment/fleet-controller"},
		"a server's failure": {apierrors.NewInternalError(errors.New("at 10:15")), conditions.ReasonError, "kubectl logs -n hub-system deployment/fleet-controller"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			reason, message := obstacle(test.err, "hub-system", "agents")
			if reason != test.reason || !strings.Contains(message, test.says) {
				t.Errorf("got %s %q; want %s and %q in the message", reason, message, test.reason, test.says)
			}
			again, repeated := obstacle(fmt.Errorf("at another time: %w", test.err), "hub-system", "agents")
			if again != reason || repeated != message {
				t.Errorf("the same cause gave another condition: %s %q", again, repeated)
			}
			if strings.Contains(message, "s3cr3t") || strings.Contains(message, "10:15") {
				t.Errorf("the message repeats what a server said: %q", message)
			}
		})
	}
}
