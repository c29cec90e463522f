package register

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/internal/kube"
	"github.com/fleet-hub/fleet/internal/rules/registering"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// requestTimeout bounds one request, to the hub or to the agent's own cluster.
const requestTimeout = kube.RequestTimeout

// Hub is what an agent asks of a hub under one identity. Each call is one request and bounded in time, but
// for WatchCredential.
type Hub interface {
	// Register makes a ClusterRegistration; import identity.
	Register(ctx context.Context, request *fleet.ClusterRegistration) (*fleet.ClusterRegistration, error)
	// Credential reads the Secret a request is answered with; import identity.
	Credential(ctx context.Context, namespace, name string) (*corev1.Secret, error)
	// WatchCredential watches for that one Secret, beginning with it if it is there; import identity.
	WatchCredential(ctx context.Context, namespace, name string) (watch.Interface, error)
	// Prove does what only an agent's identity may: list the BundleDeployments of its namespace, one at most.
	Prove(ctx context.Context, namespace string) error
}

// connect is the Hub behind a real API server.
func connect(cfg *rest.Config) (Hub, error) {
	httpClient, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("building a client of the hub: %w", err)
	}
	core, err := corev1client.NewForConfigAndClient(cfg, httpClient)
	if err != nil {
		return nil, fmt.Errorf("building a client of the hub: %w", err)
	}
	fleetClient, err := kube.FleetClient(cfg, httpClient)
	if err != nil {
		return nil, fmt.Errorf("building a client of the hub: %w", err)
	}
	return apiHub{core: core, fleet: fleetClient}, nil
}

type apiHub struct {
	core  corev1client.CoreV1Interface
	fleet rest.Interface
}

// noRetries: client-go would ask again by itself, up to ten times and all agents at the same second. When to ask
// again is decided in one place (pace), which hears what the hub asked for.
const noRetries = 0

func (h apiHub) Register(ctx context.Context, request *fleet.ClusterRegistration) (*fleet.ClusterRegistration, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	made := &fleet.ClusterRegistration{}
	err := h.fleet.Post().Namespace(request.Namespace).Resource("clusterregistrations").Body(request).MaxRetries(noRetries).Do(ctx).Into(made)
	return made, err
}

func (h apiHub) Credential(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	secret := &corev1.Secret{}
	err := h.core.RESTClient().Get().Namespace(namespace).Resource("secrets").Name(name).MaxRetries(noRetries).Do(ctx).Into(secret)
	return secret, err
}

func (h apiHub) WatchCredential(ctx context.Context, namespace, name string) (watch.Interface, error) {
	return h.core.RESTClient().Get().Namespace(namespace).Resource("secrets").VersionedParams(&metav1.ListOptions{
		Watch: true, FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, name).String(),
	}, scheme.ParameterCodec).MaxRetries(noRetries).Watch(ctx)
}

// anyVersion asks for what the API server has at hand. Without it an answer waits until the server is sure to know what
// was written last, which is of no interest to somebody who asks whether he may ask.
const anyVersion = "0"

func (h apiHub) Prove(ctx context.Context, namespace string) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return h.fleet.Get().Namespace(namespace).Resource("bundledeployments").
		VersionedParams(&metav1.ListOptions{Limit: 1, ResourceVersion: anyVersion}, metav1.ParameterCodec).MaxRetries(noRetries).Do(ctx).Error()
}

// answerOf says what an error of the hub counts as.
func answerOf(err error) registering.Answer {
	switch {
	case err == nil:
		return registering.Accepted
	case apierrors.IsUnauthorized(err), apierrors.IsForbidden(err):
		return registering.Rejected
	case isUntrusted(err), errors.Is(err, kube.ErrNoCA):
		return registering.Untrusted
	}
	return registering.Unanswered
}

// isUntrusted holds for a certificate signed by a CA the identity does not know. One that has expired or
// names another host is the hub's to mend, without the agents' help.
func isUntrusted(err error) bool {
	var authority x509.UnknownAuthorityError
	return errors.As(err, &authority)
}
