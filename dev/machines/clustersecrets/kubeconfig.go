package clustersecrets

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/fleet-hub/fleet/dev/plane/pki"
)

// Lifetimes of the client certificate in a kubeconfig. It is renewed when half of its time has passed, so that a
// reader has half an hour to read the new one.
const (
	Lifetime   = time.Hour
	renewAfter = Lifetime / 2
)

// URL returns the URL of an API server.
func URL(endpoint clusterv1.APIEndpoint) string {
	return fmt.Sprintf("https://%s:%d", endpoint.Host, endpoint.Port)
}

// NewKubeconfig returns the Secret of an administrator's kubeconfig with a new client certificate.
func (o Owner) NewKubeconfig(ca pki.Authority, url string, now time.Time) (*corev1.Secret, error) {
	admin, err := ca.Client(now, pki.Client{User: o.Cluster.Name + "-admin", Groups: []string{"system:masters"}, Lifetime: Lifetime})
	if err != nil {
		return nil, fmt.Errorf("creating the administrator's certificate of Cluster %s: %w", o.Cluster, err)
	}
	content, err := pki.Access{Name: o.Cluster.Name, URL: url, CA: ca.Certificate, Client: admin}.Kubeconfig()
	if err != nil {
		return nil, err
	}
	return o.secret(Kubeconfig, map[string][]byte{KeyValue: content}), nil
}

// RenewIn returns how long the kubeconfig in a Secret can be used without a change. It returns 0 if it must be written
// now: it has another CA or URL, its certificate expires, or it is damaged. The error says why the Secret is not ours
// to write.
func (o Owner) RenewIn(secret *corev1.Secret, ca pki.Authority, url string, now time.Time) (time.Duration, error) {
	if err := o.check(secret); err != nil {
		return 0, err
	}
	if !metav1.IsControlledBy(secret, &metav1.ObjectMeta{UID: o.Reference.UID}) {
		return 0, foreign(secret)
	}
	config, err := ParseKubeconfig(secret.Data[KeyValue])
	if err != nil || config.Host != url || !bytes.Equal(config.CAData, ca.Certificate) {
		return 0, nil //nolint:nilerr // a damaged kubeconfig is replaced
	}
	return max(0, validFor(config, ca, now)-(Lifetime-renewAfter)), nil
}

// validFor returns how long the client certificate is accepted by an API server with this CA.
func validFor(config *rest.Config, ca pki.Authority, now time.Time) time.Duration {
	pair, err := tls.X509KeyPair(config.CertData, config.KeyData)
	if err != nil {
		return 0
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca.Certificate)
	options := x509.VerifyOptions{Roots: roots, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	if _, err := pair.Leaf.Verify(options); err != nil {
		return 0
	}
	return pair.Leaf.NotAfter.Sub(now)
}

// ParseKubeconfig returns the client configuration of a kubeconfig. It accepts only what NewKubeconfig writes: a URL, a
// CA and a client certificate. A kubeconfig that names programs or files is rejected, because this process would run or
// read them.
func ParseKubeconfig(content []byte) (*rest.Config, error) {
	if len(content) == 0 || len(content) > maxValue {
		return nil, fmt.Errorf("parsing a kubeconfig: it has %d bytes; 1 to %d are accepted", len(content), maxValue)
	}
	parsed, err := clientcmd.Load(content)
	if err != nil {
		return nil, fmt.Errorf("parsing a kubeconfig: it is not valid YAML of kind Config") // the error quotes the content
	}
	named := parsed.Contexts[parsed.CurrentContext]
	if named == nil || parsed.Clusters[named.Cluster] == nil || parsed.AuthInfos[named.AuthInfo] == nil {
		return nil, fmt.Errorf("parsing a kubeconfig: it has no complete current context")
	}
	server, user := parsed.Clusters[named.Cluster], parsed.AuthInfos[named.AuthInfo]
	config := &rest.Config{Host: server.Server, TLSClientConfig: rest.TLSClientConfig{
		CAData: server.CertificateAuthorityData, CertData: user.ClientCertificateData, KeyData: user.ClientKeyData,
	}}
	if !strings.HasPrefix(config.Host, "https://") || len(config.CAData) == 0 || len(config.CertData) == 0 || len(config.KeyData) == 0 {
		return nil, fmt.Errorf("parsing a kubeconfig: it needs an https URL, a CA, a client certificate and its key, all embedded")
	}
	return config, nil
}

func isPrivateKey(text []byte) bool {
	block, _ := pem.Decode(text)
	return block != nil && strings.HasSuffix(block.Type, "PRIVATE KEY")
}
