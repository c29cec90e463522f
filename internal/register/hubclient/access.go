package hubclient

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/fleet-hub/fleet/internal/kube"
	kubeconfigs "github.com/fleet-hub/fleet/internal/kube/kubeconfig"
	"github.com/fleet-hub/fleet/internal/protocol"
)

// The names inside the stored kubeconfig. Other agents look for these names.
const (
	kubeconfigCluster = "cluster"
	kubeconfigUser    = "user"
	kubeconfigContext = "default"
)

// Access describes how one identity reaches a hub.
type Access struct {
	// Server is the hub's URL.
	Server string
	// CA must have signed the hub's certificate (PEM). Empty means the system's roots.
	CA []byte
	// Token is the identity's bearer token.
	Token string
	// Namespace is the namespace of the kubeconfig's context, which is the identity's namespace on the hub.
	Namespace string
}

// Kubeconfig encodes the access as it is stored in Secret fleet-agent.
func (a Access) Kubeconfig() ([]byte, error) {
	cfg := api.NewConfig()
	cfg.Clusters[kubeconfigCluster] = &api.Cluster{Server: a.Server, CertificateAuthorityData: a.CA}
	cfg.AuthInfos[kubeconfigUser] = &api.AuthInfo{Token: a.Token}
	cfg.Contexts[kubeconfigContext] = &api.Context{Cluster: kubeconfigCluster, AuthInfo: kubeconfigUser, Namespace: a.Namespace}
	cfg.CurrentContext = kubeconfigContext
	encoded, err := clientcmd.Write(*cfg)
	if err != nil {
		return nil, fmt.Errorf("encoding the kubeconfig for %s: %w", a.Server, err)
	}
	return encoded, nil
}

// Config returns the client configuration for the access. It has no rate limit, because the hub has fair
// queuing. It has no timeout, because watches use it; the context limits single requests.
func (a Access) Config() *rest.Config {
	cfg := kube.Tune(&rest.Config{
		Host:            a.Server,
		BearerToken:     a.Token,
		TLSClientConfig: rest.TLSClientConfig{CAData: a.CA},
	})
	cfg.Timeout = 0
	return kube.WrapTransport(cfg, send)
}

// errRedirected means that the hub answered with a redirect. client-go would follow it and send the token to whatever server
// it names, also without TLS.
var errRedirected = errors.New("the server answered with a redirect, which is not followed: the hub's URL must be that of its API server")

// errValidity explains a certificate that has expired or is not valid yet. One of the two clocks may be wrong,
// possibly the agent's.
var errValidity = errors.New("the hub's certificate is not valid at this time: check the clocks of this cluster's nodes and the certificate's dates")

// send sends a request and refuses redirects. It adds a remedy to errors whose message contains none.
func send(next http.RoundTripper, request *http.Request) (*http.Response, error) {
	response, err := next.RoundTrip(request)
	var invalid x509.CertificateInvalidError
	if errors.As(err, &invalid) && invalid.Reason == x509.Expired {
		err = fmt.Errorf("%w: %w", errValidity, err)
	}
	if err == nil && response.StatusCode >= http.StatusMultipleChoices && response.StatusCode < http.StatusBadRequest {
		_ = response.Body.Close() // not read
		return nil, errRedirected
	}
	return response, err
}

// ParseKubeconfig parses the kubeconfig in Secret fleet-agent, written by this agent or by another. It uses only
// the server, the CA, the token and the namespace. A kubeconfig that needs more is rejected with the sentinels
// of kubeconfig.Safe. No error contains bytes of the kubeconfig.
func ParseKubeconfig(kubeconfig []byte) (Access, error) {
	cfg, err := kubeconfigs.Safe(kubeconfig)
	if err != nil {
		return Access{}, fmt.Errorf("reading the stored kubeconfig: %w", err)
	}
	access := Access{Server: cfg.Host, CA: cfg.CAData, Token: cfg.BearerToken, Namespace: contextNamespace(kubeconfig)}
	if err := access.Check(); err != nil {
		return Access{}, fmt.Errorf("reading the stored kubeconfig: %w", err)
	}
	if access.Token == "" {
		return Access{}, fmt.Errorf("reading the stored kubeconfig: %w: it contains no token", kubeconfigs.ErrKubeconfigMalformed)
	}
	return access, nil
}

var errCA = errors.New("the CA contains no PEM certificate")

// Check returns an error if no connection is possible with this access. The error contains no data of the
// access.
func (a Access) Check() error {
	if len(a.CA) > 0 && !protocol.IsCA(string(a.CA)) {
		return errCA
	}
	return protocol.CheckHubURL(a.Server)
}

// contextNamespace returns the namespace of the kubeconfig's context, or an empty string.
func contextNamespace(kubeconfig []byte) string {
	cfg, err := kubeconfigs.Load(kubeconfig)
	if err != nil {
		return "" // unreachable in practice: the kubeconfig was just parsed
	}
	if current := cfg.Contexts[cfg.CurrentContext]; current != nil {
		return current.Namespace
	}
	for _, only := range cfg.Contexts {
		return only.Namespace // Safe rejects several contexts without a current one
	}
	return ""
}
