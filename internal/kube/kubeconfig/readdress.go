package kubeconfig

import (
	"bytes"
	"fmt"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// Readdress returns a kubeconfig that leads to another server with another CA, and is otherwise the same: credential,
// namespace and names stay. An empty CA means the system's roots. What leads there already is returned byte for byte.
// The errors are those of Safe, and repeat nothing of the kubeconfig.
func Readdress(kubeconfig []byte, server string, ca []byte) ([]byte, error) {
	cfg, entry, err := currentCluster(kubeconfig)
	if err != nil {
		return nil, err
	}
	if entry.Server == server && bytes.Equal(entry.CertificateAuthorityData, ca) {
		return kubeconfig, nil
	}
	entry.Server, entry.CertificateAuthorityData = server, ca
	entry.TLSServerName = "" // it was the other server's
	changed, err := clientcmd.Write(*cfg)
	if err != nil {
		return nil, fmt.Errorf("encoding a kubeconfig: %w", err)
	}
	return changed, nil
}

// AddressOf is the server a kubeconfig leads to and its CA, PEM, empty for the system's roots.
func AddressOf(kubeconfig []byte) (server string, ca []byte, err error) {
	_, entry, err := currentCluster(kubeconfig)
	if err != nil {
		return "", nil, err
	}
	return entry.Server, entry.CertificateAuthorityData, nil
}

// TokenOf returns the bearer token of a kubeconfig's current context; "" if the kubeconfig has none or cannot be read.
func TokenOf(kubeconfig []byte) string {
	cfg, err := Load(kubeconfig)
	if err != nil {
		return ""
	}
	_, user, err := inUse(cfg)
	if err != nil {
		return ""
	}
	return user.Token
}

// currentCluster finds the entry a kubeconfig is used with, once it has passed Safe.
func currentCluster(kubeconfig []byte) (*api.Config, *api.Cluster, error) {
	if _, err := Safe(kubeconfig); err != nil {
		return nil, nil, err
	}
	cfg, err := Load(kubeconfig)
	if err != nil {
		return nil, nil, ErrKubeconfigMalformed
	}
	entry, _, err := inUse(cfg)
	return cfg, entry, err
}
