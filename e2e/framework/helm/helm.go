// Package helm installs this repository's charts the way a user's `helm install` does, without a
// helm binary: for the demo and for the user stories.
package helm

import (
	"context"
	"errors"
	"fmt"
	"time"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/storage/driver"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	"github.com/fleet-hub/fleet/charts"
	"github.com/fleet-hub/fleet/internal/agentchart"
)

// Release is one chart of this repository in one cluster.
type Release struct {
	// Config reaches the cluster with the rights of whoever installs.
	Config *rest.Config
	// Chart is the chart's folder below charts/; Name and Namespace are the release's. The
	// namespace is created if it is missing.
	Chart, Name, Namespace string
	// Other is installed in place of the chart in that folder: one as another release of it was.
	Other *chart.Chart
	// Values override the chart's own.
	Values map[string]any
	// Log receives what Helm has to say; nil drops it.
	Log func(format string, args ...any)
}

// Install is `helm upgrade --install`: it returns when all objects are written, not when they are ready.
func (r Release) Install(ctx context.Context) error {
	config, err := r.configuration()
	if err != nil {
		return err
	}
	loaded := r.Other
	if loaded == nil {
		if loaded, err = agentchart.Load(charts.FS, r.Chart); err != nil {
			return err
		}
	}
	if _, err := config.Releases.Last(r.Name); err == nil {
		return r.upgrade(ctx, config, loaded)
	} else if !errors.Is(err, driver.ErrReleaseNotFound) {
		return fmt.Errorf("looking for release %s: %w", r.Name, err)
	}
	install := action.NewInstall(config)
	install.ReleaseName, install.Namespace, install.CreateNamespace = r.Name, r.Namespace, true
	if _, err := install.RunWithContext(ctx, loaded, r.Values); err != nil {
		return fmt.Errorf("installing chart %s as %s/%s: %w", r.Chart, r.Namespace, r.Name, err)
	}
	return nil
}

// Uninstall is `helm uninstall`: it returns when all objects are deleted that may be, not when they are gone. A release
// that is not there is no error.
func (r Release) Uninstall(context.Context) error {
	config, err := r.configuration()
	if err != nil {
		return err
	}
	if _, err := action.NewUninstall(config).Run(r.Name); err != nil && !errors.Is(err, driver.ErrReleaseNotFound) {
		return fmt.Errorf("uninstalling %s/%s: %w", r.Namespace, r.Name, err)
	}
	return nil
}

func (r Release) upgrade(ctx context.Context, config *action.Configuration, loaded *chart.Chart) error {
	upgrade := action.NewUpgrade(config)
	upgrade.Namespace = r.Namespace
	if _, err := upgrade.RunWithContext(ctx, r.Name, loaded, r.Values); err != nil {
		return fmt.Errorf("upgrading %s/%s to chart %s: %w", r.Namespace, r.Name, r.Chart, err)
	}
	return nil
}

func (r Release) configuration() (*action.Configuration, error) {
	log := r.Log
	if log == nil {
		log = func(string, ...any) {}
	}
	config := new(action.Configuration)
	if err := config.Init(&getter{config: r.Config, namespace: r.Namespace}, r.Namespace, "secret", log); err != nil {
		return nil, fmt.Errorf("preparing helm for %s/%s: %w", r.Namespace, r.Name, err)
	}
	return config, nil
}

// ParseValues reads a values document, as a token's Secret holds it.
func ParseValues(document []byte) (map[string]any, error) {
	values := map[string]any{}
	if err := yaml.Unmarshal(document, &values); err != nil {
		return nil, fmt.Errorf("reading chart values: %w", err)
	}
	return values, nil
}

// getter gives Helm its clients from a rest.Config instead of a kubeconfig file.
type getter struct {
	config    *rest.Config
	namespace string
}

var _ genericclioptions.RESTClientGetter = (*getter)(nil)

func (g *getter) ToRESTConfig() (*rest.Config, error) {
	config := rest.CopyConfig(g.config)
	config.QPS, config.Timeout = -1, 30*time.Second
	return config, nil
}

func (g *getter) ToDiscoveryClient() (discovery.CachedDiscoveryInterface, error) {
	client, err := discovery.NewDiscoveryClientForConfig(g.config)
	if err != nil {
		return nil, err
	}
	return memory.NewMemCacheClient(client), nil
}

func (g *getter) ToRESTMapper() (meta.RESTMapper, error) {
	client, err := g.ToDiscoveryClient()
	if err != nil {
		return nil, err
	}
	return restmapper.NewDeferredDiscoveryRESTMapper(client), nil
}

func (g *getter) ToRawKubeConfigLoader() clientcmd.ClientConfig {
	overrides := &clientcmd.ConfigOverrides{}
	overrides.Context.Namespace = g.namespace
	return clientcmd.NewDefaultClientConfig(*clientcmdapi.NewConfig(), overrides)
}
