// Package helm installs this repository's charts as `helm install` does, but without the helm binary. The demo
// and the user stories use it.
package helm

import (
	"context"
	"errors"
	"fmt"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/storage/driver"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/fleet-hub/fleet/charts"
	"github.com/fleet-hub/fleet/internal/agentchart"
	"github.com/fleet-hub/fleet/internal/cmd/cli/agentrelease"
)

// Release is a release of one of this repository's charts in a cluster.
type Release struct {
	// Config is the client configuration of the user who installs.
	Config *rest.Config
	// Chart is the chart's directory in charts/. Name and Namespace are those of the release. The namespace is
	// created if missing.
	Chart, Name, Namespace string
	// Other is a chart to install instead, for example the chart of an earlier release.
	Other *chart.Chart
	// Values override the chart's values.
	Values map[string]any
	// Log receives Helm's messages. Nil drops them.
	Log func(format string, args ...any)
}

// Install does the same as `helm upgrade --install`. It returns when all objects are written; they may not be
// ready yet.
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
		return fmt.Errorf("reading release %s: %w", r.Name, err)
	}
	install := action.NewInstall(config)
	install.ReleaseName, install.Namespace, install.CreateNamespace = r.Name, r.Namespace, true
	if _, err := install.RunWithContext(ctx, loaded, r.Values); err != nil {
		return fmt.Errorf("installing chart %s as %s/%s: %w", r.Chart, r.Namespace, r.Name, err)
	}
	return nil
}

// Uninstall does the same as `helm uninstall`. It returns when all objects are marked for deletion; they may
// still exist. A missing release is not an error.
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
	if err := config.Init(agentrelease.Getter(r.Config, r.Namespace), r.Namespace, "secret", log); err != nil {
		return nil, fmt.Errorf("preparing helm for %s/%s: %w", r.Namespace, r.Name, err)
	}
	return config, nil
}

// ParseValues parses a values document, as a token's Secret contains it.
func ParseValues(document []byte) (map[string]any, error) {
	values := map[string]any{}
	if err := yaml.Unmarshal(document, &values); err != nil {
		return nil, fmt.Errorf("reading chart values: %w", err)
	}
	return values, nil
}
