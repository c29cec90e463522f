package clusterimport

import (
	"errors"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/fleet-hub/fleet/internal/cmd/controller/agentmanagement/clusterimport/install"
	"github.com/fleet-hub/fleet/internal/kube/foreign"
	kubeconfigs "github.com/fleet-hub/fleet/internal/kube/kubeconfig"
	supervisionrule "github.com/fleet-hub/fleet/internal/rules/supervision"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// obstacle returns the condition reason and message for the error of a run. Messages are constant: the log contains
// what a server returned. system is the namespace of this hub's controllers, agent that of the agent.
func obstacle(err error, system, agent string) (reason, message string) {
	kubeconfig := func(err error) string {
		return "the kubeconfig Secret cannot be used: " + err.Error()
	}
	if reason, message := refusal(err, system, agent); reason != "" {
		return reason, message
	}
	for _, known := range []struct {
		is              error
		reason, message string
	}{
		{kubeconfigs.ErrKubeconfigExec, conditions.ReasonKubeconfigRefused, kubeconfig(kubeconfigs.ErrKubeconfigExec)},
		{kubeconfigs.ErrKubeconfigAuthProvider, conditions.ReasonKubeconfigRefused, kubeconfig(kubeconfigs.ErrKubeconfigAuthProvider)},
		{kubeconfigs.ErrKubeconfigFile, conditions.ReasonKubeconfigRefused, kubeconfig(kubeconfigs.ErrKubeconfigFile)},
		{kubeconfigs.ErrKubeconfigInsecure, conditions.ReasonKubeconfigRefused, kubeconfig(kubeconfigs.ErrKubeconfigInsecure)},
		{kubeconfigs.ErrKubeconfigImpersonates, conditions.ReasonKubeconfigRefused, kubeconfig(kubeconfigs.ErrKubeconfigImpersonates)},
		{foreign.ErrKubeconfigPlain, conditions.ReasonKubeconfigRefused, kubeconfig(foreign.ErrKubeconfigPlain)},
		{foreign.ErrKubeconfigProxy, conditions.ReasonKubeconfigRefused, kubeconfig(foreign.ErrKubeconfigProxy)},
		{foreign.ErrKubeconfigAddress, conditions.ReasonKubeconfigRefused, kubeconfig(foreign.ErrKubeconfigAddress)},
		{foreign.ErrHubAddress, conditions.ReasonKubeconfigRefused, kubeconfig(foreign.ErrHubAddress)},
		{foreign.ErrKubeconfigExpired, conditions.ReasonKubeconfigExpired, kubeconfig(foreign.ErrKubeconfigExpired)},
		{kubeconfigs.ErrKubeconfigContext, conditions.ReasonKubeconfigInvalid, kubeconfig(kubeconfigs.ErrKubeconfigContext)},
		{kubeconfigs.ErrKubeconfigMalformed, conditions.ReasonKubeconfigInvalid, kubeconfig(kubeconfigs.ErrKubeconfigMalformed)},
		{foreign.ErrRedirected, conditions.ReasonDownstreamAnswerRefused, "the API server in the kubeconfig answers with a redirect, which the hub does not follow because the other server would receive the credential: put the address of the API server itself into the kubeconfig"},
		{foreign.ErrAnswerTooLong, conditions.ReasonDownstreamAnswerRefused, "the API server in the kubeconfig sends a response of more than 1 MiB, which the hub does not read: check that its address is that of an API server, and whether one of the agent's objects there is that large"},
		{foreign.ErrExpired, conditions.ReasonDownstreamCertificateExpired, "the certificate of the API server in the kubeconfig has expired, or is not valid yet: renew it there (with kubeadm: kubeadm certs renew apiserver), or correct the clock that is wrong, there or on this hub"},
		{foreign.ErrUntrusted, conditions.ReasonTLSUntrusted, "the certificate of the API server in the kubeconfig is not signed by a trusted CA: put the right certificate-authority-data into the kubeconfig"},
		{foreign.ErrUnreachable, conditions.ReasonDownstreamUnreachable, "the API server in the kubeconfig does not answer: check that its address is right and reachable from this hub"},
		{install.ErrNoIdentity, conditions.ReasonAwaitingAgent, "there is no agent of this Cluster in the cluster of the kubeconfig: the hub installs it again"},
		{install.ErrClassInUse, conditions.ReasonAwaitingAgent, "the agent still uses the PriorityClass that is to be deleted: the hub deletes it after the agent has its new settings"},
		{errPullSecretGone, conditions.ReasonPullSecretMissing, "a Secret in imagePullSecrets of the fleet chart does not exist: create it in the hub's system namespace, or correct imagePullSecrets"},
		{errHubItself, conditions.ReasonTargetIsHub, "the kubeconfig points to this hub's own cluster, to which only the workspace in bootstrap.namespace of the fleet chart may deploy: put a kubeconfig of another cluster into the Secret, or use the Cluster local of that workspace"},
		{install.ErrOtherCluster, conditions.ReasonLocalClusterMismatch, "the agent is not removed, because the kubeconfig of the local Cluster points to another cluster: put a kubeconfig of this hub's own cluster into its Secret"},
	} {
		if errors.Is(err, known.is) {
			return known.reason, known.message
		}
	}
	switch {
	case errors.Is(err, install.ErrSettings):
		return conditions.ReasonSettingsInvalid, err.Error() // the chart's message, which is constant
	case apierrors.IsUnauthorized(err):
		return conditions.ReasonDownstreamUnauthorized, "the API server in the kubeconfig rejects its credential: put a valid token or client certificate into the kubeconfig Secret"
	case apierrors.IsForbidden(err):
		return conditions.ReasonDownstreamForbidden, "the kubeconfig's user may not install the agent: it needs the rights of cluster-admin"
	}
	return conditions.ReasonError, "the hub could not install the agent and tries again. The cause: kubectl logs -n " + system + " deployment/fleet-controller"
}

// blockedError means that a person has to change something on the hub.
type blockedError struct{ reason, message string }

func (e *blockedError) Error() string { return e.message }

// refusal returns why a downstream cluster refuses the agent although it can be reached and written to. An empty
// reason means that there is another cause.
func refusal(err error, system, agent string) (reason, message string) {
	if blocked := (*blockedError)(nil); errors.As(err, &blocked) {
		return blocked.reason, blocked.message
	}
	if another := (*install.AnotherHubError)(nil); errors.As(err, &another) {
		return conditions.ReasonAnotherHub, another.Message()
	}
	if twice := (*importedTwiceError)(nil); errors.As(err, &twice) {
		return conditions.ReasonImportedTwice, twice.Error()
	}
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		return supervisionrule.Refusal(status.Status().Message, system, agent)
	}
	return "", ""
}

// isBeingDeleted reports whether an object downstream has to be deleted before the agent can be installed. That takes
// a short time.
func isBeingDeleted(err error) bool {
	return apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}
