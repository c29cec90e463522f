package bootstrap

import (
	"fmt"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	kubeconfigs "github.com/fleet-hub/fleet/internal/kube/kubeconfig"
)

// The names in the kubeconfig of the hub's own cluster, which all its readers expect.
const (
	kubeconfigCluster = "cluster"
	kubeconfigUser    = "user"
	kubeconfigContext = "default"
)

// kubeconfigWith returns a kubeconfig for the hub's own API server with this token.
func kubeconfigWith(in input, token string) ([]byte, error) {
	cfg := api.NewConfig()
	cfg.Clusters[kubeconfigCluster] = &api.Cluster{Server: in.server, CertificateAuthorityData: in.ca}
	cfg.AuthInfos[kubeconfigUser] = &api.AuthInfo{Token: token}
	cfg.Contexts[kubeconfigContext] = &api.Context{Cluster: kubeconfigCluster, AuthInfo: kubeconfigUser}
	cfg.CurrentContext = kubeconfigContext
	written, err := clientcmd.Write(*cfg)
	if err != nil {
		return nil, fmt.Errorf("writing the hub's own kubeconfig: %w", err)
	}
	return written, nil
}

// tokenIn returns the token of a kubeconfig that kubeconfigWith wrote. It returns "" for any other kubeconfig.
func tokenIn(kubeconfig []byte) string {
	cfg, err := kubeconfigs.Load(kubeconfig)
	if err != nil {
		return ""
	}
	user := cfg.AuthInfos[kubeconfigUser]
	if user == nil {
		return ""
	}
	return user.Token
}
