package kubeconfig

import (
	"bytes"
	"crypto/sha256"
	"fmt"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// Readdress returns a kubeconfig for another server and CA. Credential, namespace and names stay the same. An
// empty CA means the system's roots. If the kubeconfig already has this server and CA, it is returned byte for
// byte. Errors are those of Safe and contain nothing of the kubeconfig.
func Readdress(kubeconfig []byte, server string, ca []byte) ([]byte, error) {
	cfg, entry, err := currentCluster(kubeconfig)
	if err != nil {
		return nil, err
	}
	if entry.Server == server && bytes.Equal(entry.CertificateAuthorityData, ca) {
		return kubeconfig, nil
	}
	entry.Server, entry.CertificateAuthorityData = server, ca
	entry.TLSServerName = "" // it belongs to the old server
	changed, err := clientcmd.Write(*cfg)
	if err != nil {
		return nil, fmt.Errorf("encoding a kubeconfig: %w", err)
	}
	return changed, nil
}

// AddressOf returns the server of a kubeconfig and its CA (PEM). An empty CA means the system's roots.
func AddressOf(kubeconfig []byte) (server string, ca []byte, err error) {
	_, entry, err := currentCluster(kubeconfig)
	if err != nil {
		return "", nil, err
	}
	return entry.Server, entry.CertificateAuthorityData, nil
}

// AddressHash identifies the server and the CA of a kubeconfig, which stay the same when its credential is renewed. Of a
// text that is not a kubeconfig, it returns a hash of the text.
func AddressHash(kubeconfig []byte) [sha256.Size]byte {
	server, ca, err := AddressOf(kubeconfig)
	if err != nil {
		return sha256.Sum256(kubeconfig)
	}
	return sha256.Sum256(append([]byte(server+"\n"), ca...))
}

// TokenOf returns the bearer token of a kubeconfig's current context, or "" if it has no token or cannot be
// parsed.
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

// currentCluster returns the kubeconfig and the cluster entry in use, after the checks of Safe.
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
