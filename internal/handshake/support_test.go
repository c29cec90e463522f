package handshake_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/dump"

	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/handshake"
	"github.com/fleet-hub/fleet/internal/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

const (
	workspace = "fleet-default"
	hubURL    = "https://hub.example:6443"
	hubCA     = "-----BEGIN CERTIFICATE-----\nhub\n-----END CERTIFICATE-----\n"
)

// noon is the time of every table.
func noon() time.Time { return time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC) }

func at(d time.Duration) metav1.Time { return metav1.Time{Time: noon().Add(d)} }

func hubNamespaces() handshake.Namespaces {
	return handshake.Namespaces{System: names.SystemNamespace, Registration: names.RegistrationNamespace(names.SystemNamespace)}
}

// pure asks a rule twice: it must not write to its input, and must answer the same.
func pure[In, Out any](t *testing.T, rule func(In) Out, in In) Out {
	t.Helper()
	before := dump.ForHash(in)
	out := rule(in)
	first := dump.ForHash(out)
	again := dump.ForHash(rule(in))
	if diff := cmp.Diff(before, dump.ForHash(in)); diff != "" {
		t.Errorf("the rule wrote to its input (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(first, again); diff != "" {
		t.Errorf("the same input gave another answer (-first +second):\n%s", diff)
	}
	return out
}

func expectEqual(t *testing.T, what string, got, want any, options ...cmp.Option) {
	t.Helper()
	if diff := cmp.Diff(want, got, options...); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// build is v after the modifiers.
func build[T any](v *T, modifiers []func(*T)) *T {
	for _, modify := range modifiers {
		modify(v)
	}
	return v
}

// boundJWT is a token as the TokenRequest API gives it, but for the signature. A zero time never expires.
func boundJWT(accountUID string, expires time.Time) string {
	claims := map[string]any{
		"iss": "https://kubernetes.default.svc",
		"kubernetes.io": map[string]any{
			"namespace":      workspace,
			"serviceaccount": map[string]any{"name": "account", "uid": accountUID},
		},
	}
	if !expires.IsZero() {
		claims["exp"] = expires.Unix()
	}
	return jwt(claims)
}

// secretJWT is a token as it is in a token Secret.
func secretJWT(accountUID string) string {
	return jwt(map[string]any{
		"iss":                                    "kubernetes/serviceaccount",
		"kubernetes.io/serviceaccount/namespace": workspace,
		"kubernetes.io/serviceaccount/service-account.name": "account",
		"kubernetes.io/serviceaccount/service-account.uid":  accountUID,
	})
}

func jwt(claims any) string {
	payload, err := json.Marshal(claims)
	if err != nil {
		panic(fmt.Sprintf("claims of a test: %v", err))
	}
	part := base64.RawURLEncoding.EncodeToString
	return part([]byte(`{"alg":"RS256"}`)) + "." + part(payload) + "." + part([]byte("signature"))
}

func anAccount(namespace, name, uid string) *corev1.ServiceAccount {
	return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(uid)}}
}

// aToken is ClusterRegistrationToken t1, made a minute ago, without an end.
func aToken(modifiers ...func(*fleet.ClusterRegistrationToken)) *fleet.ClusterRegistrationToken {
	return build(&fleet.ClusterRegistrationToken{
		ObjectMeta: metav1.ObjectMeta{Namespace: workspace, Name: "t1", UID: "u1", CreationTimestamp: at(-time.Minute)},
	}, modifiers)
}

func withTTL(ttl time.Duration) func(*fleet.ClusterRegistrationToken) {
	return func(t *fleet.ClusterRegistrationToken) { t.Spec.TTL = &metav1.Duration{Duration: ttl} }
}

// aCluster is Cluster east with client ID c1 and its namespace, made an hour ago.
func aCluster(modifiers ...func(*fleet.Cluster)) *fleet.Cluster {
	return build(&fleet.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: workspace, Name: "east", UID: "cluster-uid", CreationTimestamp: at(-time.Hour)},
		Spec:       fleet.ClusterSpec{ClientID: "c1"},
		Status:     fleet.ClusterStatus{Namespace: names.ClusterNamespace(workspace, "east")},
	}, modifiers)
}

func clusterNamed(name string) func(*fleet.Cluster) {
	return func(c *fleet.Cluster) { c.Name, c.UID = name, types.UID(name+"-uid") }
}

func clusterMadeAt(t metav1.Time) func(*fleet.Cluster) {
	return func(c *fleet.Cluster) { c.CreationTimestamp = t }
}

func clusterClient(clientID string) func(*fleet.Cluster) {
	return func(c *fleet.Cluster) { c.Spec.ClientID = clientID }
}

func clusterUID(uid types.UID) func(*fleet.Cluster) { return func(c *fleet.Cluster) { c.UID = uid } }

func clusterSeen(t metav1.Time) func(*fleet.Cluster) {
	return func(c *fleet.Cluster) { c.Status.Agent.LastSeen = t }
}

func clusterWithoutNamespace(c *fleet.Cluster) { c.Status.Namespace = "" }

func clusterGoing(c *fleet.Cluster) {
	going := at(-time.Second)
	c.DeletionTimestamp = &going
}

func ptr[T any](v T) *T { return &v }

// valuesSecret is what was written for the token t1 with this bearer token.
func valuesSecret(bearer string) *corev1.Secret {
	secret, err := handshake.ValuesSecret(aToken(), handshake.Values{Token: bearer, TokenName: "t1"})
	if err != nil {
		panic(err)
	}
	return secret
}

// note writes what an import has done into the status.
func note(status *fleet.ClusterStatus, out handshake.ImportOutcome) {
	done := out.Done
	status.AgentDeployedGeneration, status.AgentConfigChanged = done.AgentDeployedGeneration, false
	status.AgentMigrated, status.CattleNamespaceMigrated, status.AgentNamespaceMigrated = done.Migrated, done.Migrated, done.Migrated
	status.APIServerURL, status.APIServerCAHash = done.APIServerURL, done.APIServerCAHash
	status.AgentTLSMode, status.GarbageCollectionInterval = done.AgentTLSMode, done.GarbageCollectionInterval
	status.AgentEnvVarsHash, status.AgentAffinityHash = done.AgentEnvVarsHash, done.AgentAffinityHash
	status.AgentResourcesHash, status.AgentTolerationsHash = done.AgentResourcesHash, done.AgentTolerationsHash
	status.AgentSchedulingCustomizationHash = done.AgentSchedulingCustomizationHash
	status.AgentPrivateRepoURL, status.AgentHostNetwork = done.AgentPrivateRepoURL, done.AgentHostNetwork
	if done.ResetAgent {
		status.Agent = fleet.AgentStatus{Namespace: done.AgentNamespace}
	}
}

func hubDefaults() handshake.AgentDefaults {
	return handshake.AgentDefaults{Replicas: 1, LeaseDuration: "30s", RetryPeriod: "10s", RenewDeadline: "25s"}
}

func hubConfig() config.Config {
	return config.Config{
		AgentImage: "rancher/fleet-agent:dev", AgentImagePullPolicy: "IfNotPresent",
		AgentCheckinInterval: metav1.Duration{Duration: 15 * time.Minute},
		APIServerURL:         hubURL, APIServerCA: []byte(hubCA), AgentTLSMode: config.TLSModeSystemStore,
		GarbageCollectionInterval: metav1.Duration{Duration: 15 * time.Minute},
		AgentWorkers:              config.AgentWorkers{BundleDeployment: "50", Drift: "50"},
	}
}
