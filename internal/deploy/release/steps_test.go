package release

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/release"

	"github.com/fleet-hub/fleet/internal/deploy/release/objects"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// revision is the number and the status of a revision.
type revision struct {
	Number int
	Status release.Status
}

// summary returns the revisions of a history.
func (h *History) summary() []revision {
	var found []revision
	for _, r := range h.revisions {
		found = append(found, revision{Number: r.Version, Status: r.Info.Status})
	}
	return found
}

// historyWith returns a history with these revisions.
func historyWith(revisions []revision) *History {
	h := &History{}
	for _, r := range revisions {
		h.revisions = append(h.revisions, &release.Release{Version: r.Number, Info: &release.Info{Status: r.Status}})
	}
	return h
}

func TestNextStep(t *testing.T) {
	const (
		deployed     = release.StatusDeployed
		failed       = release.StatusFailed
		superseded   = release.StatusSuperseded
		pendingUp    = release.StatusPendingUpgrade
		pendingIn    = release.StatusPendingInstall
		pendingBack  = release.StatusPendingRollback
		uninstalled  = release.StatusUninstalled
		uninstalling = release.StatusUninstalling
	)
	tests := map[string]struct {
		history   []revision
		want      step
		leftovers []int
	}{
		"nothing":                                          {nil, Install, nil},
		"deployed":                                         {[]revision{{1, deployed}}, Upgrade, nil},
		"deployed, in any order":                           {[]revision{{2, deployed}, {1, superseded}}, Upgrade, nil},
		"failed from the start":                            {[]revision{{1, failed}}, Upgrade, nil},
		"failed twice from the start":                      {[]revision{{1, failed}, {2, failed}}, Upgrade, []int{1}},
		"an upgrade failed":                                {[]revision{{1, deployed}, {2, failed}}, Upgrade, []int{2}},
		"two upgrades failed":                              {[]revision{{1, deployed}, {2, failed}, {3, failed}}, Upgrade, []int{2, 3}},
		"an upgrade failed and the next succeeded":         {[]revision{{2, failed}, {3, deployed}}, Upgrade, nil},
		"interrupted while installing":                     {[]revision{{1, pendingIn}}, RecoverAndUpgrade, nil},
		"interrupted while upgrading":                      {[]revision{{1, deployed}, {2, pendingUp}}, RecoverAndUpgrade, []int{2}},
		"interrupted while rolling back":                   {[]revision{{1, superseded}, {2, failed}, {3, pendingBack}}, RecoverAndUpgrade, []int{1, 2}},
		"interrupted while uninstalling":                   {[]revision{{1, uninstalling}}, UninstallFirst, nil},
		"uninstalled, with its history kept":               {[]revision{{1, uninstalled}}, Install, nil},
		"installed again after it was uninstalled":         {[]revision{{1, uninstalled}, {2, deployed}}, Upgrade, nil},
		"superseded, the newest revision having been lost": {[]revision{{1, superseded}}, Upgrade, nil},
		"of an unknown status":                             {[]revision{{1, release.StatusUnknown}}, Upgrade, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			h := historyWith(test.history)
			if got := nextStep(h.Last()); got != test.want {
				t.Errorf("step %d, want %d", got, test.want)
			}
			if diff := cmp.Diff(test.leftovers, leftovers(h.revisions)); diff != "" {
				t.Errorf("leftovers:\n%s", diff)
			}
		})
	}
}

// An upgrade leaves out hooks that are only for an installation.
func TestNextStepAfterFailedInstallation(t *testing.T) {
	const inHooks = `Release "web" failed: failed pre-install: job db failed: BackoffLimitExceeded`
	for name, test := range map[string]struct {
		description string
		hooks       int
		want        step
	}{
		"in its pre-install hooks":                    {inHooks, 1, Install},
		"in its pre-install hooks, by another writer": {inHooks, 0, Upgrade},
		"in its post-install hooks":                   {`Release "web" failed: failed post-install: x`, 1, Upgrade},
		"while it created objects":                    {`Release "web" failed: creating secret "failed pre-install: "`, 1, Upgrade},
	} {
		t.Run(name, func(t *testing.T) {
			last := &release.Release{Name: "web", Info: &release.Info{Status: release.StatusFailed, Description: test.description}, Hooks: make([]*release.Hook, test.hooks)}
			if got := nextStep(last); got != test.want {
				t.Errorf("step %d, want %d", got, test.want)
			}
		})
	}
}

func TestRanOnlyHooks(t *testing.T) {
	const (
		installing   = release.StatusPendingInstall
		uninstalling = release.StatusUninstalling
	)
	hook := func(event release.HookEvent, phase release.HookPhase) *release.Hook {
		return &release.Hook{Events: []release.HookEvent{event}, LastRun: release.HookExecution{Phase: phase}}
	}
	var (
		first   = hook(release.HookPreInstall, release.HookPhaseRunning)
		done    = hook(release.HookPreDelete, release.HookPhaseSucceeded)
		running = hook(release.HookPreDelete, release.HookPhaseRunning)
		all     = objects.Found{All: true, Any: true}
		some    = objects.Found{Any: true}
	)
	tests := map[string]struct {
		status release.Status
		hooks  []*release.Hook
		found  objects.Found
		want   bool
	}{
		"installation without objects: only hooks":                {installing, []*release.Hook{first}, objects.Found{}, true},
		"installation with an object: more":                       {installing, []*release.Hook{first}, some, false},
		"installation without objects and hooks: unknown":         {installing, nil, objects.Found{}, false},
		"first of two delete hooks is running: only hooks":        {uninstalling, []*release.Hook{running, hook(release.HookPreDelete, "")}, all, true},
		"second of two delete hooks is running: more":             {uninstalling, []*release.Hook{done, running}, all, false},
		"another hook has succeeded before: only hooks":           {uninstalling, []*release.Hook{hook(release.HookPreInstall, release.HookPhaseSucceeded), running}, all, true},
		"delete hook is running, its object exists: more":         {uninstalling, []*release.Hook{running}, objects.Found{All: true, Any: true, Hook: true}, false},
		"delete hook is running, an object is gone: more":         {uninstalling, []*release.Hook{running}, some, false},
		"delete hook succeeded, all objects exist: more":          {uninstalling, []*release.Hook{done}, all, false},
		"delete hook was disabled, all objects exist: more":       {uninstalling, []*release.Hook{hook(release.HookPreDelete, "")}, all, false},
		"another hook was running, all objects exist: more":       {uninstalling, []*release.Hook{first, done}, all, false},
		"uninstallation of another writer, all exist: more":       {uninstalling, nil, all, false},
		"interrupted upgrade: more":                               {release.StatusPendingUpgrade, []*release.Hook{first}, objects.Found{}, false},
		"deployed release with a delete hook: is not interrupted": {release.StatusDeployed, []*release.Hook{running}, all, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := ranOnlyHooks(&release.Release{Info: &release.Info{Status: test.status}, Hooks: test.hooks}, test.found); got != test.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

func TestUnfinished(t *testing.T) {
	const (
		deployed   = release.StatusDeployed
		failed     = release.StatusFailed
		superseded = release.StatusSuperseded
	)
	tests := map[string]struct {
		history []revision
		want    []int
	}{
		"nothing":                              {nil, nil},
		"deployed":                             {[]revision{{1, superseded}, {2, deployed}}, nil},
		"an upgrade failed":                    {[]revision{{1, superseded}, {2, deployed}, {3, failed}}, []int{2}},
		"two upgrades failed":                  {[]revision{{1, deployed}, {2, failed}, {3, failed}}, []int{1, 2}},
		"failed twice from the start":          {[]revision{{1, failed}, {2, failed}}, []int{1}},
		"failed, the deployed one superseded":  {[]revision{{1, superseded}, {2, superseded}, {3, failed}}, []int{2}},
		"being uninstalled after a failure":    {[]revision{{1, deployed}, {2, release.StatusUninstalling}}, []int{1}},
		"uninstalled":                          {[]revision{{1, superseded}, {2, release.StatusUninstalled}}, []int{1}},
		"an installation after uninstallation": {[]revision{{1, release.StatusUninstalled}, {2, failed}}, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, unfinished(historyWith(test.history).revisions)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A timeout in other units than seconds must not become one that has passed.
func TestTimeout(t *testing.T) {
	for name, test := range map[string]struct {
		seconds int
		atLeast time.Duration
	}{
		"none: hooks have the default":       {0, hookTimeout},
		"negative: hooks have the default":   {-1, hookTimeout},
		"seconds":                            {60, time.Minute},
		"ten minutes in nanoseconds":         {600_000_000_000, 24 * time.Hour},
		"more than a Duration holds, by far": {math.MaxInt, 24 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			if got := timeout(fleet.HelmOptions{TimeoutSeconds: test.seconds}); got < test.atLeast {
				t.Errorf("timeout = %s, want at least %s", got, test.atLeast)
			}
		})
	}
}
