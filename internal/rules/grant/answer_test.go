package grant_test

import (
	"testing"
	"time"

	"github.com/fleet-hub/fleet/internal/rules/grant"
	"github.com/fleet-hub/fleet/internal/rules/rulestest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// A copy could make the answer readable for another token.
func TestCopyOfARequest_IsRejected(t *testing.T) {
	type modify = func(*fleet.ClusterRegistration)
	other, older, younger := requestNamed("request-0"), requestMadeAt(rulestest.At(-time.Hour)), requestMadeAt(rulestest.At(-time.Second))
	version := func(version string) modify { return func(r *fleet.ClusterRegistration) { r.ResourceVersion = version } }
	mine := func(in *grant.Input) { in.Request.ResourceVersion = "20" }
	tests := map[string]struct {
		other []modify
		given func(*grant.Input)
		want  grant.Stage
	}{
		"the older one was granted":                        {[]modify{other, older, requestGranted}, begun(), grant.Rejected},
		"the younger one was granted":                      {[]modify{other, younger, requestGranted}, begun(), grant.Rejected},
		"the older one is not answered yet":                {[]modify{other, older}, begun(), grant.Rejected},
		"the younger one is not answered yet":              {[]modify{other, younger}, begun(), grant.Minting},
		"the older one is of another workspace":            {[]modify{other, older, requestIn("other")}, begun(), grant.Rejected},
		"the older one divides the two values differently": {[]modify{other, older, requestClient("c")}, begun(), grant.Rejected},
		"the older one was answered by Rancher Fleet":      {[]modify{other, older, requestGranted}, ofRancher, grant.Rejected},
		"it was answered by Rancher Fleet itself":          {[]modify{other, younger}, ofRancher, grant.Minting},
		"the older one is being deleted":                   {[]modify{other, older, requestGranted, requestGoing}, begun(), grant.Minting},
		"both of the same second, the first":               {[]modify{other, version("21")}, mine, grant.Minting},
		"both of the same second, the second":              {[]modify{other, version("19")}, mine, grant.Rejected},
		"the first one was written since its creation":     {[]modify{other, version("22")}, both(mine, begun("request-0-uid")), grant.Rejected},
		"the other one is first, but this one is begun":    {[]modify{other, version("19")}, both(mine, begun("r1")), grant.Minting},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			in := grantInput(found(), asked, requestAccount, requestRights, sameAnswer(aRequest(test.other...)), test.given)
			out := rulestest.Pure(t, grant.Decide, in)
			if out.Stage != test.want {
				t.Errorf("stage %s, want %s (%s)", out.Stage, test.want, out.Message)
			}
			if out.Stage == grant.Rejected && (len(out.CredentialAccess) > 0 || out.Reason != conditions.ReasonCredentialTaken) {
				t.Errorf("reader %v, reason %s", out.CredentialAccess, out.Reason)
			}
		})
	}
}

// ofRancher means that Rancher Fleet has created the credential Secret, which does not name its request.
func ofRancher(in *grant.Input) {
	credential(rulestest.BoundJWT("account-2", time.Time{}))(in)
	in.Credential.Annotations = nil
}

func requestIn(workspace string) func(*fleet.ClusterRegistration) {
	return func(r *fleet.ClusterRegistration) { r.Namespace = workspace }
}

func both(one, other func(*grant.Input)) func(*grant.Input) {
	return func(in *grant.Input) { one(in); other(in) }
}

func TestAnswersEarlier(t *testing.T) {
	earlier := func(in *grant.Input) { in.Request.UID = "another-uid" }
	answer := credential(rulestest.BoundJWT("account-1", time.Time{}))
	tests := map[string]struct {
		given []func(*grant.Input)
		want  bool
	}{
		"no Secret":                                  {nil, false},
		"its own answer":                             {[]func(*grant.Input){answer}, false},
		"answer to an earlier request":               {[]func(*grant.Input){answer, earlier}, true},
		"answer by an earlier release, without UID":  {[]func(*grant.Input){answer, earlier, func(in *grant.Input) { delete(in.Credential.Labels, fleet.LabelAnswers) }}, false},
		"answer to a request with another name":      {[]func(*grant.Input){answer, earlier, answering("request-0", rulestest.Workspace)}, false},
		"answer to a request in another workspace":   {[]func(*grant.Input){answer, earlier, answering("request-1", "other")}, false},
		"answer by Rancher Fleet, without a request": {[]func(*grant.Input){ofRancher, earlier}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			in := grantInput(test.given...)
			rulestest.ExpectEqual(t, "answers an earlier one", grant.AnswersEarlier(in.Credential, in.Request), test.want)
		})
	}
}
