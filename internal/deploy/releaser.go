package deploy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

const (
	// defaultHistory is how many revisions of a release are kept.
	defaultHistory = 2
	// hookTimeout bounds hooks where the options name no timeout.
	hookTimeout = 5 * time.Minute
)

// releaser runs Helm. It holds nothing between two operations; operations on one release must not overlap.
type releaser struct {
	// Agent is the agent itself: releases are stored under its identity, whoever deploys them.
	Agent   *identity
	Scope   string
	Stopped <-chan struct{}
	Clock   func() time.Time
}

// installation is a release to bring to a state.
type installation struct {
	Release releaseKey
	Package *bundlePackage
	Options *fleet.BundleDeploymentOptions
	// Force replaces objects instead of changing them.
	Force  bool
	Values map[string]any
	// Identity deploys.
	Identity *identity
	Set      set
	// Stale are releases of the same BundleDeployment under former names: what they own may be taken over.
	Stale []releaseKey
	// Installed is the agent's Deployment of another release, of which some is kept; nil for none.
	Installed *unstructured.Unstructured
	// MayTake refuses a release that is somebody else's, by its last revision, which is nil if there is none.
	MayTake func(last *release.Release) error
	// Superseded tells whether something else is wanted by now: then nothing is waited for any longer.
	Superseded func() bool
}

// installed is what an installation left.
type installed struct {
	Revision int
	// Refs are the objects of the release, in the order of its manifest.
	Refs []objectRef
	// Live are those objects as the API server last answered; Wanted are they as they were deployed.
	Live, Wanted manifest
	// Former are the objects of the revision before.
	Former []objectRef
}

// install brings a release to a state, from wherever an earlier operation left it.
func (r *releaser) install(ctx context.Context, in installation) (*installed, error) {
	h, err := loadHistory(ctx, r.Agent.clientset.CoreV1().Secrets(in.Release.Namespace), in.Release, r.Clock)
	if err != nil {
		return nil, err
	}
	if err := in.MayTake(h.last()); err != nil {
		return nil, err
	}
	next := nextStep(h.summary())
	if next == UninstallFirst {
		if err := r.uninstallFrom(h, in.Identity, true); err != nil {
			return nil, err
		}
		next = Install
	}
	if next == RecoverAndUpgrade {
		if err := markFailed(h); err != nil {
			return nil, err
		}
		next = Upgrade
	}
	client := newObjectClient(in.Identity, in.Release, r.Stopped)
	client.old, client.superseded = h.manifests(), in.Superseded
	config, err := r.configuration(in, h, client)
	if err != nil {
		return nil, err
	}
	var made *release.Release
	if next == Install {
		made, err = runInstall(in, config, client)
	} else {
		client.leftovers = leftovers(h.summary())
		made, err = runUpgrade(in, config, client)
	}
	if err != nil {
		return nil, err
	}
	return client.result(made)
}

// markFailed closes an operation that was cut off.
func markFailed(h *history) error {
	last := h.last()
	last.SetStatus(release.StatusFailed, "The operation was interrupted")
	if err := h.Update(secretName(last.Name, last.Version), last); err != nil {
		return fmt.Errorf("recovering the interrupted release: %w", err)
	}
	return nil
}

func (r *releaser) configuration(in installation, h *history, client *objectClient) (*action.Configuration, error) {
	config := &action.Configuration{
		RESTClientGetter: in.Identity,
		Releases:         h.storage(maxHistory(in.Options)),
		KubeClient:       client,
		Log:              func(string, ...any) {}, // names no cause that is not in the error, too
	}
	config.SetHookOutputFunc(discardOutput)
	if len(in.Package.Chart.CRDObjects()) > 0 {
		return config, nil // Helm asks the server again, once it has installed the chart's CRDs
	}
	known, err := in.Identity.known()
	if err != nil {
		return nil, err
	}
	config.Capabilities = known
	return config, nil
}

func maxHistory(options *fleet.BundleDeploymentOptions) int {
	if options.Helm != nil && options.Helm.MaxHistory > 0 {
		return options.Helm.MaxHistory
	}
	return defaultHistory
}

func runInstall(in installation, config *action.Configuration, client *objectClient) (*release.Release, error) {
	helm := helmOptions(in.Options)
	run := action.NewInstall(config)
	run.ReleaseName, run.Namespace = in.Release.Name, in.Release.Namespace
	run.Replace = true
	run.CreateNamespace = in.Options.CreateNamespace == nil || *in.Options.CreateNamespace
	run.TakeOwnership = helm.TakeOwnership
	if len(in.Stale) > 0 && !helm.TakeOwnership {
		// Objects of a former name may be taken over, and no others.
		run.TakeOwnership = true
		client.adopt = in.Stale
	}
	run.Force = in.Force
	run.Atomic, run.Timeout = helm.Atomic, timeout(helm)
	run.Wait, run.WaitForJobs = helm.TimeoutSeconds > 0, helm.WaitForJobs
	run.SkipSchemaValidation = helm.SkipSchemaValidation
	run.DisableOpenAPIValidation = true
	run.EnableDNS = !helm.DisableDNS
	run.PostRenderer = in.finisher(client)
	return run.RunWithContext(context.Background(), in.Package.Chart, in.Values)
}

func runUpgrade(in installation, config *action.Configuration, client *objectClient) (*release.Release, error) {
	helm := helmOptions(in.Options)
	run := action.NewUpgrade(config)
	run.Namespace = in.Release.Namespace
	run.TakeOwnership = true
	run.Force = in.Force
	run.MaxHistory = maxHistory(in.Options)
	run.ResetValues = true // the values are all there are: ones that were taken away stay away
	run.Atomic, run.Timeout = helm.Atomic, timeout(helm)
	run.Wait, run.WaitForJobs = helm.TimeoutSeconds > 0, helm.WaitForJobs
	run.SkipSchemaValidation = helm.SkipSchemaValidation
	run.DisableOpenAPIValidation = true
	run.EnableDNS = !helm.DisableDNS
	run.PostRenderer = in.finisher(client)
	return run.RunWithContext(context.Background(), in.Release.Name, in.Package.Chart, in.Values)
}

func (in installation) finisher(client *objectClient) *finisher {
	return &finisher{
		Package: in.Package, Set: in.Set, TargetNamespace: in.Options.TargetNamespace,
		DeleteCRDs: in.Options.DeleteCRDResources, Namespaced: in.Identity.namespaced, Installed: in.Installed, Done: client.willBe,
	}
}

func helmOptions(options *fleet.BundleDeploymentOptions) fleet.HelmOptions {
	if options.Helm == nil {
		return fleet.HelmOptions{}
	}
	return *options.Helm
}

func timeout(helm fleet.HelmOptions) time.Duration {
	if helm.TimeoutSeconds > 0 {
		return time.Duration(helm.TimeoutSeconds) * time.Second
	}
	return hookTimeout
}

// forget deletes the history of a release and leaves its objects.
func (r *releaser) forget(h *history) error {
	for h.last() != nil {
		if _, err := h.Delete(secretName(h.key.Name, h.last().Version)); err != nil && !errors.Is(err, driver.ErrReleaseNotFound) {
			return err
		}
	}
	return nil
}

// uninstallFrom uninstalls a release with a given history, under an identity, with or without its hooks.
func (r *releaser) uninstallFrom(h *history, who *identity, hooks bool) error {
	client := newObjectClient(who, h.key, r.Stopped)
	client.old = h.manifests()
	config := &action.Configuration{
		RESTClientGetter: who, Releases: h.storage(0), KubeClient: client, Log: func(string, ...any) {},
	}
	config.SetHookOutputFunc(discardOutput)
	run := action.NewUninstall(config)
	run.DisableHooks = !hooks
	run.Timeout = hookTimeout
	run.IgnoreNotFound = true
	run.DeletionPropagation = "background"
	if _, err := run.Run(h.key.Name); err != nil {
		err = errors.Join(err, client.deletionError()) // Helm keeps the cause to itself
		return fmt.Errorf("uninstalling release %s: %w", h.key, err)
	}
	return nil
}

// discardOutput is where the output of hooks goes: it may hold anything.
func discardOutput(_, _, _ string) io.Writer { return io.Discard }
