package joining_test

import (
	"strings"
	"testing"
	"time"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/rules/capi/joining"
	"github.com/fleet-hub/fleet/internal/rules/rulestest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

type change = func(*joining.Input)

// input returns Cluster east, which is to join with a manifest and has no token yet.
func input(changes ...change) joining.Input {
	return *rulestest.Build(&joining.Input{
		Now: rulestest.Noon(), Wanted: true, Cluster: rulestest.ACluster(),
		Config: rulestest.HubConfig(), Defaults: rulestest.HubDefaults(), Namespaces: rulestest.HubNamespaces(),
	}, changes)
}

// token is the one that the hub creates, as it is after so long.
func token(age time.Duration, modifiers ...func(*fleet.ClusterRegistrationToken)) change {
	return func(in *joining.Input) {
		made := joining.Decide(input()).CreateToken
		made.UID, made.CreationTimestamp = "j1", rulestest.At(-age)
		in.Token = rulestest.Build(made, modifiers)
	}
}

// values are those of the token.
func values(in *joining.Input) {
	in.Token.Status.SecretName = in.Token.Name
	in.Values = rulestest.ValuesSecret("join-jwt")
}

func reported(in *joining.Input) { rulestest.ClusterSeen(rulestest.At(-time.Second))(in.Cluster) }

func unwanted(in *joining.Input) { in.Wanted = false }

func hubURL(url string) change { return func(in *joining.Input) { in.Config.APIServerURL = url } }

func forClient(id string) func(*fleet.ClusterRegistrationToken) {
	return func(t *fleet.ClusterRegistrationToken) { t.Annotations[annotation.TokenForClientID] = id }
}

func TestJoining(t *testing.T) {
	type want struct {
		stage   joining.Stage
		reason  string
		content joining.Content
		create  bool
		remove  bool
		ttl     time.Duration
		again   time.Duration
	}
	later := joining.Lifetime - joining.Reserve
	tests := map[string]struct {
		in joining.Input
		want
	}{
		"no token: it is created":        {input(), want{stage: joining.NeedsToken, reason: conditions.ReasonAwaitingAgent, create: true}},
		"no URL of the hub: says so":     {input(hubURL("")), want{stage: joining.Blocked, reason: conditions.ReasonHubURLMissing}},
		"an invalid URL: says so":        {input(hubURL("http://hub")), want{stage: joining.Blocked, reason: conditions.ReasonHubURLInvalid}},
		"a name too long for the Secret": {input(func(in *joining.Input) { in.Cluster.Name = strings.Repeat("n", 243) }), want{stage: joining.Blocked, reason: conditions.ReasonSettingsInvalid}},
		"a missing pull Secret: says so": {input(func(in *joining.Input) {
			in.Config.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "pull"}}
		}), want{stage: joining.Blocked, reason: conditions.ReasonPullSecretMissing}},

		"token without values: waits": {input(token(0)), want{stage: joining.AwaitingToken, reason: conditions.ReasonAwaitingAgent, again: later}},
		"token with a problem: says so": {input(token(0, func(t *fleet.ClusterRegistrationToken) {
			t.Status.Conditions = []genericcondition.GenericCondition{{Type: conditions.Ready, Status: corev1.ConditionFalse, Reason: conditions.ReasonNameTaken}}
		})), want{stage: joining.Blocked, reason: conditions.ReasonTokenBlocked, again: later}},
		"token with values: manifest is written": {input(token(0), values), want{stage: joining.Ready, reason: conditions.ReasonAwaitingAgent, content: joining.Agent, again: later}},
		"token being deleted: waits": {input(token(0, func(t *fleet.ClusterRegistrationToken) { t.DeletionTimestamp = &metav1.Time{Time: rulestest.Noon()} }), values),
			want{stage: joining.AwaitingToken, reason: conditions.ReasonAwaitingAgent}},
		"URL removed later: the manifest stays and the token is kept": {input(token(later), values, hubURL("")),
			want{stage: joining.Blocked, reason: conditions.ReasonHubURLMissing, ttl: later + joining.Lifetime, again: later}},

		"token before its reserve: stays": {input(token(later-time.Second), values), want{stage: joining.Ready, reason: conditions.ReasonAwaitingAgent, content: joining.Agent, again: time.Second}},
		"token in its reserve: is prolonged": {input(token(later), values),
			want{stage: joining.Ready, reason: conditions.ReasonAwaitingAgent, content: joining.Agent, ttl: later + joining.Lifetime, again: later}},
		"token prolonged for weeks: is prolonged again": {input(token(500*time.Hour, func(t *fleet.ClusterRegistrationToken) { t.Spec.TTL.Duration = 540 * time.Hour }), values),
			want{stage: joining.Ready, reason: conditions.ReasonAwaitingAgent, content: joining.Agent, ttl: 500*time.Hour + joining.Lifetime, again: later}},
		"token whose end was removed: gets one": {input(token(time.Hour, func(t *fleet.ClusterRegistrationToken) { t.Spec.TTL = nil }), values),
			want{stage: joining.Ready, reason: conditions.ReasonAwaitingAgent, content: joining.Agent, ttl: time.Hour + joining.Lifetime, again: later}},

		"token for another client ID: is deleted": {input(token(0, forClient("c2")), values), want{stage: joining.AwaitingToken, reason: conditions.ReasonAwaitingAgent, remove: true}},
		"token for any client ID: is deleted": {input(token(0, func(t *fleet.ClusterRegistrationToken) { delete(t.Annotations, annotation.TokenForClientID) }), values),
			want{stage: joining.AwaitingToken, reason: conditions.ReasonAwaitingAgent, remove: true}},
		"token of an earlier Cluster: is deleted": {input(token(0, func(t *fleet.ClusterRegistrationToken) { t.OwnerReferences[0].UID = "earlier" }), values),
			want{stage: joining.AwaitingToken, reason: conditions.ReasonAwaitingAgent, remove: true}},
		"token of a user: is left alone": {input(token(0, func(t *fleet.ClusterRegistrationToken) { t.OwnerReferences = nil }), values), want{stage: joining.Blocked, reason: conditions.ReasonNameTaken}},
		"token with the mark of another Cluster: is left alone": {input(token(0, func(t *fleet.ClusterRegistrationToken) { t.Annotations[annotation.TokenForCluster] = "west" }), values),
			want{stage: joining.Blocked, reason: conditions.ReasonNameTaken}},

		"first heartbeat: the token ends and the manifest is emptied": {input(token(0), values, reported), want{stage: joining.Over, content: joining.Nothing, remove: true}},
		"after that: nothing but the Secret":                          {input(reported), want{stage: joining.Over, content: joining.Nothing}},
		"first heartbeat while the hub has no URL":                    {input(token(0), values, reported, hubURL("")), want{stage: joining.Over, content: joining.Nothing, remove: true}},
		"no longer wanted: the token ends":                            {input(token(0), values, unwanted), want{stage: joining.Over, content: joining.NothingIfExists, remove: true}},
		"never wanted: nothing is created":                            {input(unwanted), want{stage: joining.Over, content: joining.NothingIfExists}},
		"never wanted: token of a user is left alone": {input(token(0, func(t *fleet.ClusterRegistrationToken) { t.OwnerReferences = nil }), unwanted),
			want{stage: joining.Over, content: joining.NothingIfExists}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := rulestest.Pure(t, joining.Decide, test.in)
			found := want{stage: got.Stage, reason: got.Reason, content: got.Content, create: got.CreateToken != nil, remove: got.DeleteToken}
			if got.TTL != nil {
				found.ttl = got.TTL.Duration
			}
			if !got.Again.IsZero() {
				found.again = got.Again.Sub(test.in.Now)
			}
			if found != test.want {
				t.Errorf("got  %+v\nwant %+v", found, test.want)
			}
			checkOutcome(t, got)
		})
	}
}

// checkOutcome holds for every Cluster.
func checkOutcome(t *testing.T, out joining.Outcome) {
	t.Helper()
	if (out.Content != joining.Unchanged) != (out.Deploy != nil) {
		t.Error("a manifest is written from the agent's settings, and nothing else is")
	}
	if out.Deploy != nil && (out.Deploy.Values.Bootstrap.Token != "") != (out.Content == joining.Agent) {
		t.Errorf("content %s and the bearer token do not fit", out.Content)
	}
	if (out.Stage == joining.Over) != (out.Reason == "") || (out.Reason == "") != (out.Message == "") {
		t.Errorf("stage %s, reason %q, message %q", out.Stage, out.Reason, out.Message)
	}
	if strings.Contains(out.Message, "join-jwt") {
		t.Error("the message contains the bearer token")
	}
}

func TestNewToken_IsForOneClientIDAndEndsWithItsCluster(t *testing.T) {
	made := joining.Decide(input()).CreateToken
	rulestest.ExpectEqual(t, "client ID", made.Annotations[annotation.TokenForClientID], rulestest.ACluster().Spec.ClientID)
	rulestest.ExpectEqual(t, "owner", made.OwnerReferences, []metav1.OwnerReference{{APIVersion: "fleet.cattle.io/v1alpha1", Kind: "Cluster", Name: "east", UID: "cluster-uid"}})
	rulestest.ExpectEqual(t, "TTL", made.Spec.TTL.Duration, joining.Lifetime)
	rulestest.ExpectEqual(t, "Cluster", joining.ClusterOfToken(made), "east")
	made.Name = "t1"
	rulestest.ExpectEqual(t, "Cluster of another name", joining.ClusterOfToken(made), "")
}

func TestManifest_HasTheTokenAndTheClientID(t *testing.T) {
	in := input(token(0), values)
	deploy := joining.Decide(in).Deploy
	rulestest.ExpectEqual(t, "token", deploy.Values.Bootstrap.Token, "join-jwt")
	rulestest.ExpectEqual(t, "token name", deploy.Values.Bootstrap.TokenName, joining.TokenName("east"))
	rulestest.ExpectEqual(t, "URL", deploy.Values.Bootstrap.APIServerURL, rulestest.HubURL)
	rulestest.ExpectEqual(t, "CA", string(deploy.Values.Bootstrap.APIServerCA), rulestest.HubCA)
	rulestest.ExpectEqual(t, "client ID", deploy.Values.Config.ClientID, in.Cluster.Spec.ClientID)
}
