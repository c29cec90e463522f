package deploy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/postrender"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

const (
	// defaultHistory is the number of revisions of a release that are kept.
	defaultHistory = 2
	// hookTimeout is the timeout of hooks if the options set none.
	hookTimeout = 5 * time.Minute
)

// releaser runs Helm operations. It keeps no state between operations. Operations on the same release must not
// overlap.
type releaser struct {
	// Agent is the agent's own identity: it stores all releases, whichever account deploys them.
	Agent   *identity
	Stopped <-chan struct{}
	Clock   func() time.Time
	// Slots are released while an operation waits for objects or hooks; nil means unlimited.
	Slots slots
	// Seal tells the revisions that the agent stored from others.
	Seal *seal
}

// history reads all revisions of a release.
func (r *releaser) history(ctx context.Context, key releaseKey) (*history, error) {
	return loadHistory(ctx, r.Agent.clientset.CoreV1().Secrets(key.Namespace), key, r.Clock, r.Seal)
}

// installation describes a release to install or upgrade.
type installation struct {
	Release releaseKey
	// Chart is the bundle's chart, Finish completes what Helm has rendered.
	Chart   *chart.Chart
	Finish  finishing
	Options *fleet.BundleDeploymentOptions
	// DeploymentID is the deployment that the release is made for. If the last revision was made for it, that revision
	// is used or continued, unless Again is set.
	DeploymentID string
	Again        bool
	// Force replaces objects instead of patching them.
	Force  bool
	Values map[string]any
	// Identity writes the objects.
	Identity *identity
	Set      set
	// Stale are releases of the same BundleDeployment under former names. This release may take over their objects.
	Stale []releaseKey
	// NoWayBack disables the rollback of a failed upgrade, because others may have written the revision to roll back
	// to.
	NoWayBack bool
	// MayTake returns an error if the release belongs to another owner. It gets the annotations of the chart of the
	// last revision, if there is one.
	MayTake func(exists bool, annotations map[string]string) error
	// Superseded reports whether a newer state is wanted. Then the operation stops waiting.
	Superseded func() bool
	// News wakes an operation that waits for objects.
	News *news
}

// finishing completes the objects and the hooks that Helm has rendered.
type finishing interface {
	postrender.PostRenderer
	// FinishHooks completes the hooks of a revision before it is stored. It returns true if Helm has to run again.
	FinishHooks(r *release.Release) (again bool, err error)
}

// noted is a post-renderer that tells the client what is about to be installed.
type noted struct {
	finishing
	client *objectClient
}

// Run implements Helm's post-renderer.
func (n noted) Run(rendered *bytes.Buffer) (*bytes.Buffer, error) {
	out, err := n.finishing.Run(rendered)
	if err == nil {
		n.client.willBe(out.String())
	}
	return out, err
}

// errHooksComeFirst ends the first of two Helm runs, see finishing.
var errHooksComeFirst = errors.New("the hooks are finished first")

// install installs or upgrades a release, whatever state an earlier operation left it in.
func (r *releaser) install(ctx context.Context, in installation) (*installed, error) {
	h, err := r.history(ctx, in.Release)
	if err != nil {
		return nil, err
	}
	if err := in.MayTake(h.last() != nil, annotationsOf(h.last())); err != nil {
		return nil, err
	}
	if err := h.deleteForged(ctx); err != nil {
		return nil, err
	}
	if !in.Again && !h.isForeign(h.last()) && isMadeFor(h.last(), in.DeploymentID) {
		return alreadyMade(h.last(), newObjectClient(in.Identity, in.Release, r.Stopped))
	}
	client := newObjectClient(in.Identity, in.Release, r.Stopped)
	in.NoWayBack = slices.ContainsFunc(h.revisions, h.isForeign)
	client.old, client.superseded, client.slots, client.news = h.manifests(), in.Superseded, r.Slots, in.News
	client.namespaceExists = func() bool {
		_, err := r.Agent.clientset.CoreV1().Namespaces().Get(ctx, in.Release.Namespace, metav1.GetOptions{})
		return err == nil
	}
	client.confined, client.set = in.Options.TargetNamespace, in.Set.Hash
	for _, revision := range h.revisions {
		client.confineHooks(revision)
	}
	next, err := r.prepare(in, h, client)
	if err != nil {
		return nil, err
	}
	config, rendered, err := r.configuration(in, h, client)
	if err != nil {
		return nil, err
	}
	if next == Upgrade {
		rendered.upgrade, rendered.revision = true, h.last().Version+1
	}
	made, err := runHelm(next, in, h, config, client, rendered)
	if err != nil {
		return nil, err
	}
	return client.result(made)
}

// runHelm installs or upgrades. Hooks have to be complete before the release is stored. If the kustomization
// covers the hooks, Helm runs a second time, with the same objects.
func runHelm(next step, in installation, h *history, config *action.Configuration, client *objectClient, rendered *rendering) (*release.Release, error) {
	run := runUpgrade
	if next == Install {
		run = runInstall
	}
	h.beforeCreate = func(r *release.Release) error {
		rendered.restore(r)
		again, err := in.Finish.FinishHooks(r)
		if err == nil && again {
			return errHooksComeFirst
		}
		return err
	}
	last := h.last()
	made, err := run(in, config, client)
	if !errors.Is(err, errHooksComeFirst) {
		return made, err
	}
	if next == Install && last != nil { // Helm set the status to superseded, but no newer revision exists yet
		last.SetStatus(release.StatusUninstalled, "Uninstallation complete")
	}
	return run(in, config, client)
}

// prepare repairs what an earlier operation left so that Helm can continue, and returns the next step.
func (r *releaser) prepare(in installation, h *history, client *objectClient) (step, error) {
	if last := h.last(); last != nil && last.Info.Status.IsPending() && deploymentIDOf(last) == in.DeploymentID && h.takeBack() {
		client.leftovers = append(leftovers(h.summary()), last.Version)
		return nextStep(h.summary()), nil
	}
	next := nextStep(h.summary())
	if next == UninstallFirst {
		return Install, r.uninstallFrom(h, removal{Identity: in.Identity, Hooks: true, Confined: in.Options.TargetNamespace, Set: in.Set})
	}
	if next == RecoverAndUpgrade {
		if err := markFailed(h); err != nil {
			return next, err
		}
		next = Upgrade
	}
	if next == Upgrade {
		client.leftovers = leftovers(h.summary())
	}
	return next, nil
}

// deploymentIDOf returns the deployment that a revision was made for, "" if another program made it.
func deploymentIDOf(r *release.Release) string { return annotationsOf(r)[fleet.AnnotationDeploymentID] }

// isMadeFor reports whether a deployed revision was made for the wanted deployment. The process that made it may
// have stopped before it reported the result.
func isMadeFor(last *release.Release, deploymentID string) bool {
	return last != nil && last.Info.Status == release.StatusDeployed && deploymentIDOf(last) == deploymentID
}

// alreadyMade returns the result of an existing revision. Its objects still have to be checked.
func alreadyMade(last *release.Release, client *objectClient) (*installed, error) {
	made, err := client.result(last)
	if err != nil {
		return nil, err
	}
	made.Live = nil
	return made, nil
}

// markFailed marks an interrupted operation as failed.
func markFailed(h *history) error {
	last := h.last()
	last.SetStatus(release.StatusFailed, "The operation was interrupted")
	if err := h.Update(secretName(last.Name, last.Version), last); err != nil {
		return fmt.Errorf("recovering the interrupted release: %w", err)
	}
	return nil
}

func (r *releaser) configuration(in installation, h *history, client *objectClient) (*action.Configuration, *rendering, error) {
	rendered := &rendering{identity: in.Identity, in: in, revision: 1}
	config := &action.Configuration{
		RESTClientGetter: rendered,
		Releases:         h.storage(maxHistory(in.Options)),
		KubeClient:       client,
		Log:              func(string, ...any) {}, // logs no cause that the error lacks
	}
	rendered.config = config
	config.SetHookOutputFunc(discardOutput)
	if len(in.Chart.CRDObjects()) > 0 {
		return config, rendered, nil // Helm runs discovery again after it has installed the chart's CRDs
	}
	known, err := in.Identity.known()
	if err != nil {
		return nil, nil, err
	}
	config.Capabilities = known
	return config, rendered, nil
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
		// Only objects of the former releases may be taken over.
		run.TakeOwnership = true
		client.adopt = in.Stale
	}
	run.Force = in.Force
	run.Atomic, run.Timeout = helm.Atomic, timeout(helm)
	run.Wait, run.WaitForJobs = helm.TimeoutSeconds > 0, helm.WaitForJobs
	run.SkipSchemaValidation = helm.SkipSchemaValidation
	run.DisableOpenAPIValidation = true
	run.EnableDNS = !helm.DisableDNS
	run.PostRenderer = noted{in.Finish, client}
	return run.RunWithContext(context.Background(), in.Chart, in.Values)
}

func runUpgrade(in installation, config *action.Configuration, client *objectClient) (*release.Release, error) {
	helm := helmOptions(in.Options)
	run := action.NewUpgrade(config)
	run.Namespace = in.Release.Namespace
	run.TakeOwnership = true
	run.Force = in.Force
	run.MaxHistory = maxHistory(in.Options)
	run.ResetValues = true // the bundle has all values: values that were removed must not come back
	run.Atomic, run.Timeout = helm.Atomic && !in.NoWayBack, timeout(helm)
	run.Wait, run.WaitForJobs = helm.Atomic || helm.TimeoutSeconds > 0, helm.WaitForJobs
	run.SkipSchemaValidation = helm.SkipSchemaValidation
	run.DisableOpenAPIValidation = true
	run.EnableDNS = !helm.DisableDNS
	run.PostRenderer = noted{in.Finish, client}
	return run.RunWithContext(context.Background(), in.Release.Name, in.Chart, in.Values)
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

// forget deletes the history of a release and leaves its objects in the cluster.
func (r *releaser) forget(h *history) error {
	for h.last() != nil {
		if _, err := h.Delete(secretName(h.key.Name, h.last().Version)); err != nil && !errors.Is(err, driver.ErrReleaseNotFound) {
			return err
		}
	}
	return nil
}

// removal describes how to uninstall a release.
type removal struct {
	Identity *identity
	// Hooks enables the hooks. If Confined is not empty, hooks outside of that namespace are not run.
	Hooks    bool
	Confined string
	Set      set
}

// uninstallFrom uninstalls a release with the given history.
func (r *releaser) uninstallFrom(h *history, in removal) error {
	client := newObjectClient(in.Identity, h.key, r.Stopped)
	client.old, client.slots = h.manifests(), r.Slots
	client.confined, client.set, client.foreign = in.Confined, in.Set.Hash, h.isForeign(h.last())
	for _, revision := range h.revisions {
		client.confineHooks(revision)
	}
	config := &action.Configuration{
		RESTClientGetter: in.Identity, Releases: h.storage(0), KubeClient: client, Log: func(string, ...any) {},
	}
	config.SetHookOutputFunc(discardOutput)
	run := action.NewUninstall(config)
	run.DisableHooks = !in.Hooks
	run.Timeout = hookTimeout
	run.IgnoreNotFound = true
	run.DeletionPropagation = "background"
	if _, err := run.Run(h.key.Name); err != nil {
		err = errors.Join(err, client.deletionError()) // Helm does not return the cause
		return fmt.Errorf("uninstalling release %s: %w", h.key, err)
	}
	return nil
}

// annotationsOf returns the annotations of the chart of a release.
func annotationsOf(r *release.Release) map[string]string {
	if r == nil || r.Chart == nil || r.Chart.Metadata == nil {
		return nil
	}
	return r.Chart.Metadata.Annotations
}

// deployedManifests returns the manifests of the deployed revisions of a release, the newest first.
func (r *releaser) deployedManifests(ctx context.Context, key releaseKey) ([]string, error) {
	h, err := r.history(ctx, key)
	if err != nil {
		return nil, err
	}
	var found []string
	for _, revision := range slices.Backward(h.revisions) {
		if revision.Info.Status == release.StatusDeployed {
			found = append(found, revision.Manifest)
		}
	}
	return found, nil
}

// discardOutput discards the output of hooks, because it may contain secrets.
func discardOutput(_, _, _ string) io.Writer { return io.Discard }
