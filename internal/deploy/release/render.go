package release

import (
	"context"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/release"
)

// Render returns the first revision of an installation as Install would store it, for a version of Kubernetes and without
// a cluster. So templates find no objects, and know only the built-in kinds. It changes the chart of the installation.
func Render(ctx context.Context, in Installation, kubernetes chartutil.KubeVersion) (*release.Release, error) {
	config := &action.Configuration{Capabilities: chartutil.DefaultCapabilities.Copy(), Log: func(string, ...any) {}}
	config.Capabilities.KubeVersion = kubernetes
	if err := chartutil.ProcessDependenciesWithMerge(in.Chart, in.Values); err != nil {
		return nil, err
	}
	rendered := &rendering{in: in, capabilities: func() *chartutil.Capabilities { return config.Capabilities }, revision: 1}
	if err := rendered.render(engine.Engine{}); err != nil {
		return nil, err
	}
	for {
		run := newInstall(in, config)
		run.ClientOnly, run.DryRun, run.KubeVersion = true, true, &kubernetes
		run.PostRenderer = in.Finish
		made, err := run.RunWithContext(ctx, in.Chart, in.Values)
		if err != nil {
			return nil, err
		}
		again, err := in.Finish.FinishHooks(made)
		if err != nil || !again {
			return made, err
		}
	}
}
