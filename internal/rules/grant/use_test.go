package grant_test

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/rules/grant"
	"github.com/fleet-hub/fleet/internal/rules/rulestest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

func TestFirstUse_RetiresTheCredential(t *testing.T) {
	type mod = func(*grant.Input)
	first, earlier, heard := rulestest.At(-time.Minute), rulestest.At(-time.Hour), rulestest.At(-time.Second)
	forever := credential(rulestest.BoundJWT("account-1", rulestest.Noon().Add(protocol.TokenLifetime)))
	noted := func(before string) mod { return with(requestGranted, requestNoted(before)) }
	seen := func(at func(*fleet.Cluster)) mod { return named(at) }
	answered := func(more ...mod) grant.Input {
		return grantInput(append([]mod{asked, requestAccount, requestRights, noted(""), forever, seen(rulestest.ClusterSeen(first))}, more...)...)
	}
	again := noted(earlier.UTC().Format(time.RFC3339))
	expired := noted(earlier.UTC().Format(time.RFC3339) + " " + earlier.UTC().Format(time.RFC3339)) // of another credential
	sameSecond := func(c *fleet.Cluster) {
		rulestest.ClusterSeen(earlier)(c)
		rulestest.ClusterCredentialExpires(first)(c)
	}
	by := func(account string) mod { return func(in *grant.Input) { in.HeartbeatAccount = account } }
	known := func(account string) mod { return func(in *grant.Input) { in.UsedBy = account } }
	askedEarlier := func(in *grant.Input) { in.HeartbeatAsked = earlier.UTC().Format(time.RFC3339) }
	askedAbout := func(in *grant.Input) { in.HeartbeatAsked = first.UTC().Format(time.RFC3339) }
	noCredential := func(in *grant.Input) { in.Credential = nil }
	another := others(aRequest(requestNamed("request-0"), requestGranted))
	tests := map[string]struct {
		in grant.Input
		// needs means that the rule needs the account of the heartbeat.
		needs bool
		stage grant.Stage
		// write is what ends the answer, or "".
		write  grant.Write
		reader bool
	}{
		"first heartbeat of the only agent: retired":              {answered(), false, grant.Done, grant.RetireCredential, false},
		"its own request does not count as another one":           {answered(others(aRequest(requestGranted))), false, grant.Done, grant.RetireCredential, false},
		"no heartbeat yet: kept":                                  {answered(seen(rulestest.ClusterWithoutNamespace), named()), false, grant.Done, "", true},
		"heartbeat of the account of this request: retired":       {answered(again, by("account-1")), false, grant.Done, grant.RetireCredential, false},
		"heartbeat of another account: kept":                      {answered(again, by("account-0")), true, grant.Done, "", true},
		"Cluster with an earlier heartbeat: account needed":       {answered(again), true, grant.Done, "", true},
		"Cluster with another request: account needed":            {answered(another), true, grant.Done, "", true},
		"heartbeat that was read already: kept, not read again":   {answered(again, askedAbout), false, grant.Done, "", true},
		"newer heartbeat than the one that was read: read":        {answered(again, askedAbout, seen(rulestest.ClusterSeen(heard))), true, grant.Done, "", true},
		"same second, another credential: account needed":         {answered(expired, seen(sameSecond)), true, grant.Done, "", true},
		"same second, this account's credential: retired":         {answered(expired, seen(sameSecond), by("account-1")), false, grant.Done, grant.RetireCredential, false},
		"same second, the other account's credential: kept":       {answered(expired, seen(sameSecond), by("account-0")), true, grant.Done, "", true},
		"same second, read already: read again for another one":   {answered(expired, seen(sameSecond), askedEarlier), true, grant.Done, "", true},
		"same second, recorded by an earlier release: kept":       {answered(noted(earlier.UTC().Format(time.RFC3339)), seen(sameSecond)), false, grant.Done, "", true},
		"known use: retired whatever reports since":               {answered(again, known("account-1"), by("account-0")), false, grant.Done, grant.RetireCredential, false},
		"known use of a replaced account: kept":                   {answered(known("account-0")), true, grant.Done, "", true},
		"heartbeat of an agent of unknown grant: kept":            {answered(with(requestGranted)), false, grant.Done, "", true},
		"used and deleted: not handed out again":                  {answered(noCredential, known("account-1")), false, grant.Done, grant.RemoveCredentialAccess, false},
		"used and deleted, reader gone: nothing is left to do":    {answered(noCredential, known("account-1"), func(in *grant.Input) { in.AccessExists = false }), false, grant.Done, "", false},
		"used and deleted, use forgotten: account needed":         {answered(again, noCredential), true, grant.Minting, "", true},
		"deleted by someone, not used: handed out again":          {answered(again, noCredential, by("account-0")), true, grant.Minting, "", true},
		"used and deleted, of the only agent: known without read": {answered(noCredential), false, grant.Done, grant.RemoveCredentialAccess, false},
		"older than its life: left to the expiry": {answered(func(in *grant.Input) {
			in.Credential.CreationTimestamp = rulestest.At(-grant.CredentialLife)
		}), false, grant.Done, "", false},
		"answer to another request: left alone": {answered(answering("another", rulestest.Workspace)), false, grant.Done, "", false},
		"answer of Rancher Fleet: left alone":   {answered(func(in *grant.Input) { in.Credential.Annotations = nil }), false, grant.Done, "", false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := grant.NeedsHeartbeatAccount(test.in); got != test.needs {
				t.Errorf("needs the heartbeat's account: %t", got)
			}
			out := rulestest.Pure(t, grant.Decide, test.in)
			ends := slices.DeleteFunc(slices.Clone(out.Writes), func(w grant.Write) bool { return w != grant.RetireCredential && w != grant.RemoveCredentialAccess })
			var want []grant.Write
			if test.write != "" {
				want = []grant.Write{test.write}
			}
			if out.Stage != test.stage || !slices.Equal(ends, want) || len(out.CredentialAccess) > 0 != test.reader {
				t.Errorf("stage %s, ends with %v, reader %v", out.Stage, ends, out.CredentialAccess)
			}
		})
	}
}

// While two agents with one client ID alternate, a request whose credential was used is not abandoned.
func TestUsedCredential_OtherAgentReports_RequestStays(t *testing.T) {
	in := grantInput(asked, requestAccount, requestRights, with(requestGranted, requestNoted("")), named(rulestest.ClusterSeen(rulestest.At(-time.Minute))),
		others(aRequest(requestNamed("request-0"), requestGranted, requestMadeAt(rulestest.At(-time.Hour)))))
	in.UsedBy, in.HeartbeatAccount = "account-1", "account-0"
	if out := grant.Decide(in); out.Stage != grant.Done || len(out.Superseded) > 0 {
		t.Errorf("stage %s, superseded %v", out.Stage, out.Superseded)
	}
}

// granted and used since: request-1 has this key, and the Cluster's last heartbeat came from this account.
func joining(key, heartbeatAccount string, more ...func(*grant.Input)) grant.Input {
	used := func(in *grant.Input) {
		annotate(in, annotation.AgentKeyAtGrant, key)
		in.HeartbeatAccount = heartbeatAccount
		in.Named = rulestest.ACluster(rulestest.ClusterSeen(rulestest.At(0)))
		in.Clusters = []*fleet.Cluster{in.Named}
	}
	given := []func(*grant.Input){with(requestGranted, requestNoted(""), requestTokenUID("u1")), requestAccount, requestRights, asked, credential(rulestest.BoundJWT("account-1", time.Time{})), used}
	return grantInput(append(given, more...)...)
}

func TestFirstUse_PinsTheKeyOfItsAccount(t *testing.T) {
	mine := agentKey(t).Public()
	want := &grant.Join{Key: mine, TokenUID: "u1"}
	recorded := func(key, token string) func(*grant.Input) {
		return func(in *grant.Input) {
			in.Named.Annotations = map[string]string{annotation.AgentKey: key}
			in.Named.Labels = map[string]string{fleet.LabelTokenUID: token}
		}
	}
	reported := func(key, token string) func(*grant.Input) {
		return func(in *grant.Input) {
			in.ReportedKey = key
			in.Named.Labels = map[string]string{fleet.LabelTokenUID: token}
		}
	}
	notedBefore := func(in *grant.Input) {
		annotate(in, annotation.LastSeenAtGrant, rulestest.At(-time.Hour).UTC().Format(time.RFC3339))
	}
	others := func(name string) func(*grant.Input) {
		return func(in *grant.Input) {
			in.Others = append(in.Others, &fleet.ClusterRegistration{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}})
		}
	}
	for name, test := range map[string]struct {
		in    grant.Input
		needs bool
		want  *grant.Join
	}{
		"heartbeat of its account: pinned":                 {joining(mine, "account-1"), true, want},
		"heartbeat of another account: not pinned":         {joining(mine, "account-0"), true, nil},
		"heartbeat of an unknown account: not pinned":      {joining(mine, ""), true, nil},
		"not used yet: not pinned":                         {joining(mine, "account-1", func(in *grant.Input) { in.Named.Status.Agent = fleet.AgentStatus{} }), false, nil},
		"account is gone: not pinned":                      {joining(mine, "account-1", func(in *grant.Input) { in.Account = nil }), false, nil},
		"another key is pinned: replaced":                  {joining(mine, "account-1", recorded("another", "u1")), true, want},
		"recorded already: nothing is written":             {joining(mine, "account-1", recorded(mine, "u1")), false, nil},
		"joined with another token: the token is recorded": {joining(mine, "account-1", recorded(mine, "u0")), true, want},
		"its key is blocked: not pinned": {joining(mine, "account-1", func(in *grant.Input) {
			in.Named.Annotations = map[string]string{annotation.BlockedKey: mine}
		}), false, nil},
		"another key is blocked: pinned": {joining(mine, "account-1", func(in *grant.Input) {
			in.Named.Annotations = map[string]string{annotation.BlockedKey: "another"}
		}), true, want},
		"reported by a new agent: pinned anyway":               {joining(mine, "", reported(mine, "u1")), false, nil},
		"another key was reported: pinned":                     {joining(mine, "account-1", reported("another", "u1")), true, want},
		"reported, joined with another token: pinned":          {joining(mine, "account-1", reported(mine, "u0")), true, want},
		"reported, there is another request: pinned":           {joining(mine, "account-1", reported(mine, "u1"), others("request-0")), true, want},
		"reported, an agent reported before it: pinned":        {joining(mine, "account-1", reported(mine, "u1"), notedBefore), true, want},
		"agent without a key: nothing is written":              {joining("", "account-1"), false, nil},
		"agent without a key, another is pinned: stays pinned": {joining("", "account-1", recorded("another", "u0")), false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			out := rulestest.Pure(t, grant.Decide, test.in)
			rulestest.ExpectEqual(t, "join", out.Join, test.want)
			rulestest.ExpectEqual(t, "written", slices.Contains(out.Writes, grant.RecordJoin), test.want != nil)
			rulestest.ExpectEqual(t, "needs the account of the heartbeat", grant.NeedsHeartbeatAccount(test.in), test.needs)
		})
	}
}

// The key of the replaced agent is removed when the agent without a key reports. A key that this agent reports later stays.
func TestFirstUseWithoutAKey_UnpinsTheReplacedKey(t *testing.T) {
	replaces := func(recorded, pinned string) func(*grant.Input) {
		return func(in *grant.Input) {
			annotate(in, annotation.ReplacesKey, recorded)
			in.Named.Annotations = map[string]string{annotation.AgentKey: pinned}
		}
	}
	for name, test := range map[string]struct {
		in          grant.Input
		needs, want bool
	}{
		"heartbeat of its account: unpinned":      {joining("", "account-1", replaces("k1", "k1")), true, true},
		"heartbeat of another account: stays":     {joining("", "account-0", replaces("k1", "k1")), true, false},
		"heartbeat of an unknown account: stays":  {joining("", "", replaces("k1", "k1")), true, false},
		"not used yet: stays":                     {joining("", "account-1", replaces("k1", "k1"), func(in *grant.Input) { in.Named.Status.Agent = fleet.AgentStatus{} }), false, false},
		"account is gone: stays":                  {joining("", "account-1", replaces("k1", "k1"), func(in *grant.Input) { in.Account = nil }), false, false},
		"another key was pinned since: stays":     {joining("", "account-1", replaces("k1", "k2")), false, false},
		"replaced no agent with a key: stays":     {joining("", "account-1", replaces("", "k1")), false, false},
		"unpinned already: nothing is left to do": {joining("", "account-1", replaces("k1", "")), false, false},
	} {
		t.Run(name, func(t *testing.T) {
			out := rulestest.Pure(t, grant.Decide, test.in)
			rulestest.ExpectEqual(t, "unpin", out.Unpin, test.want)
			rulestest.ExpectEqual(t, "written", slices.Contains(out.Writes, grant.UnpinKey), test.want)
			rulestest.ExpectEqual(t, "needs the account of the heartbeat", grant.NeedsHeartbeatAccount(test.in), test.needs)
		})
	}
}
