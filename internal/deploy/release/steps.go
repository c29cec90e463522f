package release

import (
	"helm.sh/helm/v3/pkg/release"
)

// revision is one entry of a release's history.
type revision struct {
	Number int
	Status release.Status
}

// step is the way to bring a release to a new state.
type step int

const (
	// Install means that the release does not exist, or was uninstalled.
	Install step = iota
	// Upgrade means that the release exists.
	Upgrade
	// UninstallFirst means that an earlier uninstallation did not finish.
	UninstallFirst
	// RecoverAndUpgrade means that an operation was interrupted, most likely because the agent was killed. Its
	// revision is marked as failed, and the release is upgraded.
	RecoverAndUpgrade
)

// nextStep returns the next step for a history, which may be in any order.
//
// An interrupted operation is not rolled back: the same state or a newer one is about to be deployed, and a
// rollback would only remove what is already there. The upgrade deletes the objects of the interrupted revision
// that are in neither the last good revision nor the new one (see leftovers).
func nextStep(history []revision) step {
	last, ok := lastOf(history)
	if !ok {
		return Install
	}
	switch {
	case last.Status == release.StatusUninstalled:
		return Install
	case last.Status == release.StatusUninstalling:
		return UninstallFirst
	case last.Status.IsPending():
		return RecoverAndUpgrade
	default:
		return Upgrade
	}
}

func lastOf(history []revision) (last revision, ok bool) {
	for _, r := range history {
		if !ok || r.Number > last.Number {
			last, ok = r, true
		}
	}
	return last, ok
}

// leftovers returns the revisions after the last good one. Their objects may exist in addition to those of the
// revision from which an upgrade starts. The order is undefined.
func leftovers(history []revision) []int {
	deployed := 0
	for _, r := range history {
		if r.Status == release.StatusDeployed && r.Number > deployed {
			deployed = r.Number
		}
	}
	last, _ := lastOf(history)
	var found []int
	for _, r := range history {
		if r.Number > deployed && (deployed != 0 || r.Number != last.Number) {
			found = append(found, r.Number)
		}
	}
	return found
}
