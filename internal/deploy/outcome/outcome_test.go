package outcome

import (
	"testing"
	"time"

	"github.com/fleet-hub/fleet/internal/rules/state"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

func TestReleaseThatCannotBeChecked_IsNotReadyAfterAWhile(t *testing.T) {
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	type check struct {
		at   time.Duration
		text string // empty if the check succeeds
	}
	fails := func(seconds int, text string) check { return check{time.Duration(seconds) * time.Second, text} }
	for name, test := range map[string]struct {
		never  bool // the release was never ready
		checks []check
		want   fleet.BundleState
		text   string
	}{
		"one check fails":                    {false, []check{fails(0, "503")}, fleet.Ready, ""},
		"short outage":                       {false, []check{fails(0, "503"), fails(120, "503")}, fleet.Ready, ""},
		"long outage":                        {false, []check{fails(0, "503"), fails(121, "503")}, fleet.NotReady, "its objects cannot be checked: 503"},
		"long outage, the error changes":     {false, []check{fails(0, "503"), fails(100, "timeout"), fails(200, "503")}, fleet.NotReady, "its objects cannot be checked: 503"},
		"two short outages":                  {false, []check{fails(0, "503"), fails(100, ""), fails(110, "503"), fails(200, "503")}, fleet.Ready, ""},
		"a check succeeds after a long one":  {false, []check{fails(0, "503"), fails(200, "503"), fails(300, "")}, fleet.Ready, ""},
		"never ready: keeps its own message": {true, []check{fails(0, "503"), fails(300, "503")}, fleet.NotReady, "progressing"},
	} {
		t.Run(name, func(t *testing.T) {
			bd := &fleet.BundleDeployment{Status: fleet.BundleDeploymentStatus{Ready: !test.never, NonModified: true}}
			message := ""
			if test.never {
				message = "progressing"
			}
			SetCondition(&bd.Status, noon.Add(-time.Hour), conditions.Ready, message)
			Monitored(&bd.Status, noon.Add(-time.Hour), "")
			var since time.Time // as package watch records it
			for _, check := range test.checks {
				if check.text != "" {
					if since.IsZero() {
						since = noon.Add(check.at)
					}
					NotMonitored(&bd.Status, since, noon.Add(check.at), check.text)
					continue
				}
				since = time.Time{}
				bd.Status.Ready = true // as package watch does
				SetCondition(&bd.Status, noon.Add(check.at), conditions.Ready, "")
				Monitored(&bd.Status, noon.Add(check.at), "")
			}
			if got := state.Of(bd); got != test.want {
				t.Errorf("state %s, want %s", got, test.want)
			}
			if got := conditions.Get(bd.Status.Conditions, conditions.Ready).Message; got != test.text {
				t.Errorf("Ready message %q, want %q", got, test.text)
			}
			last := test.checks[len(test.checks)-1].text
			if got := state.Message(bd); got != last {
				t.Errorf("message of the state %q, want %q", got, last)
			}
		})
	}
}
