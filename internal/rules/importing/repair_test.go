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

// The import carries out repairs. None of them removes an identity.
func TestImportRepairs(t *testing.T) {
	repair := func(what supervision.Repair) importChange {
		return func(in *importing.Input) { in.Repair = what }
	}
	stale := func(in *importing.Input) { in.Stale = true }
	inherited := func(in *importing.Input) { in.Inherited = true }
	accounts := func(in *importing.Input) { in.Accounts = []types.UID{"u-account"} }
	noToken := func(in *importing.Input) { in.Token, in.Values = nil, nil }
	type result struct {
		Stage                   importing.Stage
		Supervise               bool
		Token                   string // delivered
		New, InspectOnly, Known bool
		Creates, Renews, Only   bool // Only means that no heartbeat is reset
	}
	tests := map[string]struct {
		in   importing.Input
		want result
	}{
		"an agent that is awaited is looked for":           {in: carriedOut(), want: result{Stage: importing.InSync, Supervise: true, Only: true}},
		"one that is heard of is not":                      {in: carriedOut(seenIn("cattle-fleet-system")), want: result{Stage: importing.InSync, Only: true}},
		"one that counts as gone is":                       {in: carriedOut(seenIn("cattle-fleet-system"), stale), want: result{Stage: importing.InSync, Supervise: true, Only: true}},
		"but not where another implementation has left it": {in: carriedOut(seenIn("cattle-fleet-system"), stale, inherited), want: result{Stage: importing.InSync, Only: true}},
		"whose agent is not repaired either":               {in: carriedOut(seenIn("cattle-fleet-system"), stale, inherited, repair(supervision.RepairIdentity)), want: result{Stage: importing.InSync, Only: true}},
		"objects are applied again, in place":              {in: carriedOut(repair(supervision.RepairObjects)), want: result{Stage: importing.NeedsAgent, Only: true}},
		"so they are for one that counts as gone":          {in: carriedOut(seenIn("cattle-fleet-system"), stale, repair(supervision.RepairObjects)), want: result{Stage: importing.NeedsAgent, Only: true}},
		"the means to register are handed over":            {in: carriedOut(repair(supervision.RepairIdentity)), want: result{Stage: importing.NeedsAgent, Token: "import-jwt", Only: true}},
		"the deployment knows which accounts are alive":    {in: carriedOut(repair(supervision.RepairIdentity), accounts), want: result{Stage: importing.NeedsAgent, Token: "import-jwt", Known: true, Only: true}},
		"with a rejected token, no account counts":         {in: carriedOut(repair(supervision.RepairRejected), accounts), want: result{Stage: importing.NeedsAgent, Token: "import-jwt", Only: true}},
		"a token is made for it":                           {in: carriedOut(repair(supervision.RepairIdentity), noToken), want: result{Stage: importing.NeedsToken, Creates: true, Only: true}},
		"one that ends soon gives way to another":          {in: carriedOut(repair(supervision.RepairIdentity), importTokenUntil(30*time.Minute)), want: result{Stage: importing.NeedsToken, Renews: true, Only: true}},
		"a first import needs no repair":                   {in: importInput(withToken, repair(supervision.RepairObjects)), want: result{Stage: importing.NeedsAgent, Token: "import-jwt", New: true}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			out := importing.Decide(test.in)
			got := result{Stage: out.Stage, Supervise: out.Supervise, Creates: out.CreateToken != nil, Renews: out.RenewToken, Only: !out.Done.ResetAgent}
			if out.Deploy != nil {
				got.New, got.InspectOnly, got.Known = out.Deploy.NewRegistration, out.Deploy.InspectOnly, len(out.Deploy.Accounts) > 0
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
		"it is good":                  {in: carriedOut()},
		"it is gone":                  {in: carriedOut(func(in *importing.Input) { in.Token = nil }), want: true},
		"it is going":                 {in: carriedOut(tokenChange(func(t *fleet.ClusterRegistrationToken) { now := rulestest.At(0); t.DeletionTimestamp = &now })), want: true},
		"it ends within the hour":     {in: carriedOut(importTokenUntil(59 * time.Minute)), want: true},
		"it ends after it":            {in: carriedOut(importTokenUntil(61 * time.Minute))},
		"it is an earlier Cluster's":  {in: carriedOut(tokenChange(func(t *fleet.ClusterRegistrationToken) { t.OwnerReferences[0].UID = "another" })), want: true},
		"nobody waits for it anymore": {in: carriedOut(seenIn("cattle-fleet-system"), func(in *importing.Input) { in.Token = nil })},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := importing.TokenLost(test.in); got != test.want {
				t.Errorf("got %v", got)
			}
		})
	}
}
