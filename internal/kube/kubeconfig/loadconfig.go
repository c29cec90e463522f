package kubeconfig

import (
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/fleet-hub/fleet/internal/yamlbound"
)

// Load parses a kubeconfig like clientcmd.Load, but rejects YAML that is too large.
func Load(kubeconfig []byte) (*api.Config, error) {
	if err := yamlbound.Check(kubeconfig); err != nil {
		return nil, err
	}
	return clientcmd.Load(kubeconfig)
}

// Is reports whether a text is a kubeconfig with a server and a user. It returns false if Load rejects the text.
func Is(text []byte) bool {
	loaded, err := Load(text)
	if err != nil || len(loaded.AuthInfos) == 0 {
		return false
	}
	for _, cluster := range loaded.Clusters {
		if cluster != nil && cluster.Server != "" {
			return true
		}
	}
	return false
}
