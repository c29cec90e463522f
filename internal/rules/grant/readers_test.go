package grant_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/grant"
	"github.com/fleet-hub/fleet/internal/rules/requests"
	"github.com/fleet-hub/fleet/internal/rules/rulestest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// Only the account of the agent's token may read the credential.
func TestGrantReader(t *testing.T) {
	const creds = "request-1-creds"
	label := func(token string) func(*grant.Input) { return askedWith(token) }
	tests := map[string]struct {
		given []func(*grant.Input)
		want  []string
	}{
		"request names a token: its account":                                 {[]func(*grant.Input){asked}, []string{"t1-u1"}},
		"request names a token, Cluster is imported: its account":            {[]func(*grant.Input){asked, imported}, []string{"t1-u1"}},
		"named token is deleted, Cluster is imported: account of the import": {[]func(*grant.Input){imported}, []string{"import-token-east-i1"}},
		"no token named, Cluster is imported: account of the import":         {[]func(*grant.Input){label(""), imported, tokens("b", "a")}, []string{"import-token-east-i1"}},
		"no token named: accounts of all tokens of the workspace, because only the agent knows the Secret's name": {
			[]func(*grant.Input){label(""), tokens("b", "a")}, []string{"a-uid-of-a", "b-uid-of-b"}},
		"no token named, one is being deleted: not that one": {
			[]func(*grant.Input){label(""), tokens("a", "b"), func(in *grant.Input) { in.Tokens[1].DeletionTimestamp = rulestest.Ptr(rulestest.At(0)) }}, []string{"a-uid-of-a"}},
		"no token named, no tokens: no account": {[]func(*grant.Input){label("")}, nil},
		"named token is deleted: no account":    {[]func(*grant.Input){tokens("a")}, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			in := grantInput(append([]func(*grant.Input){found(), requestAccount, requestRights}, test.given...)...)
			out := rulestest.Pure(t, grant.Decide, in)
			rulestest.ExpectEqual(t, "stage", out.Stage, grant.Minting)
			expectReader(t, out.CredentialAccess, creds, test.want...)
			rulestest.ExpectEqual(t, "that nobody can read it is said", out.Unreadable, false)
			noted := in
			noted.Request = in.Request.DeepCopy()
			noted.Request.Annotations = map[string]string{annotation.LastSeenAtGrant: ""}
			rulestest.ExpectEqual(t, "that nobody can read it is said", rulestest.Pure(t, grant.Decide, noted).Unreadable, len(test.want) == 0)
		})
	}
}

// tokens are all of the workspace.
func tokens(all ...string) func(*grant.Input) {
	return func(in *grant.Input) {
		for _, name := range all {
			in.Tokens = append(in.Tokens, rulestest.AToken(func(t *fleet.ClusterRegistrationToken) { t.Name, t.UID = name, types.UID("uid-of-"+name) }))
		}
	}
}

func expectReader(t *testing.T, reader []runtime.Object, name string, accounts ...string) {
	t.Helper()
	if len(accounts) == 0 {
		rulestest.ExpectEqual(t, "reader", reader, []runtime.Object(nil))
		return
	}
	rulestest.ExpectEqual(t, "reader", rulestest.YAML(t, reader), "- Role cattle-fleet-clusters-system/"+name+"\n- RoleBinding cattle-fleet-clusters-system/"+name+"\n")
	full := rulestest.FullYAML(t, reader)
	if part := "resourceNames:\n    - " + names.CredentialSecret("c1", "random-1") + "\n"; !strings.Contains(full, part) {
		t.Errorf("reader lacks %q:\n%s", part, full)
	}
	var subjects []string
	for _, subject := range reader[1].(*rbacv1.RoleBinding).Subjects {
		rulestest.ExpectEqual(t, "namespace of the account", subject.Namespace, rulestest.Workspace)
		subjects = append(subjects, subject.Name)
	}
	rulestest.ExpectEqual(t, "accounts", subjects, accounts)
}

// tokenFor limits a token to a client ID.
func tokenFor(clientID string) func(*fleet.ClusterRegistrationToken) {
	return func(t *fleet.ClusterRegistrationToken) {
		t.Annotations = map[string]string{annotation.TokenForClientID: clientID}
	}
}

func TestTokenForOneClientID_RejectsOtherClients(t *testing.T) {
	forever := rulestest.BoundJWT("account-1", rulestest.Noon().Add(protocol.TokenLifetime))
	tests := map[string]struct {
		in     grant.Input
		want   grant.Stage
		reason string
	}{
		"its client ID: request is granted": {in: grantInput(found(), requestAccount, requestRights, askedBy(tokenFor("c1"))), want: grant.Minting},
		"another client ID with a Cluster: request is rejected": {
			in: grantInput(found(), requestAccount, requestRights, askedBy(tokenFor("c2"))), want: grant.Rejected, reason: conditions.ReasonClientIDNotAllowed,
		},
		"another client ID without a Cluster: no Cluster is created": {
			in: grantInput(askedBy(tokenFor("c2"))), want: grant.Rejected, reason: conditions.ReasonClientIDNotAllowed,
		},
		"no client ID: request is rejected": {in: grantInput(askedBy(tokenFor(""))), want: grant.Rejected, reason: conditions.ReasonClientIDNotAllowed},
		"rejected a day ago: request is deleted": {
			in: grantInput(askedBy(tokenFor("c2")), later(grant.RejectionLife)), want: grant.Abandoned,
		},
		"granted before: stays granted": {
			in:   grantInput(found(), requestAccount, requestRights, with(requestGranted), named(), askedBy(tokenFor("c2")), credential(forever)),
			want: grant.Done,
		},
		"owned by another client's Cluster: does not take over": {
			in:   grantInput(found(), askedBy(tokenFor("c2"), tokenOfImport), func(in *grant.Input) { in.Importer = rulestest.ACluster() }),
			want: grant.Rejected, reason: conditions.ReasonClientIDNotAllowed,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := rulestest.Pure(t, grant.Decide, test.in)
			rulestest.ExpectEqual(t, "stage", got.Stage, test.want)
			rulestest.ExpectEqual(t, "reason", got.Reason, test.reason)
			checkGrantOutcome(t, test.in, got)
		})
	}
}

// A request that names no token is answered for several tokens.
func TestRequestWithoutToken_IsNotAnsweredForTokensOfOtherClientIDs(t *testing.T) {
	in := grantInput(found(), requestAccount, requestRights, with(requestWith("")), func(in *grant.Input) {
		for client, name := range map[string]string{"": "any", "c1": "own", "c2": "other"} {
			token := rulestest.AToken(func(t *fleet.ClusterRegistrationToken) { t.Name = name })
			if client != "" {
				tokenFor(client)(token)
			}
			in.Tokens = append(in.Tokens, token)
		}
	})
	expectReaders(t, in, "any-u1", "own-u1")
	in.Imported = rulestest.AToken(tokenFor("c2"))
	expectReaders(t, in)
}

// A granted request that was made with a token of its own client ID is not read with a later token of that name.
func TestAnswer_IsNotReadableForATokenOfAnotherClientID(t *testing.T) {
	in := grantInput(found(), requestAccount, requestRights, with(requestGranted), named(), askedBy(tokenFor("c2")),
		credential(rulestest.BoundJWT("account-1", rulestest.Noon().Add(time.Hour))))
	expectReaders(t, in)
}

// expectReaders compares the accounts that may read the answer.
func expectReaders(t *testing.T, in grant.Input, want ...string) {
	t.Helper()
	var got []string
	for _, object := range grant.Decide(in).CredentialAccess {
		if binding, is := object.(*rbacv1.RoleBinding); is {
			for _, subject := range binding.Subjects {
				got = append(got, subject.Name)
			}
		}
	}
	rulestest.ExpectEqual(t, "readers", got, want)
}

func TestRequestRefusedForItsClientID_TakesNoPlace(t *testing.T) {
	if requests.InProgress(aRequest(requestSaid(conditions.ReasonClientIDNotAllowed))) {
		t.Error("it counts as one that is being answered")
	}
}

// shared is what request-1 is named after where it meets those of other workspaces.
const shared = "request-1-d2d84ae27da7"

func TestSharedName(t *testing.T) {
	tests := map[string]struct {
		input grant.Input
		want  string
	}{
		"no other request of the name: unchanged":            {grantInput(), "request-1"},
		"older request: with the workspace":                  {grantInput(requestNamesake("fleet-local", -time.Second)), shared},
		"newer request: unchanged":                           {grantInput(requestNamesake("fleet-local", time.Second)), "request-1"},
		"same second, earlier workspace: with the workspace": {grantInput(requestNamesake("a", 0)), shared},
		"same second, later workspace: unchanged":            {grantInput(requestNamesake("zzz", 0)), "request-1"},
		"several, one is older: with the workspace":          {grantInput(requestNamesake("zzz", time.Hour), requestNamesake("a", -time.Hour), requestNamesake("b", time.Hour)), shared},
		"several, all newer: unchanged":                      {grantInput(requestNamesake("zzz", time.Hour), requestNamesake("b", time.Minute)), "request-1"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := grant.SharedName(test.input); got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}

// TestSharedName_IsUniqueAmongRequests compares three requests of one name with each other.
func TestSharedName_IsUniqueAmongRequests(t *testing.T) {
	workspaces := []string{"one", "two", "three"}
	for _, later := range []time.Duration{0, time.Second} {
		seen := map[string]string{}
		for i, own := range workspaces {
			in := grantInput()
			in.Request.Namespace = own
			for j, other := range workspaces {
				if i != j {
					requestNamesake(other, time.Duration(j-i)*later)(&in)
				}
			}
			name := grant.SharedName(in)
			if before := seen[name]; before != "" {
				t.Errorf("%s after %s: %s and %s both have %q", later, later, before, own, name)
			}
			seen[name] = own
		}
		if seen["request-1"] == "" {
			t.Error("nobody has the name itself")
		}
	}
}

func TestCredentialAccessNames(t *testing.T) {
	want := []string{"request-1-creds", shared + "-creds"}
	if diff := cmp.Diff(want, grant.CredentialAccessNames(rulestest.Workspace, "request-1")); diff != "" {
		t.Errorf("readers (-want +got):\n%s", diff)
	}
	for i, name := range []string{"request-1", shared} {
		if got := grant.CredentialAccessName(name); got != want[i] {
			t.Errorf("%q, want %q", got, want[i])
		}
	}
}
