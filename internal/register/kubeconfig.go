package register

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

// The names inside the stored kubeconfig: other agents look for them.
const (
	kubeconfigCluster = "cluster"
	kubeconfigUser    = "user"
	kubeconfigContext = "default"
)

// Access is how one identity reaches a hub.
type Access struct {
	// Server is the hub's URL.
	Server string
	// CA is what the hub's certificate must be signed by, as PEM; empty means the system's roots.
	CA []byte
	// Token is the identity's bearer token.
	Token string
	// Namespace is the namespace of the kubeconfig's context: where on the hub the identity is at home.
	Namespace string
}

// Kubeconfig is the access as Secret fleet-agent keeps it.
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

// Config is the access as a client's configuration: without a rate limit, since the hub has fair queuing,
// and without a timeout, since watches go through it; single requests are bounded by their context.
func (a Access) Config() *rest.Config {
	cfg := kube.Tune(&rest.Config{
		Host:            a.Server,
		BearerToken:     a.Token,
		TLSClientConfig: rest.TLSClientConfig{CAData: a.CA},
	})
	cfg.Timeout = 0
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return explaining{next} })
	return cfg
}

// errValidity is what an agent can know of a certificate that has ended or not begun: one of the two clocks may be
// wrong, and it may be this one.
var errValidity = errors.New("the hub's certificate is not valid at this time: check the clocks of this cluster's nodes and the certificate's dates")

// explaining adds what to do to errors whose own words do not say it.
type explaining struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (e explaining) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := e.next.RoundTrip(request)
	var invalid x509.CertificateInvalidError
	if errors.As(err, &invalid) && invalid.Reason == x509.Expired {
		err = fmt.Errorf("%w: %w", errValidity, err)
	}
	return response, err
}

// ParseKubeconfig reads what Secret fleet-agent keeps, written by this agent or by another. Of it only the
// server, the CA, the token and the namespace are used, and a kubeconfig that needs more is refused with the
// sentinels of kube.SafeConfig. No error repeats any of the kubeconfig's bytes.
func ParseKubeconfig(kubeconfig []byte) (Access, error) {
	cfg, err := kubeconfigs.Safe(kubeconfig)
	if err != nil {
		return Access{}, fmt.Errorf("reading the stored kubeconfig: %w", err)
	}
	access := Access{Server: cfg.Host, CA: cfg.CAData, Token: cfg.BearerToken, Namespace: contextNamespace(kubeconfig)}
	if err := access.check(); err != nil {
		return Access{}, fmt.Errorf("reading the stored kubeconfig: %w", err)
	}
	if access.Token == "" {
		return Access{}, fmt.Errorf("reading the stored kubeconfig: %w: it holds no token", kubeconfigs.ErrKubeconfigMalformed)
	}
	return access, nil
}

var errCA = errors.New("the CA holds no PEM certificate")

// check finds what no connection could be made with. The error repeats nothing of the access.
func (a Access) check() error {
	if len(a.CA) > 0 && !x509.NewCertPool().AppendCertsFromPEM(a.CA) {
		return errCA
	}
	return protocol.CheckHubURL(a.Server)
}

// contextNamespace is empty where the kubeconfig names none.
func contextNamespace(kubeconfig []byte) string {
	cfg, err := kubeconfigs.Load(kubeconfig)
	if err != nil {
		return "" // it was read a moment ago
	}
	if current := cfg.Contexts[cfg.CurrentContext]; current != nil {
		return current.Namespace
	}
	for _, only := range cfg.Contexts {
		return only.Namespace // SafeConfig refuses several without a current one
	}
	return ""
}
