package importing_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/rules/importing"
	"github.com/fleet-hub/fleet/internal/rules/rulestest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

// grantedWithImportToken returns the registration of east that was granted with its import token, an hour ago.
func grantedWithImportToken(changes ...func(*fleet.ClusterRegistration)) *fleet.ClusterRegistration {
	request := &fleet.ClusterRegistration{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: rulestest.Workspace, Name: "request-1", Labels: map[string]string{fleet.LabelRegistrationToken: "import-token-east"},
			Annotations: map[string]string{annotation.TokenUIDAtGrant: "i1", annotation.LastSeenAtGrant: ""},
		},
		Status: fleet.ClusterRegistrationStatus{Granted: true, ClusterName: "east"},
	}
	return rulestest.Build(request, changes)
}

func TestMayHaveUsedToken(t *testing.T) {
	reported := carriedOut(seenIn(""))
	going := rulestest.At(0)
	tests := map[string]struct {
		in      importing.Input
		request *fleet.ClusterRegistration
		want    bool
	}{
		"agent has reported since the grant": {reported, grantedWithImportToken(), true},
		"agent has never reported":           {carriedOut(), grantedWithImportToken(), false},
		"agent has not reported since the grant": {reported, grantedWithImportToken(func(r *fleet.ClusterRegistration) {
			r.Annotations[annotation.LastSeenAtGrant] = rulestest.At(-time.Minute).UTC().Format(time.RFC3339)
		}), false},
		"agent is silent":                   {carriedOut(seenIn(""), func(in *importing.Input) { in.Stale = true }), grantedWithImportToken(), false},
		"agent of Rancher Fleet":            {carriedOut(seenIn(""), inherited), grantedWithImportToken(), false},
		"Rancher Fleet granted the request": {reported, grantedWithImportToken(func(r *fleet.ClusterRegistration) { r.Annotations = nil }), false},
		"request of an earlier token":       {reported, grantedWithImportToken(func(r *fleet.ClusterRegistration) { r.Annotations[annotation.TokenUIDAtGrant] = "i0" }), false},
		"request of another token":          {reported, grantedWithImportToken(func(r *fleet.ClusterRegistration) { r.Labels[fleet.LabelRegistrationToken] = "shared" }), false},
		"request for another Cluster":       {reported, grantedWithImportToken(func(r *fleet.ClusterRegistration) { r.Status.ClusterName = "west" }), false},
		"request is not granted":            {reported, grantedWithImportToken(func(r *fleet.ClusterRegistration) { r.Status.Granted = false }), false},
		"request is being deleted":          {reported, grantedWithImportToken(func(r *fleet.ClusterRegistration) { r.DeletionTimestamp = &going }), false},
		"token is gone":                     {carriedOut(seenIn(""), func(in *importing.Input) { in.Token = nil }), grantedWithImportToken(), false},
		"token is being deleted":            {carriedOut(seenIn(""), tokenChange(func(t *fleet.ClusterRegistrationToken) { t.DeletionTimestamp = &going })), grantedWithImportToken(), false},
		"token was created by hand":         {carriedOut(seenIn(""), tokenChange(func(t *fleet.ClusterRegistrationToken) { t.OwnerReferences = nil })), grantedWithImportToken(), false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := importing.MayHaveUsedToken(test.in, []*fleet.ClusterRegistration{test.request})
			rulestest.ExpectEqual(t, "used", got != nil, test.want)
		})
	}
}

func TestUsedImportToken_IsEndedWhenTheAgentIsInSync(t *testing.T) {
	used := func(in *importing.Input) { in.TokenUsed = true }
	tests := map[string]struct {
		in   importing.Input
		want bool
	}{
		"agent is in sync":                 {carriedOut(seenIn(""), used), true},
		"token was not used":               {carriedOut(seenIn("")), false},
		"agent is silent":                  {carriedOut(seenIn(""), used, func(in *importing.Input) { in.Stale = true }), false},
		"token is gone":                    {carriedOut(seenIn(""), used, func(in *importing.Input) { in.Token = nil }), false},
		"agent is to register again":       {carriedOut(seenIn(""), used, spec(func(s *fleet.ClusterSpec) { s.RedeployAgentGeneration++ })), false},
		"hub has another address":          {carriedOut(seenIn(""), used, conf(func(c *config.Config) { c.APIServerURL = "https://new.example" })), false},
		"token of an earlier Cluster":      {carriedOut(seenIn(""), used, cluster(rulestest.ClusterUID("another-uid"))), false},
		"token was created by hand":        {carriedOut(seenIn(""), used, tokenChange(func(t *fleet.ClusterRegistrationToken) { t.OwnerReferences = nil })), false},
		"Cluster without a kubeconfig":     {carriedOut(seenIn(""), used, spec(func(s *fleet.ClusterSpec) { s.KubeConfigSecret = "" })), false},
		"Cluster that another hub manages": {carriedOut(seenIn(""), used, cluster(func(c *fleet.Cluster) { c.Labels = map[string]string{fleet.LabelClusterManagement: "rancher"} })), false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			rulestest.ExpectEqual(t, "token is ended", rulestest.Pure(t, importing.Decide, test.in).EndToken, test.want)
		})
	}
}
