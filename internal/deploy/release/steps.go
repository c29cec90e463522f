package release

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/release"

	"github.com/fleet-hub/fleet/internal/deploy/release/objects"
)

// step is the way to bring a release to a new state.
type step int

const (
	// Install means that the release does not exist, was uninstalled, or failed before it had objects.
	Install step = iota
	// Upgrade means that the release exists.
	Upgrade
	// UninstallFirst means that an earlier uninstallation did not finish.
	UninstallFirst
	// RecoverAndUpgrade means that an operation was interrupted. Its revision is marked as failed, and the release is upgraded.
	RecoverAndUpgrade
)

// nextStep returns the next step after the last revision of a history, nil for an empty history.
//
// An interrupted operation is not rolled back: the same state or a newer one is about to be deployed, and a
// rollback would only remove what is already there. The upgrade deletes the objects of the interrupted revision
// that are in neither the last good revision nor the new one (see leftovers).
func nextStep(last *release.Release) step {
	switch {
	case last == nil, last.Info.Status == release.StatusUninstalled, failedInFirstHooks(last):
		return Install
	case last.Info.Status == release.StatusUninstalling:
		return UninstallFirst
	case last.Info.Status.IsPending():
		return RecoverAndUpgrade
	default:
		return Upgrade
	}
}

// failedInFirstHooks reports whether an installation failed in its pre-install hooks: no object of the release was created.
// These hooks have to run again, and an upgrade would leave them out. A revision that another writer stored has no hooks.
func failedInFirstHooks(last *release.Release) bool {
	return last.Info.Status == release.StatusFailed && len(last.Hooks) > 0 &&
		strings.HasPrefix(last.Info.Description, fmt.Sprintf("Release %q failed: failed pre-install: ", last.Name))
}

// ranOnlyHooks reports whether an interrupted operation has run no more than hooks, if these objects of its revision exist: an
// installation has created none of them, or an uninstallation could not create its first pre-delete hook. Helm stores that such a
// hook is running before it creates the hook's object, and does not store its failure.
func ranOnlyHooks(last *release.Release, found objects.Found) bool {
	if last.Info.Status == release.StatusPendingInstall {
		return len(last.Hooks) > 0 && !found.Any
	}
	phases := map[release.HookPhase]bool{}
	for _, hook := range last.Hooks {
		phases[hook.LastRun.Phase] = phases[hook.LastRun.Phase] || slices.Contains(hook.Events, release.HookPreDelete)
	}
	return last.Info.Status == release.StatusUninstalling && found.All && !found.Hook &&
		phases[release.HookPhaseRunning] && !phases[release.HookPhaseSucceeded]
}

// newest returns the number of the last revision with a status, or 0.
func newest(history []*release.Release, status release.Status) int {
	number := 0
	for _, r := range history {
		if r.Info.Status == status {
			number = max(number, r.Version)
		}
	}
	return number
}

// unfinished returns the last good revision and those after it, without the last one. Their objects may exist although
// the last revision does not have them, because it never became the deployed one, or because their deletion was refused. The
// history is sorted by number.
func unfinished(history []*release.Release) []int {
	good := cmp.Or(newest(history, release.StatusDeployed), newest(history, release.StatusSuperseded))
	var found []int
	for i, r := range history {
		if i < len(history)-1 && r.Version >= good && r.Info.Status != release.StatusUninstalled {
			found = append(found, r.Version)
		}
	}
	return found
}

// leftovers returns the revisions after the last good one. Their objects may exist in addition to those of the
// revision from which an upgrade starts. The history is sorted by number.
func leftovers(history []*release.Release) []int {
	deployed := newest(history, release.StatusDeployed)
	var found []int
	for i, r := range history {
		if r.Version > deployed && (deployed != 0 || i < len(history)-1) {
			found = append(found, r.Version)
		}
	}
	return found
}
