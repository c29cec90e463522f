package kubeconfig

import (
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/fleet-hub/fleet/internal/yamlbound"
)

// Load reads a kubeconfig, as clientcmd.Load does, unless its YAML is too large.
func Load(kubeconfig []byte) (*api.Config, error) {
	if err := yamlbound.Check(kubeconfig); err != nil {
		return nil, err
	}
	return clientcmd.Load(kubeconfig)
}

// Is reports whether a text is a kubeconfig with a server and a user. A text that Load refuses is not.
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
