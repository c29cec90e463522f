package release

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/release"
)

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
		"two upgrades failed":                              {[]revision{{3, failed}, {1, deployed}, {2, failed}}, Upgrade, []int{3, 2}},
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
			if got := nextStep(test.history); got != test.want {
				t.Errorf("step %d, want %d", got, test.want)
			}
			if diff := cmp.Diff(test.leftovers, leftovers(test.history)); diff != "" {
				t.Errorf("leftovers:\n%s", diff)
			}
		})
	}
}
