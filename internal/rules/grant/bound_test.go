package grant_test

import (
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/rules/grant"
	"github.com/fleet-hub/fleet/internal/rules/requests"
	"github.com/fleet-hub/fleet/internal/rules/rulestest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// tokenFor limits a token to a client ID.
func tokenFor(clientID string) func(*fleet.ClusterRegistrationToken) {
	return func(t *fleet.ClusterRegistrationToken) {
		t.Annotations = map[string]string{fleet.AnnotationTokenForClientID: clientID}
	}
}

func TestTokenForOneClientID(t *testing.T) {
	forever := rulestest.BoundJWT("account-1", rulestest.Noon().Add(protocol.TokenLifetime))
	tests := map[string]struct {
		in     grant.Input
		want   grant.Stage
		reason string
	}{
		"its client ID: request is granted": {in: grantInput(found(), requestAccount, requestRights, askedBy(tokenFor("c1"))), want: grant.Minting},
		"another client ID with a Cluster: request is rejected": {
			in: grantInput(found(), requestAccount, requestRights, askedBy(tokenFor("c2"))), want: grant.Rejected, reason: fleet.ReasonClientIDNotAllowed,
		},
		"another client ID without a Cluster: no Cluster is created": {
			in: grantInput(askedBy(tokenFor("c2"))), want: grant.Rejected, reason: fleet.ReasonClientIDNotAllowed,
		},
		"no client ID: request is rejected": {in: grantInput(askedBy(tokenFor(""))), want: grant.Rejected, reason: fleet.ReasonClientIDNotAllowed},
		"rejected a day ago: request is deleted": {
			in: grantInput(askedBy(tokenFor("c2")), later(grant.RejectionLife)), want: grant.Abandoned,
		},
		"granted before: stays granted": {
			in:   grantInput(found(), requestAccount, requestRights, with(requestGranted), named(), askedBy(tokenFor("c2")), credential(forever)),
			want: grant.Done,
		},
		"owned by another client's Cluster: does not take over": {
			in:   grantInput(found(), askedBy(tokenFor("c2"), tokenOfImport), func(in *grant.Input) { in.Importer = rulestest.ACluster() }),
			want: grant.Rejected, reason: fleet.ReasonClientIDNotAllowed,
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
	for _, object := range grant.Decide(in).Reader {
		if binding, is := object.(*rbacv1.RoleBinding); is {
			for _, subject := range binding.Subjects {
				got = append(got, subject.Name)
			}
		}
	}
	rulestest.ExpectEqual(t, "readers", got, want)
}

func TestRequestRefusedForItsClientID_TakesNoPlace(t *testing.T) {
	if requests.InProgress(aRequest(requestSaid(fleet.ReasonClientIDNotAllowed))) {
		t.Error("it counts as one that is being answered")
	}
}
