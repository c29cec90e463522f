package importing_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/rules/importing"
	"github.com/fleet-hub/fleet/internal/rules/rulestest"
	"github.com/fleet-hub/fleet/internal/rules/supervision"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// No repair removes an identity.
func TestImport_CarriesOutRepairs(t *testing.T) {
	repair := func(what supervision.Repair) importChange {
		return func(in *importing.Input) { in.Repair = what }
	}
	stale := func(in *importing.Input) { in.Stale = true }
	inherited := func(in *importing.Input) { in.Inherited = true }
	accounts := func(in *importing.Input) { in.Accounts = []types.UID{"u-account"} }
	noToken := func(in *importing.Input) { in.Token, in.Values = nil, nil }
	type result struct {
		Stage                             importing.Stage
		Supervise                         bool
		Token                             string // delivered
		New, InspectOnly, Known, Corrects bool
		Creates, Renews, Only             bool // Only means that no heartbeat is reset
	}
	tests := map[string]struct {
		in   importing.Input
		want result
	}{
		"agent is awaited: inspected":                                {in: carriedOut(), want: result{Stage: importing.InSync, Supervise: true, Only: true}},
		"agent reports: not inspected":                               {in: carriedOut(seenIn("cattle-fleet-system")), want: result{Stage: importing.InSync, Only: true}},
		"agent is stale: inspected":                                  {in: carriedOut(seenIn("cattle-fleet-system"), stale), want: result{Stage: importing.InSync, Supervise: true, Only: true}},
		"stale agent of Rancher Fleet: not inspected":                {in: carriedOut(seenIn("cattle-fleet-system"), stale, inherited), want: result{Stage: importing.InSync, Only: true}},
		"stale agent of Rancher Fleet: not repaired":                 {in: carriedOut(seenIn("cattle-fleet-system"), stale, inherited, repair(supervision.RepairIdentity)), want: result{Stage: importing.InSync, Only: true}},
		"repair of objects: applied again":                           {in: carriedOut(repair(supervision.RepairObjects)), want: result{Stage: importing.NeedsAgent, Only: true}},
		"repair of settings: corrected":                              {in: carriedOut(repair(supervision.RepairSettings)), want: result{Stage: importing.NeedsAgent, Corrects: true, Only: true}},
		"repair of objects, agent is stale: applied again":           {in: carriedOut(seenIn("cattle-fleet-system"), stale, repair(supervision.RepairObjects)), want: result{Stage: importing.NeedsAgent, Only: true}},
		"repair of the identity: token is delivered":                 {in: carriedOut(repair(supervision.RepairIdentity)), want: result{Stage: importing.NeedsAgent, Token: "import-jwt", Only: true}},
		"repair of the identity: live accounts are passed on":        {in: carriedOut(repair(supervision.RepairIdentity), accounts), want: result{Stage: importing.NeedsAgent, Token: "import-jwt", Known: true, Only: true}},
		"repair of a rejected token: no live accounts are passed on": {in: carriedOut(repair(supervision.RepairRejected), accounts), want: result{Stage: importing.NeedsAgent, Token: "import-jwt", Only: true}},
		"repair of the identity, no token: created":                  {in: carriedOut(repair(supervision.RepairIdentity), noToken), want: result{Stage: importing.NeedsToken, Creates: true, Only: true}},
		"repair of the identity, token expires soon: renewed":        {in: carriedOut(repair(supervision.RepairIdentity), importTokenUntil(30*time.Minute)), want: result{Stage: importing.NeedsToken, Renews: true, Only: true}},
		"first import: complete import":                              {in: importInput(withToken, repair(supervision.RepairObjects)), want: result{Stage: importing.NeedsAgent, Token: "import-jwt", New: true}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			out := importing.Decide(test.in)
			got := result{Stage: out.Stage, Supervise: out.Supervise, Creates: out.CreateToken != nil, Renews: out.RenewToken, Only: !out.Done.ResetAgent}
			if out.Deploy != nil {
				got.New, got.InspectOnly, got.Known = out.Deploy.NewRegistration, out.Deploy.InspectOnly, len(out.Deploy.Accounts) > 0
				got.Corrects = out.Deploy.Corrects
				if out.Deploy.Values.Bootstrap != nil {
					got.Token = out.Deploy.Values.Bootstrap.Token
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestTokenLost(t *testing.T) {
	tests := map[string]struct {
		in   importing.Input
		want bool
	}{
		"valid token":                   {in: carriedOut()},
		"deleted token":                 {in: carriedOut(func(in *importing.Input) { in.Token = nil }), want: true},
		"token that is being deleted":   {in: carriedOut(tokenChange(func(t *fleet.ClusterRegistrationToken) { now := rulestest.At(0); t.DeletionTimestamp = &now })), want: true},
		"token expires within the hour": {in: carriedOut(importTokenUntil(59 * time.Minute)), want: true},
		"token expires later":           {in: carriedOut(importTokenUntil(61 * time.Minute))},
		"token of a former Cluster":     {in: carriedOut(tokenChange(func(t *fleet.ClusterRegistrationToken) { t.OwnerReferences[0].UID = "another" })), want: true},
		"no token, agent reports":       {in: carriedOut(seenIn("cattle-fleet-system"), func(in *importing.Input) { in.Token = nil })},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := importing.TokenLost(test.in); got != test.want {
				t.Errorf("got %v", got)
			}
		})
	}
}
