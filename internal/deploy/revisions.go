package deploy

import (
	"helm.sh/helm/v3/pkg/release"
)

// revision is one entry of a release's history.
type revision struct {
	Number int
	Status release.Status
}

// step is how a release is brought to a new state.
type step int

const (
	// Install means that there is no release, or only one that was uninstalled.
	Install step = iota
	// Upgrade means that there is one to go on from.
	Upgrade
	// UninstallFirst means that somebody was uninstalling it and did not finish.
	UninstallFirst
	// RecoverAndUpgrade means that an operation on it was cut off, most likely because the agent was killed:
	// its revision is marked failed, and the upgrade goes over it.
	RecoverAndUpgrade
)

// nextStep decides how to go on from a history, which may be in any order.
//
// An operation that was cut off is not rolled back: the same state, or a newer one, is about to be deployed,
// and to roll back would only take down what is already there. Objects of the revision that was cut off and
// are in neither the last good revision nor the new one are removed by the upgrade (see leftovers).
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

// leftovers are the revisions whose objects may be in the cluster beside those of the revision an upgrade
// starts from: what came after the last good one. They are returned in no particular order.
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
