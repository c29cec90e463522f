package grant_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/rules/grant"
	"github.com/fleet-hub/fleet/internal/rules/rulestest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// registered is a Cluster whose agent reported a minute ago with the credential of request-0, which was made with
// token t1 a day ago.
func registered(modifiers ...func(*fleet.ClusterRegistration)) func(*grant.Input) {
	return func(in *grant.Input) {
		in.Clusters = []*fleet.Cluster{rulestest.ACluster(rulestest.ClusterSeen(rulestest.At(-time.Minute)))}
		others(aRequest(append([]func(*fleet.ClusterRegistration){requestNamed("request-0"), requestMadeAt(rulestest.At(-24 * time.Hour)), requestGranted, requestNoted("")}, modifiers...)...))(in)
	}
}

func importedBy(uid string) func(*grant.Input) {
	return func(in *grant.Input) {
		in.Imported = rulestest.AToken(tokenOfImport, func(t *fleet.ClusterRegistrationToken) {
			t.Name, t.UID, t.OwnerReferences[0].UID = "import-token-east", "i1", types.UID(uid)
		})
		if in.Request.Labels[fleet.LabelRegistrationToken] == in.Imported.Name {
			in.NamedToken = in.Imported
		}
	}
}

func confirmed(request string) func(*grant.Input) {
	return func(in *grant.Input) {
		in.Clusters[0].Annotations = map[string]string{annotation.ConfirmTakeover: request}
	}
}

func unlabelled(r *fleet.ClusterRegistration) { r.Labels = nil }

// Any client with a token of the workspace may send any client ID. Only the agent's own token, or the operator,
// replaces a running agent.
func TestGrantTakeover(t *testing.T) {
	type mod = func(*grant.Input)
	const pending, granted = grant.TakeoverPending, grant.AwaitingRights
	another := with(requestWith("t2"))
	same, nameless := with(requestWith("t1")), with(requestWith(""))
	tests := map[string]struct {
		given []mod
		want  grant.Stage
	}{
		"another token: waits":                       {[]mod{another, askedBy(), registered()}, pending},
		"token of the agent's registration: granted": {[]mod{same, asked, registered(requestTokenUID("u1"))}, granted},
		"token of the agent's registration, agent has reported another key: waits": {
			[]mod{same, asked, registered(requestTokenUID("u1")), func(in *grant.Input) { in.ReportedKey = "another" }}, pending,
		},
		"token of the Cluster's import: granted":                     {[]mod{with(requestWith("import-token-east")), registered(), importedBy("cluster-uid")}, granted},
		"token of the import of a former Cluster of the name: waits": {[]mod{with(requestWith("import-token-east")), registered(), importedBy("another-uid")}, pending},
		"deleted token of the agent's registration: waits":           {[]mod{same, registered()}, pending},

		"token re-created under an old name: request waits":                        {[]mod{same, askedBy(tokenUID("u2")), registered(requestTokenUID("u1"))}, pending},
		"token re-created and backdated by a restored object: request waits":       {[]mod{same, askedBy(tokenUID("u2"), tokenMadeAt(rulestest.At(-48*time.Hour))), registered(requestTokenUID("u1"))}, pending},
		"grant without a recorded UID, token older than the request: granted":      {[]mod{same, askedBy(tokenMadeAt(rulestest.At(-25 * time.Hour))), registered()}, granted},
		"grant without a recorded UID, token newer than the request: waits":        {[]mod{same, asked, registered()}, pending},
		"grant without a recorded UID, token of the same second: waits":            {[]mod{same, askedBy(tokenMadeAt(rulestest.At(-24 * time.Hour))), registered()}, pending},
		"request that claims the recorded UID of the agent's token: request waits": {[]mod{with(requestWith("t1"), requestTokenUID("u1")), askedBy(tokenUID("u2")), registered(requestTokenUID("u1"))}, pending},

		"neither names a token: request waits":                      {[]mod{nameless, registered(requestWith(""))}, pending},
		"neither has the label: request waits":                      {[]mod{with(unlabelled), registered(unlabelled)}, pending},
		"neither names a token, confirmed on the Cluster: granted":  {[]mod{nameless, registered(requestWith("")), confirmed("request-1")}, granted},
		"neither names a token, import of another Cluster: waits":   {[]mod{nameless, registered(requestWith("")), importedBy("another-uid")}, pending},
		"request without a token, agent with one: waits":            {[]mod{nameless, registered()}, pending},
		"request with a token, agent without one: waits":            {[]mod{another, askedBy(), registered(requestWith(""))}, pending},
		"request without a token, agent with the import's: granted": {[]mod{nameless, registered(requestWith("import-token-east")), importedBy("cluster-uid")}, granted},

		"the agent has been silent for a year: request waits": {[]mod{another, registered(), func(in *grant.Input) {
			in.Clusters[0].Status.Agent.LastSeen = rulestest.At(-365 * 24 * time.Hour)
		}}, pending},
		"confirmed on the Cluster: granted":   {[]mod{another, registered(), confirmed("request-1")}, granted},
		"another request is confirmed: waits": {[]mod{another, registered(), confirmed("request-2")}, pending},
		"request claims the confirmation itself: waits": {[]mod{with(requestWith("t2"), func(r *fleet.ClusterRegistration) {
			r.Annotations = map[string]string{annotation.ConfirmTakeover: "request-1"}
		}), registered()}, pending},

		"agent has never reported: granted": {[]mod{another, registered(), func(in *grant.Input) {
			in.Clusters[0].Status.Agent.LastSeen = rulestest.At(0)
			in.Clusters[0].Status.Agent = fleet.AgentStatus{}
		}}, granted},
		"grant that was never used: request is granted":                  {[]mod{another, registered(requestNoted(rulestest.At(-time.Minute).Format(time.RFC3339)))}, granted},
		"account replaced, another token: request waits":                 {[]mod{another, askedBy(), registered(requestNoted(rulestest.At(-time.Minute).Format(time.RFC3339)), requestSaid(conditions.ReasonAccountReplaced))}, pending},
		"account replaced, same token: request is granted":               {[]mod{same, asked, registered(requestNoted(rulestest.At(-time.Minute).Format(time.RFC3339)), requestTokenUID("u1"), requestSaid(conditions.ReasonAccountReplaced))}, granted},
		"other registration was not granted: granted":                    {[]mod{another, registered(func(r *fleet.ClusterRegistration) { r.Status.Granted = false })}, granted},
		"other registration is being deleted: granted":                   {[]mod{another, registered(requestGoing)}, granted},
		"other registration of another client: granted":                  {[]mod{another, registered(requestClient("c2"))}, granted},
		"other registration for another Cluster: granted":                {[]mod{another, registered(requestOf("west"))}, granted},
		"other registration for a former Cluster of the name: granted":   {[]mod{another, registered(func(r *fleet.ClusterRegistration) { r.OwnerReferences[0].UID = "old-uid" })}, granted},
		"the registration of the agent is the request itself: granted":   {[]mod{with(requestGranted, requestNoted("")), named(rulestest.ClusterSeen(rulestest.At(-time.Minute))), registered(requestNamed("request-1"))}, granted},
		"registration of Rancher Fleet: waits":                           {[]mod{another, registered(func(r *fleet.ClusterRegistration) { r.Annotations = nil })}, pending},
		"registration of Rancher Fleet, agent has not reported: granted": {[]mod{another, registered(func(r *fleet.ClusterRegistration) { r.Annotations = nil }), func(in *grant.Input) { in.Clusters[0].Status.Agent = fleet.AgentStatus{} }}, granted},

		"token of an earlier granted takeover: granted": {[]mod{another, askedBy(), registered(), others(aRequest(requestNamed("request-2"), requestWith("t2"), requestGranted, requestNoted(""), requestTokenUID("u1")))}, granted},
		"token of a waiting takeover: waits":            {[]mod{another, askedBy(), registered(), others(aRequest(requestNamed("request-2"), requestWith("t2"), requestSaid(conditions.ReasonTakeoverPending)))}, pending},

		"request was granted: stays":                              {[]mod{with(requestWith("t2"), requestGranted), named(rulestest.ClusterSeen(rulestest.At(-time.Minute))), registered()}, granted},
		"credential exists, status is not written: granted":       {[]mod{another, registered(), credential(rulestest.BoundJWT("account-1", time.Time{}))}, granted},
		"rights exist without a credential: waits and is revoked": {[]mod{another, registered(), requestAccount, requestRights}, pending},
		"Cluster has lost its status: waits":                      {[]mod{another, registered(), func(in *grant.Input) { in.Clusters[0].Status.Namespace = "" }}, pending},

		"waits for 40 minutes: deleted":                        {[]mod{another, registered(), later(grant.CredentialLife)}, grant.Abandoned},
		"waited for 40 minutes: deleted":                       {[]mod{with(requestWith("t2"), requestSaid(conditions.ReasonTakeoverPending)), registered(), later(grant.CredentialLife)}, grant.Abandoned},
		"waits for a Cluster that is deleted: deleted":         {[]mod{with(requestWith("t2"), requestOf("east"), requestSaid(conditions.ReasonTakeoverPending))}, grant.Abandoned},
		"waits, registration of the agent is deleted: granted": {[]mod{with(requestWith("t2"), requestOf("east"), requestSaid(conditions.ReasonTakeoverPending)), named(rulestest.ClusterSeen(rulestest.At(-time.Minute)))}, granted},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			in := grantInput(test.given...)
			got := rulestest.Pure(t, grant.Decide, in)
			rulestest.ExpectEqual(t, "stage", got.Stage, test.want)
			checkGrantOutcome(t, in, got)
			if got.Stage != pending {
				return
			}
			want := grant.Outcome{
				Stage: pending, Writes: []grant.Write{grant.Revoke, grant.WriteStatus}, ClusterName: "east", Reason: conditions.ReasonTakeoverPending,
				Ends: rulestest.At(-30 * time.Second).Add(grant.CredentialLife),
			}
			rulestest.ExpectEqual(t, "what is done", got, want, cmpopts.IgnoreFields(grant.Outcome{}, "Message"))
		})
	}
}

// While a request waits, heartbeats come from the other agent. They do not count as a use of the request's credential.
func TestGrantAfterWaiting_RecordsTheHeartbeatAgain(t *testing.T) {
	forged := with(requestWith("t2"), requestNoted("2026-01-01T00:00:00Z"))
	out := rulestest.Pure(t, grant.Decide, grantInput(forged, registered(), confirmed("request-1")))
	rulestest.ExpectEqual(t, "stage", out.Stage, grant.AwaitingRights)
	rulestest.ExpectEqual(t, "noted", out.Own.LastSeen, rulestest.At(-time.Minute).Format(time.RFC3339))
	rulestest.ExpectEqual(t, "superseded", out.Superseded, []string(nil))
}

// A client may create its request with any annotation. The controller records the token that it finds itself.
func TestGrantOwnership_RecordsTheTokenItFound(t *testing.T) {
	forged := requestTokenUID("u9")
	tests := map[string]struct {
		given []func(*grant.Input)
		want  string
	}{
		"new request: the token's UID is recorded":                      {[]func(*grant.Input){with(), asked, found()}, "u1"},
		"request with a forged UID: it is overwritten":                  {[]func(*grant.Input){with(requestNoted(""), forged, requestOwned("east", "cluster-uid")), asked, found()}, "u1"},
		"request with a forged UID and an unknown token: it is removed": {[]func(*grant.Input){with(requestNoted(""), forged, requestOwned("east", "cluster-uid")), found()}, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			out := rulestest.Pure(t, grant.Decide, grantInput(test.given...))
			if out.Own == nil {
				t.Fatal("nothing is written")
			}
			rulestest.ExpectEqual(t, "token UID", out.Own.TokenUID, test.want)
		})
	}
	granted := with(requestGranted, requestNoted(""), requestTokenUID("u1"))
	out := rulestest.Pure(t, grant.Decide, grantInput(granted, named(), requestAccount, requestRights, askedBy(tokenUID("u2"))))
	if out.Own != nil {
		t.Errorf("a granted request is rewritten: %+v", out.Own)
	}
}
