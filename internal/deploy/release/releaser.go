package release

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/postrender"
	"helm.sh/helm/v3/pkg/release"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/fleet-hub/fleet/internal/deploy/access"
	"github.com/fleet-hub/fleet/internal/deploy/bounded"
	"github.com/fleet-hub/fleet/internal/deploy/manifest"
	"github.com/fleet-hub/fleet/internal/deploy/placement"
	"github.com/fleet-hub/fleet/internal/deploy/release/objects"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

const (
	// defaultHistory is the number of revisions of a release that are kept.
	defaultHistory = 2
	// mostFailed is the number of failed revisions after the last good one that are kept in addition.
	mostFailed = 10
	// hookTimeout is the timeout of hooks if the options set none.
	hookTimeout = 5 * time.Minute
)

// Releaser runs Helm operations. It keeps no state between operations. Operations on the same release must not overlap.
type Releaser struct {
	// Agent is the agent's own identity: it stores all releases, whichever account deploys them.
	Agent   *access.Identity
	Stopped <-chan struct{}
	Clock   func() time.Time
	// Slots are released while an operation waits for objects or hooks; nil means unlimited.
	Slots objects.Slots
	// Renderings limits how long templates and values schemas may take; nil means unlimited.
	Renderings *bounded.Renderings
	// Seal tells the revisions that the agent stored from others.
	Seal *Seal
	// Namespace is that of the agent. A bundle may bring it, but no operation deletes it, because the agent would go with it.
	Namespace string
}

// History reads all revisions of a release.
func (r *Releaser) History(ctx context.Context, key placement.Release) (*History, error) {
	return LoadHistory(ctx, r.Agent.Clientset.CoreV1().Secrets(key.Namespace), key, r.Clock, r.Seal)
}

// Installation describes a release to install or upgrade.
type Installation struct {
	Release placement.Release
	// Chart is the bundle's chart, Finish completes what Helm has rendered.
	Chart   *chart.Chart
	Finish  finishing
	Options *fleet.BundleDeploymentOptions
	// DeploymentID is the deployment that the release is made for. If the last revision was made for it, that revision
	// is used or continued, unless Again is set.
	DeploymentID string
	Again        bool
	// Reported reports whether the status names a revision that was made at that time, and was written afterwards.
	Reported func(revision string, made time.Time) bool
	// Force replaces objects instead of patching them.
	Force  bool
	Values map[string]any
	// Identity writes the objects.
	Identity *access.Identity
	Set      placement.Set
	// Stale are releases of the same BundleDeployment under former names. This release may take over their objects.
	Stale []placement.Release
	// MayTake returns an error if the release belongs to another owner. It gets the annotations of the chart of the
	// last revision, if there is one.
	MayTake func(exists bool, annotations map[string]string) error
	// Superseded reports whether a newer state is wanted. Then the operation stops waiting.
	Superseded func() bool
	// Changes wakes an operation that waits for objects.
	Changes *objects.Changes
	// history is the number of revisions that Helm keeps.
	history int
	// noWayBack disables the rollback of a failed upgrade: others may have written the revision to restore.
	noWayBack bool
}

// finishing completes the objects and the hooks that Helm has rendered.
type finishing interface {
	postrender.PostRenderer
	// CheckDependencies is called before the chart is rendered, when Helm knows which dependencies are enabled.
	CheckDependencies() error
	// FinishHooks completes the hooks of a revision before it is stored. It returns true if Helm has to run again.
	FinishHooks(r *release.Release) (again bool, err error)
}

// errHooksComeFirst ends the first of two Helm runs, see finishing.
var errHooksComeFirst = errors.New("the hooks are finished first")

// Install installs or upgrades a release, whatever state an earlier operation left it in.
func (r *Releaser) Install(ctx context.Context, in Installation) (*manifest.Revision, error) {
	h, err := r.History(ctx, in.Release)
	if err != nil {
		return nil, err
	}
	if err := in.MayTake(h.Last() != nil, AnnotationsOf(h.Last())); err != nil {
		return nil, err
	}
	if err := h.DeleteForged(ctx); err != nil {
		return nil, err
	}
	client := r.client(h, in.Identity, in.Options.TargetNamespace, in.Set)
	if made, err := r.alreadyMade(in, h, client); made != nil || err != nil {
		return made, err
	}
	if client.Former, err = r.manifestsOf(ctx, in.Stale, AnnotationsOf(&release.Release{Chart: in.Chart})); err != nil {
		return nil, err
	}
	client.Superseded, client.Slots, client.Changes = in.Superseded, r.Slots, in.Changes
	client.NamespaceExists = func() bool {
		_, err := r.Agent.Clientset.CoreV1().Namespaces().Get(ctx, in.Release.Namespace, metav1.GetOptions{})
		return err == nil
	}
	next, err := r.prepare(in, h, client)
	if err != nil {
		return nil, err
	}
	if in.history, err = h.makeRoom(maxHistory(in.Options)); err != nil {
		return nil, err
	}
	config, rendered, err := r.configuration(in, h, client)
	if err != nil {
		return nil, err
	}
	if next == Upgrade {
		rendered.upgrade, rendered.revision = true, h.Last().Version+1
	}
	made, err := runHelm(next, in, h, config, client, rendered)
	if err = errors.Join(err, h.storeAgain()); err != nil {
		return nil, err
	}
	h.deleteFailed(maxHistory(in.Options))
	return client.Result(made)
}

// runHelm installs or upgrades. Hooks have to be complete before the release is stored. If the kustomization
// covers the hooks, Helm runs a second time, with the same objects.
func runHelm(next step, in Installation, h *History, config *action.Configuration, client *objects.Client, rendered *rendering) (*release.Release, error) {
	run := runUpgrade
	if next == Install {
		run = runInstall
	}
	client.Undeployed, in.noWayBack = newest(h.revisions, release.StatusDeployed) == 0, slices.ContainsFunc(h.revisions, h.isForeign)
	h.beforeCreate = func(r *release.Release) error {
		rendered.restore(r)
		again, err := in.Finish.FinishHooks(r)
		if err == nil && again {
			return errHooksComeFirst
		}
		return err
	}
	last := h.Last()
	made, err := run(in, config, client)
	if !errors.Is(err, errHooksComeFirst) {
		return made, err
	}
	if next == Install && last != nil && last.Info.Status == release.StatusSuperseded { // Helm set the status to superseded, but no newer revision exists yet
		last.SetStatus(release.StatusUninstalled, "Uninstallation complete")
	}
	return run(in, config, client)
}

// prepare repairs what an earlier operation left so that Helm can continue, and returns the next step.
func (r *Releaser) prepare(in Installation, h *History, client *objects.Client) (step, error) {
	last := h.Last()
	onlyHooks, err := hooksOnly(last, client)
	if err != nil {
		return Install, err
	}
	if last != nil && last.Info.Status.IsPending() && (onlyHooks || deploymentIDOf(last) == in.DeploymentID) && h.takeBack() {
		client.Leftovers = append(leftovers(h.revisions), last.Version)
		return nextStep(h.Last()), nil
	}
	next := nextStep(last)
	if next == UninstallFirst && !onlyHooks {
		// After a change of the name that was reverted, the stale release holds the workload that delete hooks would act on.
		return Install, r.Uninstall(h, Removal{Identity: in.Identity, Hooks: len(in.Stale) == 0, Confined: in.Options.TargetNamespace, Set: in.Set})
	}
	if next == RecoverAndUpgrade || next == UninstallFirst {
		last.SetStatus(release.StatusFailed, "The operation was interrupted")
		next, err = Upgrade, h.Update(SecretName(last.Name, last.Version), last)
	}
	if next == Upgrade {
		client.Leftovers = leftovers(h.revisions)
	}
	return next, err
}

// hooksOnly is ranOnlyHooks for the objects in the cluster. It reads them only if they matter.
func hooksOnly(last *release.Release, client *objects.Client) (bool, error) {
	if last == nil || !ranOnlyHooks(last, objects.Found{All: true}) {
		return false, nil
	}
	found, err := client.Look(last)
	return ranOnlyHooks(last, found), err
}

// deploymentIDOf returns the deployment that a revision was made for, "" if another program made it.
func deploymentIDOf(r *release.Release) string { return AnnotationsOf(r)[annotation.DeploymentID] }

// alreadyMade returns the result of an existing revision for the wanted deployment: the process that made it may have
// stopped before it reported the result. It returns nil if that has to be made, also because another release has taken
// its objects. Its objects still have to be checked.
func (r *Releaser) alreadyMade(in Installation, h *History, client *objects.Client) (*manifest.Revision, error) {
	if err := h.keepReported(in, client); err != nil {
		return nil, err
	}
	last := h.Last()
	if in.Again || last == nil || h.isForeign(last) || last.Info.Status != release.StatusDeployed || deploymentIDOf(last) != in.DeploymentID {
		return nil, nil //nolint:nilnil // has to be made
	}
	if taken, err := r.isTaken(h, in.Stale); taken || err != nil {
		return nil, err
	}
	made, err := objects.New(in.Identity, in.Release, r.Stopped).Result(last)
	if err != nil {
		return nil, err
	}
	made.Live, made.Deployed = nil, last.Info.LastDeployed.Time
	return made, nil
}

func (r *Releaser) configuration(in Installation, h *History, client *objects.Client) (*action.Configuration, *rendering, error) {
	rendered := &rendering{Identity: in.Identity, in: in, revision: 1, bounds: r.Renderings}
	config := newConfiguration(rendered, h, in.history, client)
	rendered.capabilities = func() *chartutil.Capabilities { return config.Capabilities }
	if len(in.Chart.CRDObjects()) > 0 {
		return config, rendered, nil // Helm runs discovery again after it has installed the chart's CRDs
	}
	known, err := in.Identity.Capabilities()
	if err != nil {
		return nil, nil, err
	}
	config.Capabilities = known
	return config, rendered, nil
}

func maxHistory(options *fleet.BundleDeploymentOptions) int {
	return cmp.Or(max(HelmOptions(options).MaxHistory, 0), defaultHistory)
}

func runInstall(in Installation, config *action.Configuration, client *objects.Client) (*release.Release, error) {
	run := newInstall(in, config)
	if len(in.Stale) > 0 && !run.TakeOwnership {
		// Only objects of the former releases may be taken over.
		run.TakeOwnership = true
		client.Adopt = in.Stale
	}
	if run.TakeOwnership && run.Atomic {
		// Helm would uninstall objects that existed before, together with new ones.
		run.Atomic, run.Wait = false, true
	}
	run.PostRenderer, client.Installs = client.Before(in.Finish), true
	return run.RunWithContext(context.Background(), in.Chart, in.Values)
}

// newInstall returns Helm's action that installs, with the settings of an installation.
func newInstall(in Installation, config *action.Configuration) *action.Install {
	helm := HelmOptions(in.Options)
	run := action.NewInstall(config)
	run.ReleaseName, run.Namespace = in.Release.Name, in.Release.Namespace
	run.Replace = true
	run.CreateNamespace = ptr.Deref(in.Options.CreateNamespace, true)
	run.TakeOwnership = helm.TakeOwnership
	run.Force = in.Force
	run.Atomic, run.Timeout = helm.Atomic, timeout(helm)
	run.Wait, run.WaitForJobs = helm.TimeoutSeconds > 0, helm.WaitForJobs
	run.SkipSchemaValidation, run.DisableOpenAPIValidation = true, true // rendering validates the values
	run.EnableDNS = !helm.DisableDNS
	return run
}

func runUpgrade(in Installation, config *action.Configuration, client *objects.Client) (*release.Release, error) {
	helm := HelmOptions(in.Options)
	run := action.NewUpgrade(config)
	run.Namespace = in.Release.Namespace
	run.TakeOwnership = true
	run.Force = in.Force
	run.MaxHistory = in.history
	run.ResetValues = true // the bundle has all values: values that were removed must not come back
	run.Atomic, run.Timeout = helm.Atomic && !in.noWayBack && !client.Undeployed, timeout(helm)
	run.Wait, run.WaitForJobs = helm.Atomic || helm.TimeoutSeconds > 0, helm.WaitForJobs
	run.SkipSchemaValidation, run.DisableOpenAPIValidation = true, true // rendering validates the values
	run.EnableDNS = !helm.DisableDNS
	run.PostRenderer = client.Before(in.Finish)
	return run.RunWithContext(context.Background(), in.Release.Name, in.Chart, in.Values)
}

// HelmOptions returns the options for Helm, or the zero value.
func HelmOptions(options *fleet.BundleDeploymentOptions) fleet.HelmOptions {
	return ptr.Deref(options.Helm, fleet.HelmOptions{})
}

func timeout(helm fleet.HelmOptions) time.Duration {
	seconds := min(max(helm.TimeoutSeconds, 0), math.MaxInt32) // more does not fit into a Duration
	return cmp.Or(time.Duration(seconds)*time.Second, hookTimeout)
}

// Forget deletes the history of a release and leaves its objects in the cluster.
func (r *Releaser) Forget(h *History) error {
	for h.Last() != nil {
		if _, err := h.Delete(SecretName(h.Key.Name, h.Last().Version)); err != nil {
			return err
		}
	}
	return nil
}

// Removal describes how to uninstall a release.
type Removal struct {
	Identity *access.Identity
	// Hooks enables the hooks. If Confined is not empty, hooks outside of that namespace are not run.
	Hooks    bool
	Confined string
	Set      placement.Set
	// Keep are objects that are not deleted, because another release of the same BundleDeployment has them.
	Keep []manifest.Ref
	// BeforePurge is called when the objects are deleted and the history is not; nil for none.
	BeforePurge func()
}

// Uninstall uninstalls a release with the given history. If an object of a former revision cannot be deleted, the history stays
// until it can.
func (r *Releaser) Uninstall(h *History, in Removal) error {
	client := r.client(h, in.Identity, in.Confined, in.Set)
	client.Slots, client.Foreign, client.Keep = r.Slots, h.isForeign(h.Last()), append(client.Keep, in.Keep...)
	var left, err error
	if h.Last() != nil {
		client.Leftovers = h.toUninstall()
		left = client.DeleteLeftovers(h.Last().Manifest)
	}
	run := action.NewUninstall(newConfiguration(in.Identity, h, 0, client))
	run.DisableHooks = !in.Hooks
	run.Timeout = hookTimeout
	run.IgnoreNotFound, run.KeepHistory = true, left != nil
	run.DeletionPropagation = "background"
	h.beforeDelete = in.BeforePurge
	if left == nil || h.Last().Info.Status != release.StatusUninstalled { // otherwise everything else is deleted
		if _, err = run.Run(h.Key.Name); err != nil {
			err = errors.Join(err, client.DeletionError()) // Helm does not return the cause
		}
	}
	if err = errors.Join(left, err); err != nil {
		return fmt.Errorf("uninstalling release %s: %w", h.Key, err)
	}
	return nil
}

// AnnotationsOf returns the annotations of the chart of a release.
func AnnotationsOf(r *release.Release) map[string]string {
	if r == nil || r.Chart == nil || r.Chart.Metadata == nil {
		return nil
	}
	return r.Chart.Metadata.Annotations
}

// DeployedManifests returns the manifests of the deployed revisions of a release, the newest first.
func (r *Releaser) DeployedManifests(ctx context.Context, key placement.Release) ([]string, error) {
	h, err := r.History(ctx, key)
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

// client returns the client for an operation on a release. It removes the hooks outside of the confining namespace
// from the history.
func (r *Releaser) client(h *History, identity *access.Identity, confined string, marks placement.Set) *objects.Client {
	client := objects.New(identity, h.Key, r.Stopped)
	client.Old, client.Removes, client.Confined, client.Set, client.IsAgent = h.manifests(), true, confined, marks.Hash, marks.IsAgent
	client.Keep = []manifest.Ref{namespaceOf(r.Namespace)}
	for _, revision := range h.revisions {
		client.ConfineHooks(revision)
	}
	return client
}

// newConfiguration returns Helm's configuration for one operation. It logs nothing: the errors contain every cause.
func newConfiguration(getter action.RESTClientGetter, h *History, maxHistory int, client *objects.Client) *action.Configuration {
	config := &action.Configuration{
		RESTClientGetter: getter, Releases: h.storage(maxHistory), KubeClient: client, Log: func(string, ...any) {},
	}
	// The output of hooks may contain secrets.
	config.SetHookOutputFunc(func(_, _, _ string) io.Writer { return io.Discard })
	return config
}
