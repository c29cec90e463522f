package release

import (
	"context"
	"errors"
	"fmt"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/release"

	"github.com/fleet-hub/fleet/internal/deploy/access"
	"github.com/fleet-hub/fleet/internal/deploy/manifest"
	"github.com/fleet-hub/fleet/internal/deploy/placement"
	"github.com/fleet-hub/fleet/internal/deploy/release/objects"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Rollback describes a rollback of objects to a revision of their release.
type Rollback struct {
	Release  placement.Release
	Revision int
	Options  *fleet.BundleDeploymentOptions
	// Identity writes the objects.
	Identity *access.Identity
	Set      placement.Set
	// Only are the only objects that are changed.
	Only map[manifest.Ref]bool
	// Force replaces objects instead of patching them.
	Force bool
	// KeepFailed keeps the revision of a failed rollback in the history.
	KeepFailed bool
	// Superseded and Changes are as in an Installation.
	Superseded func() bool
	Changes    *objects.Changes
}

// RollBack makes a new revision with the content of an earlier one. If that fails, it restores the history; the
// failed revision stays if KeepFailed is set.
func (r *Releaser) RollBack(ctx context.Context, in Rollback) (*manifest.Revision, error) {
	h, err := r.History(ctx, in.Release)
	if err != nil {
		return nil, err
	}
	current, err := h.Get(SecretName(in.Release.Name, in.Revision))
	if err != nil || h.isForeign(current) {
		return nil, fmt.Errorf("release %s has no revision %d that this agent has stored: deploy the bundle again, with another forceSyncGeneration", in.Release, in.Revision)
	}
	if err := h.makeDeployed(current); err != nil { // an earlier failure may not have been undone
		return nil, err
	}
	client := r.client(h, in.Identity, in.Options.TargetNamespace, in.Set)
	client.Only, client.Diff, client.Slots, client.Superseded, client.Changes = in.Only, in.Options.Diff, r.Slots, in.Superseded, in.Changes
	run := action.NewRollback(newConfiguration(in.Identity, h, 0, client))
	run.Version, run.Force, run.Timeout, run.MaxHistory = in.Revision, in.Force, hookTimeout, maxHistory(in.Options)
	if err := run.Run(in.Release.Name); err != nil {
		if errors.Is(err, access.ErrStopped) {
			return nil, err // the next agent process continues from here
		}
		return nil, errors.Join(err, h.undo(current, in.KeepFailed))
	}
	return client.Result(h.Last())
}

// undo makes a revision the deployed one again after a rollback to it has failed.
func (h *History) undo(current *release.Release, keepFailed bool) error {
	for _, failed := range h.revisions {
		name := SecretName(failed.Name, failed.Version)
		switch {
		case failed.Version <= current.Version:
		case !keepFailed:
			if _, err := h.Delete(name); err != nil {
				return err
			}
		case failed.Info.Status.IsPending(): // a hook failed
			failed.SetStatus(release.StatusFailed, "Rollback failed")
			h.unstored[name] = true
		}
	}
	return h.makeDeployed(current)
}

// makeDeployed marks a revision as the deployed one, and stores what is not stored.
func (h *History) makeDeployed(current *release.Release) error {
	if current.Info.Status != release.StatusDeployed {
		current.Info.Status, h.unstored[SecretName(current.Name, current.Version)] = release.StatusDeployed, true
	}
	return h.storeAgain()
}

// keepReported marks the last revision as the deployed one if it is a pending installation that was reported, and all its objects
// exist. Earlier agents reported an installation also if they could not store its result. Its hooks must not run again.
func (h *History) keepReported(in Installation, client *objects.Client) error {
	last := h.Last()
	if last == nil || h.isForeign(last) || last.Info.Status != release.StatusPendingInstall || !in.Reported(h.Key.At(last.Version), last.Info.LastDeployed.Time) {
		return nil
	}
	if found, err := client.Look(last); err != nil || !found.All {
		return err
	}
	return h.makeDeployed(last)
}
