package pki

import (
	"fmt"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Access describes how a client reaches a cluster.
type Access struct {
	// Name is the cluster's name, URL its API server's URL, and CA the CA of that server's certificate in PEM.
	Name, URL string
	CA        []byte
	// Token, TokenFile or Client authenticates the client. The file is read again when it changes.
	Token, TokenFile string
	Client           Pair
	// Namespace is the default namespace of commands. Empty means default.
	Namespace string
}

// Kubeconfig returns a kubeconfig with one context, named after the cluster.
func (a Access) Kubeconfig() ([]byte, error) {
	config := clientcmdapi.NewConfig()
	config.Clusters[a.Name] = &clientcmdapi.Cluster{Server: a.URL, CertificateAuthorityData: a.CA}
	config.AuthInfos[a.Name] = &clientcmdapi.AuthInfo{
		Token: a.Token, TokenFile: a.TokenFile,
		ClientCertificateData: a.Client.Certificate, ClientKeyData: a.Client.Key,
	}
	config.Contexts[a.Name] = &clientcmdapi.Context{Cluster: a.Name, AuthInfo: a.Name, Namespace: a.Namespace}
	config.CurrentContext = a.Name
	content, err := clientcmd.Write(*config)
	if err != nil {
		return nil, fmt.Errorf("writing a kubeconfig for %s: %w", a.Name, err)
	}
	return content, nil
}
