package pki

import (
	"fmt"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Access is how somebody reaches a cluster.
type Access struct {
	// Name is the cluster's, URL its API server's, CA what signs that one's certificate, PEM.
	Name, URL string
	CA        []byte
	// Token or TokenFile says who it is; the file is read again as it changes.
	Token, TokenFile string
	// Namespace is where commands act that name none; empty means default.
	Namespace string
}

// Kubeconfig is the access as a kubeconfig with one context, named like the cluster.
func (a Access) Kubeconfig() ([]byte, error) {
	config := clientcmdapi.NewConfig()
	config.Clusters[a.Name] = &clientcmdapi.Cluster{Server: a.URL, CertificateAuthorityData: a.CA}
	config.AuthInfos[a.Name] = &clientcmdapi.AuthInfo{Token: a.Token, TokenFile: a.TokenFile}
	config.Contexts[a.Name] = &clientcmdapi.Context{Cluster: a.Name, AuthInfo: a.Name, Namespace: a.Namespace}
	config.CurrentContext = a.Name
	content, err := clientcmd.Write(*config)
	if err != nil {
		return nil, fmt.Errorf("writing a kubeconfig for %s: %w", a.Name, err)
	}
	return content, nil
}
