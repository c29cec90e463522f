// Package hubconfig reads the configuration of a hub. Which Cluster is the hub's own, and which image do agents have?
//
//	ConfigMap fleet-controller ─► config.Config
package hubconfig

import (
	"context"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/importing"
	"github.com/fleet-hub/fleet/internal/version"
)

// Read returns the configuration of a hub. If it cannot be read, Read returns the default of the chart fleet, which
// registers the hub in the workspace fleet-local, with clusters of Cluster API: the hub may register those, too.
func Read(ctx context.Context, hub kubernetes.Interface) config.Config {
	fallback := config.Default(version.Version)
	fallback.Bootstrap.Namespace, fallback.CAPI.Enabled = names.LocalWorkspace, true
	found, err := Find(ctx, hub, config.Default(version.Version))
	if err != nil {
		return fallback
	}
	return found
}

// AgentImage returns the image of the agent of a Cluster whose spec.privateRepoURL is private, or empty. It is empty if the
// configuration names none or cannot be read: users of a workspace need no right to read it.
func AgentImage(ctx context.Context, hub kubernetes.Interface, private string) string {
	found, err := Find(ctx, hub, config.Config{})
	if err != nil || found.AgentImage == "" {
		return ""
	}
	return importing.AgentImage(found.AgentImage, found.SystemDefaultRegistry, private)
}

// Find returns the configuration of a hub, with defaults for what it leaves out.
func Find(ctx context.Context, hub kubernetes.Interface, defaults config.Config) (config.Config, error) {
	document, err := hub.CoreV1().ConfigMaps(names.SystemNamespace).Get(ctx, names.ControllerConfig, metav1.GetOptions{})
	if err != nil {
		return config.Config{}, err
	}
	found, _, err := config.Parse([]byte(document.Data[names.ConfigKey]), defaults)
	return found, err
}

// AllowsInsecure reports whether the operator of a hub allows kubeconfigs that skip the verification of certificates. This is a
// variable of the controllers' Deployments.
func AllowsInsecure(controllers ...*appsv1.Deployment) bool {
	for _, deployment := range controllers {
		for _, container := range deployment.Spec.Template.Spec.Containers {
			for _, variable := range container.Env {
				if variable.Name == "FLEET_ALLOW_INSECURE_KUBECONFIGS" && variable.Value == "true" {
					return true
				}
			}
		}
	}
	return false
}

// SplitImage returns the repository and the tag of an image. Images of the hub have its version as their tag.
func SplitImage(image string) (repository, tag string) {
	image, _, _ = strings.Cut(image, "@")
	if i := strings.LastIndex(image, ":"); i > strings.LastIndex(image, "/") {
		return image[:i], image[i+1:]
	}
	return image, ""
}
