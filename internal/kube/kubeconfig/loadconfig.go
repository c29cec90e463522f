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
