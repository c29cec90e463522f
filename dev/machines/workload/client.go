package workload

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/fleet-hub/fleet/dev/machines/clustersecrets"
)

// requestTimeout limits each request. The API server is a process on this machine.
const requestTimeout = 5 * time.Second

// Client sends requests to the API server of a cluster.
type Client struct {
	kubernetes kubernetes.Interface
}

// New returns a client for the kubeconfig that the control plane has written. It does not connect yet.
func New(kubeconfig []byte) (*Client, error) {
	config, err := clustersecrets.ParseKubeconfig(kubeconfig)
	if err != nil {
		return nil, err
	}
	config.Timeout, config.QPS = requestTimeout, -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("creating a client for %s: %w", config.Host, err)
	}
	return NewFor(client), nil
}

// NewFor returns a client for an API server.
func NewFor(client kubernetes.Interface) *Client { return &Client{kubernetes: client} }

// Version returns the version of the API server, such as v1.36.3. It fails unless the server is ready.
func (c *Client) Version(ctx context.Context) (string, error) {
	if _, err := c.kubernetes.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx); err != nil {
		return "", fmt.Errorf("checking whether the API server is ready: %w", err)
	}
	info, err := c.kubernetes.Discovery().ServerVersion()
	if err != nil {
		return "", fmt.Errorf("reading the version of the API server: %w", err)
	}
	return info.GitVersion, nil
}

// EnsureBindings creates the rights of new machines.
func (c *Client) EnsureBindings(ctx context.Context) error {
	for _, wanted := range Bindings() {
		_, err := c.kubernetes.RbacV1().ClusterRoleBindings().Create(ctx, wanted, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("creating ClusterRoleBinding %s: %w", wanted.Name, err)
		}
	}
	return nil
}

// EnsureToken writes the Secret of a token, or extends its time.
func (c *Client) EnsureToken(ctx context.Context, token Token, now time.Time) error {
	secrets := c.kubernetes.CoreV1().Secrets(metav1.NamespaceSystem)
	found, err := secrets.Get(ctx, token.Name(), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		_, err = secrets.Create(ctx, token.NewSecret(now), metav1.CreateOptions{})
	case err == nil && found.Type != corev1.SecretTypeBootstrapToken:
		err = fmt.Errorf("it has the type %s, which cannot change: delete it", found.Type)
	case err == nil && !token.IsCurrent(found, now):
		found.Data = token.NewSecret(now).Data
		_, err = secrets.Update(ctx, found, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("writing the bootstrap token %s/%s: %w", metav1.NamespaceSystem, token.Name(), err)
	}
	return nil
}
