// Package hubconfig reads the configuration of a hub. Which Cluster is the hub's own?
//
//	ConfigMap fleet-controller ─► config.Config
package hubconfig

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/version"
)

// Read returns the configuration of a hub. If it cannot be read, Read returns the default of the chart fleet, which
// registers the hub in the workspace fleet-local.
func Read(ctx context.Context, hub kubernetes.Interface) config.Config {
	fallback := config.Default(version.Version)
	fallback.Bootstrap.Namespace = names.LocalWorkspace
	document, err := hub.CoreV1().ConfigMaps(names.SystemNamespace).Get(ctx, names.ControllerConfig, metav1.GetOptions{})
	if err != nil {
		return fallback
	}
	read, _, err := config.Parse([]byte(document.Data[names.ConfigKey]), config.Default(version.Version))
	if err != nil {
		return fallback
	}
	return read
}
