package hubclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/internal/kube"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Hub contains the requests that an agent sends to a hub with one identity. Each call is one request with a
// timeout, except WatchCredential.
type Hub interface {
	// Register creates a ClusterRegistration. It uses the import identity.
	Register(ctx context.Context, request *fleet.ClusterRegistration) (*fleet.ClusterRegistration, error)
	// Credential reads a Secret: with the import identity the credential for a request, and with the agent's identity
	// what the hub has for its recovery.
	Credential(ctx context.Context, namespace, name string) (*corev1.Secret, error)
	// WatchCredential watches that one Secret. If the Secret exists, the first event is its creation. It uses the
	// import identity.
	WatchCredential(ctx context.Context, namespace, name string) (watch.Interface, error)
	// Prove lists the BundleDeployments of the agent's namespace, limited to one. Only an agent's identity may do
	// that.
	Prove(ctx context.Context, namespace string) error
	// Document reads the hub document.
	Document(ctx context.Context) (string, error)
	// Renew requests a token of an account. Only the account itself may do that.
	Renew(ctx context.Context, namespace, account string, lifetime time.Duration) (string, error)
}

// Connect returns a Hub that talks to a real API server.
func Connect(cfg *rest.Config) (Hub, error) {
	httpClient, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("building the hub client: %w", err)
	}
	core, err := corev1client.NewForConfigAndClient(cfg, httpClient)
	if err != nil {
		return nil, fmt.Errorf("building the hub client: %w", err)
	}
	fleetClient, err := kube.FleetClient(cfg, httpClient)
	if err != nil {
		return nil, fmt.Errorf("building the hub client: %w", err)
	}
	return apiHub{core: core, fleet: fleetClient}, nil
}

type apiHub struct {
	core  corev1client.CoreV1Interface
	fleet rest.Interface
}

// noRetries turns off the retries of client-go: up to ten, by all agents in the same second. Only pace.Pace decides
// when to retry, and it follows the hub's Retry-After.
const noRetries = 0

func (h apiHub) Register(ctx context.Context, request *fleet.ClusterRegistration) (*fleet.ClusterRegistration, error) {
	ctx, cancel := context.WithTimeout(ctx, kube.RequestTimeout)
	defer cancel()
	made := &fleet.ClusterRegistration{}
	err := h.fleet.Post().Namespace(request.Namespace).Resource("clusterregistrations").Body(request).MaxRetries(noRetries).Do(ctx).Into(made)
	return made, err
}

func (h apiHub) Credential(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	ctx, cancel := context.WithTimeout(ctx, kube.RequestTimeout)
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

// anyVersion lets the API server answer from its watch cache. Without it, the server first makes sure that it
// has the latest write, which does not matter for a test of rights.
const anyVersion = "0"

// errNoList means that a server answered without an error, but not with a list: it is a proxy or a load balancer.
var errNoList = errors.New("the server answered with something else than a list of BundleDeployments: the hub's URL must be that of its API server")

func (h apiHub) Prove(ctx context.Context, namespace string) error {
	ctx, cancel := context.WithTimeout(ctx, kube.RequestTimeout)
	defer cancel()
	text, err := h.fleet.Get().Namespace(namespace).Resource("bundledeployments").
		VersionedParams(&metav1.ListOptions{Limit: 1, ResourceVersion: anyVersion}, metav1.ParameterCodec).MaxRetries(noRetries).Do(ctx).Raw()
	if err != nil {
		return err
	}
	// client-go returns an answer of an unknown content type without an error.
	var list metav1.TypeMeta
	if json.Unmarshal(text, &list) != nil || list.GroupVersionKind() != fleet.SchemeGroupVersion.WithKind("BundleDeploymentList") {
		return errNoList
	}
	return nil
}

func (h apiHub) Document(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, kube.RequestTimeout)
	defer cancel()
	found := &corev1.ConfigMap{}
	err := h.core.RESTClient().Get().Namespace(metav1.NamespacePublic).Resource("configmaps").Name(names.HubDocument).MaxRetries(noRetries).Do(ctx).Into(found)
	return found.Data[names.HubDocumentKey], err
}

func (h apiHub) Renew(ctx context.Context, namespace, account string, lifetime time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, kube.RequestTimeout)
	defer cancel()
	seconds := int64(lifetime / time.Second)
	answer := &authenticationv1.TokenRequest{}
	err := h.core.RESTClient().Post().Namespace(namespace).Resource("serviceaccounts").Name(account).SubResource("token").
		Body(&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}).MaxRetries(noRetries).Do(ctx).Into(answer)
	if err == nil && answer.Status.Token == "" {
		err = errNoToken
	}
	return answer.Status.Token, err
}

// errNoToken means that the hub answered a request for a token without one.
var errNoToken = errors.New("the answer contains no token")
