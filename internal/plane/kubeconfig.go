package plane

import (
	"fmt"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// credential is who a kubeconfig speaks for: a token, or a file with one that is read again as it changes.
type credential struct {
	token, tokenFile string
	namespace        string // of its context; empty means default
}

func kubeconfig(c *Cluster, as credential) ([]byte, error) {
	config := clientcmdapi.NewConfig()
	config.Clusters[c.Name] = &clientcmdapi.Cluster{Server: c.URL, CertificateAuthorityData: c.CA}
	config.AuthInfos[c.Name] = &clientcmdapi.AuthInfo{Token: as.token, TokenFile: as.tokenFile}
	config.Contexts[c.Name] = &clientcmdapi.Context{Cluster: c.Name, AuthInfo: c.Name, Namespace: as.namespace}
	config.CurrentContext = c.Name
	content, err := clientcmd.Write(*config)
	if err != nil {
		return nil, fmt.Errorf("writing a kubeconfig for %s: %w", c.Name, err)
	}
	return content, nil
}
