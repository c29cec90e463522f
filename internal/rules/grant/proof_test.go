package grant_test

import (
	"crypto/rand"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fleet-hub/fleet/internal/identity"
	"github.com/fleet-hub/fleet/internal/rules/grant"
	"github.com/fleet-hub/fleet/internal/rules/rulestest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

func agentKey(t *testing.T) identity.Key {
	t.Helper()
	key, err := identity.NewKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// signedBy signs the request with a key, for the account of this UID. claimed is the key that it claims.
func signedBy(t *testing.T, key, claimed identity.Key, account string) func(*grant.Input) {
	t.Helper()
	return func(in *grant.Input) {
		proof, err := key.Prove(identity.Claims{ClientID: in.Request.Spec.ClientID, ClientRandom: in.Request.Spec.ClientRandom, Account: account})
		if err != nil {
			t.Fatal(err)
		}
		annotate(in, annotation.AgentKey, claimed.Public())
		annotate(in, annotation.AgentProof, proof)
	}
}

func annotate(in *grant.Input, key, value string) {
	if in.Request.Annotations == nil {
		in.Request.Annotations = map[string]string{}
	}
	in.Request.Annotations[key] = value
}

// readBy is the account of the token that reads the answer.
func readBy(account string) func(*grant.Input) {
	return func(in *grant.Input) { in.ReaderAccount = account }
}

// pinned means that the Cluster has the key of its agent.
func pinned(key identity.Key) func(*grant.Input) {
	return func(in *grant.Input) {
		in.Clusters[0].Annotations = map[string]string{annotation.AgentKey: key.Public()}
	}
}

// blocked means that the key of the Cluster's agent was revoked.
func blocked(key identity.Key) func(*grant.Input) {
	return func(in *grant.Input) {
		in.Clusters[0].Annotations = map[string]string{annotation.BlockedKey: key.Public()}
	}
}

// The controller may end between the answer and the status. What the key was blocked for must not be handed out again.
func TestBlockedKey_AnsweredRequestGetsNoOtherCredential(t *testing.T) {
	for name, given := range map[string]func(*grant.Input){
		"granted":                             with(requestGranted, requestNoted("")),
		"answered, the status is not written": with(requestNoted("")),
	} {
		t.Run(name, func(t *testing.T) {
			in := grantInput(given, found(), named(), blocked(agentKey(t)), asked, requestAccount, requestRights, credential(rulestest.BoundJWT("account-0", time.Time{})))
			in.Named.Annotations = in.Clusters[0].Annotations
			if got := rulestest.Pure(t, grant.Decide, in); got.Mint != nil || got.Stage != grant.Done {
				t.Errorf("stage %s, mints %v", got.Stage, got.Mint)
			}
		})
	}
}

func TestGrantTakeover_PinnedKeyDecides(t *testing.T) {
	type mod = func(*grant.Input)
	const pending, granted = grant.TakeoverPending, grant.AwaitingRights
	mine, other := agentKey(t), agentKey(t)
	same, another := with(requestWith("t1")), with(requestWith("t2"))
	agent := registered(requestTokenUID("u1"))
	tests := map[string]struct {
		given []mod
		want  grant.Stage
	}{
		"signed with the pinned key, another token: granted":      {[]mod{another, askedBy(tokenUID("u2")), agent, pinned(mine), signedBy(t, mine, mine, "reader"), readBy("reader")}, granted},
		"signed with the pinned key, same token: granted":         {[]mod{same, asked, agent, pinned(mine), signedBy(t, mine, mine, "reader"), readBy("reader")}, granted},
		"not signed, same token: waits":                           {[]mod{same, asked, agent, pinned(mine)}, pending},
		"signed with another key, same token: waits":              {[]mod{same, asked, agent, pinned(mine), signedBy(t, other, other, "reader"), readBy("reader")}, pending},
		"claims the pinned key, signed with another: waits":       {[]mod{same, asked, agent, pinned(mine), signedBy(t, other, mine, "reader"), readBy("reader")}, pending},
		"signed for the account of another token: waits":          {[]mod{another, askedBy(tokenUID("u2")), agent, pinned(mine), signedBy(t, mine, mine, "reader"), readBy("another reader")}, pending},
		"signed, its token is gone: waits":                        {[]mod{another, agent, pinned(mine), signedBy(t, mine, mine, "reader"), readBy("")}, pending},
		"proof of another request: waits":                         {[]mod{another, askedBy(), agent, pinned(mine), signedBy(t, mine, mine, "reader"), readBy("reader"), func(in *grant.Input) { in.Request.Spec.ClientRandom = "random-2" }}, pending},
		"proof of one megabyte: waits":                            {[]mod{another, askedBy(), agent, pinned(mine), signedBy(t, mine, mine, "reader"), readBy("reader"), func(in *grant.Input) { annotate(in, annotation.AgentProof, strings.Repeat("A", 1<<20)) }}, pending},
		"key without a proof: waits":                              {[]mod{another, askedBy(), agent, pinned(mine), readBy("reader"), func(in *grant.Input) { annotate(in, annotation.AgentKey, mine.Public()) }}, pending},
		"claims that the hub has verified the key: waits":         {[]mod{another, askedBy(), agent, pinned(mine), readBy("reader"), func(in *grant.Input) { annotate(in, annotation.AgentKeyAtGrant, mine.Public()) }}, pending},
		"the agent is silent: waits":                              {[]mod{another, askedBy(), agent, pinned(mine), func(in *grant.Input) { in.Clusters[0].Status.Agent.LastSeen = rulestest.At(-365 * 24 * time.Hour) }}, pending},
		"the agent's registration was deleted: waits":             {[]mod{another, askedBy(), agent, pinned(mine), func(in *grant.Input) { in.Others = nil }}, pending},
		"registration deleted, signed with the key: granted":      {[]mod{another, askedBy(), agent, pinned(mine), signedBy(t, mine, mine, "reader"), readBy("reader"), func(in *grant.Input) { in.Others = nil }}, granted},
		"the status was lost in a restore: waits":                 {[]mod{another, askedBy(), agent, pinned(mine), func(in *grant.Input) { in.Clusters[0].Status.Agent = fleet.AgentStatus{} }}, pending},
		"confirmed: granted":                                      {[]mod{another, askedBy(), agent, pinned(mine), func(in *grant.Input) { in.Clusters[0].Annotations[annotation.ConfirmTakeover] = "request-1" }}, granted},
		"token of the import: granted":                            {[]mod{with(requestWith("import-token-east")), agent, importedBy("cluster-uid"), pinned(mine)}, granted},
		"token of another Cluster's import: waits":                {[]mod{with(requestWith("import-token-east")), agent, importedBy("another-uid"), pinned(mine)}, pending},
		"key is blocked, signed with it, same token: waits":       {[]mod{same, asked, agent, blocked(mine), signedBy(t, mine, mine, "reader"), readBy("reader")}, pending},
		"key is blocked, signed with another, same token: waits":  {[]mod{same, asked, agent, blocked(mine), signedBy(t, other, other, "reader"), readBy("reader")}, pending},
		"key is blocked, not signed, same token: waits":           {[]mod{same, asked, agent, blocked(mine)}, pending},
		"key is blocked, token of the import: waits":              {[]mod{with(requestWith("import-token-east")), agent, importedBy("cluster-uid"), blocked(mine)}, pending},
		"key is blocked, registration deleted: waits":             {[]mod{another, askedBy(), agent, blocked(mine), func(in *grant.Input) { in.Others = nil }}, pending},
		"key is blocked, confirmed: granted":                      {[]mod{another, askedBy(), agent, blocked(mine), func(in *grant.Input) { in.Clusters[0].Annotations[annotation.ConfirmTakeover] = "request-1" }}, granted},
		"another key is pinned after the block: granted":          {[]mod{another, askedBy(), agent, blocked(mine), func(in *grant.Input) { in.Clusters[0].Annotations[annotation.AgentKey] = other.Public() }, signedBy(t, other, other, "reader"), readBy("reader")}, granted},
		"another key is pinned, signed with the blocked one":      {[]mod{another, askedBy(), agent, blocked(mine), func(in *grant.Input) { in.Clusters[0].Annotations[annotation.AgentKey] = other.Public() }, signedBy(t, mine, mine, "reader"), readBy("reader")}, pending},
		"no pinned key, signed with any key, same token: granted": {[]mod{same, asked, agent, signedBy(t, other, other, "reader"), readBy("reader")}, granted},
		"no pinned key, signed with any key, another token":       {[]mod{another, askedBy(tokenUID("u2")), agent, signedBy(t, other, other, "reader"), readBy("reader")}, pending},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			in := grantInput(test.given...)
			got := rulestest.Pure(t, grant.Decide, in)
			rulestest.ExpectEqual(t, "stage", got.Stage, test.want)
			checkGrantOutcome(t, in, got)
		})
	}
}

// A client can create its request with any annotation. Only a key whose proof was verified is recorded.
func TestGrantOwnership_RecordsOnlyVerifiedKeys(t *testing.T) {
	mine, other := agentKey(t), agentKey(t)
	earlier := func(in *grant.Input) { annotate(in, annotation.AgentKeyAtGrant, mine.Public()) }
	forged := func(in *grant.Input) { annotate(in, annotation.AgentKeyAtGrant, other.Public()) }
	for name, test := range map[string]struct {
		given []func(*grant.Input)
		want  string
	}{
		"signed":                   {[]func(*grant.Input){signedBy(t, mine, mine, "reader"), readBy("reader")}, mine.Public()},
		"signed, record is forged": {[]func(*grant.Input){signedBy(t, mine, mine, "reader"), readBy("reader"), forged}, mine.Public()},
		"signed by another key":    {[]func(*grant.Input){signedBy(t, other, mine, "reader"), readBy("reader"), earlier}, ""},
		"record is forged":         {[]func(*grant.Input){readBy("reader"), forged}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			given := append([]func(*grant.Input){with(requestNoted(""), requestOwned("east", "cluster-uid"), requestTokenUID("u1")), asked, found()}, test.given...)
			out := rulestest.Pure(t, grant.Decide, grantInput(given...))
			if out.Own == nil {
				t.Fatal("nothing is written")
			}
			rulestest.ExpectEqual(t, "key", out.Own.Key, test.want)
		})
	}
}

// An agent without a key replaces one with a key after a confirmation. Otherwise the replaced agent would return with its key.
func TestAgentWithoutKey_UnpinsTheKeyOfTheAgentItReplaces(t *testing.T) {
	mine := agentKey(t)
	confirm := func(in *grant.Input) { in.Clusters[0].Annotations[annotation.ConfirmTakeover] = "request-1" }
	ready := []func(*grant.Input){with(requestWith("t2")), askedBy(), registered(), pinned(mine), confirm, requestAccount, requestRights}
	for name, test := range map[string]struct {
		more []func(*grant.Input)
		want bool
	}{
		"not signed":              {nil, true},
		"signed with another key": {[]func(*grant.Input){signedBy(t, agentKey(t), mine, "reader"), readBy("reader")}, true},
		"signed with its own key": {[]func(*grant.Input){signedBy(t, mine, mine, "reader"), readBy("reader")}, false},
		"no key is pinned":        {[]func(*grant.Input){func(in *grant.Input) { delete(in.Clusters[0].Annotations, annotation.AgentKey) }}, false},
	} {
		t.Run(name, func(t *testing.T) {
			out := rulestest.Pure(t, grant.Decide, grantInput(slices.Concat(ready, test.more)...))
			rulestest.ExpectEqual(t, "stage", out.Stage, grant.Minting)
			rulestest.ExpectEqual(t, "unpin", out.Unpin, test.want)
			at := slices.Index(out.Writes, grant.UnpinKey)
			if test.want != (at >= 0) || at > slices.Index(out.Writes, grant.HandOut) {
				t.Errorf("writes %v", out.Writes)
			}
		})
	}
}

// Any holder of a token can name the token of the import in a request, but only the agent that the hub installs can read the
// answer. Until that agent reports, the registered agent keeps its key.
func TestNamedImportToken_KeepsThePinnedKey(t *testing.T) {
	mine := agentKey(t)
	in := grantInput(with(requestWith("import-token-east")), registered(), importedBy("cluster-uid"), pinned(mine), requestAccount, requestRights)
	annotate(&in, annotation.ReplacesKey, "written by the client")
	out := rulestest.Pure(t, grant.Decide, in)
	rulestest.ExpectEqual(t, "stage", out.Stage, grant.Minting)
	rulestest.ExpectEqual(t, "replaced key to record", out.Own.ReplacesKey, mine.Public())
	if out.Unpin || slices.Contains(out.Writes, grant.UnpinKey) {
		t.Errorf("writes %v", out.Writes)
	}
}
