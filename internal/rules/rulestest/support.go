package rulestest

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/dump"

	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/clusters"
	"github.com/fleet-hub/fleet/internal/rules/importing"
	"github.com/fleet-hub/fleet/internal/rules/token"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

const (
	Workspace = "fleet-default"
	HubURL    = "https://hub.example:6443"
	// HubCA is the CA of the hub, and OtherCA is another one.
	HubCA = `-----BEGIN CERTIFICATE-----
MIIBHzCB0qADAgECAgEBMAUGAytlcDAOMQwwCgYDVQQDDANodWIwIBcNMjYxMTMw
MTYxMzQ1WhgPMjEyNjExMDYxNjEzNDVaMA4xDDAKBgNVBAMMA2h1YjAqMAUGAytl
cAMhAMO0jqmkZOuy26gRwR4/ny7RMUbfdFpJdsdejvngU2qIo1MwUTAdBgNVHQ4E
FgQUpT1UzsTk7fCvcEjf6uSsaq0bg0UwHwYDVR0jBBgwFoAUpT1UzsTk7fCvcEjf
6uSsaq0bg0UwDwYDVR0TAQH/BAUwAwEB/zAFBgMrZXADQQC1XI+U7na2R0MWMBJK
xXG7q5Gf+y9ArMGYfQzdtqZoFdXiJyIh7vaM2nBAu08m+pU0bkm3NOAr4YpfHEos
kc0L
-----END CERTIFICATE-----
`
	OtherCA = `-----BEGIN CERTIFICATE-----
MIIBKzCB3qADAgECAgEBMAUGAytlcDAUMRIwEAYDVQQDDAlvdGhlci1odWIwIBcN
MjYxMTMwMTYxMzQ1WhgPMjEyNjExMDYxNjEzNDVaMBQxEjAQBgNVBAMMCW90aGVy
LWh1YjAqMAUGAytlcAMhAFqZ3s+X4qPyUvoNn9GmqmAaRTdJi23whS3ey8MnjYOP
o1MwUTAdBgNVHQ4EFgQUCyWCYM4eYsho7Wil07DYwlgd2JwwHwYDVR0jBBgwFoAU
CyWCYM4eYsho7Wil07DYwlgd2JwwDwYDVR0TAQH/BAUwAwEB/zAFBgMrZXADQQD5
I2qRg8RlKknzZcPIs0doxWV08hw1ZcR/39HrTfCNsHr+mKHwjmYlmiFKuTAV7wur
HAs6lauAmoZOVtEJCdgB
-----END CERTIFICATE-----
`
)

// Noon is the current time in all tables.
func Noon() time.Time { return time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC) }

func At(d time.Duration) metav1.Time { return metav1.Time{Time: Noon().Add(d)} }

func HubNamespaces() clusters.Namespaces {
	return clusters.Namespaces{System: names.SystemNamespace, Registration: names.RegistrationNamespace(names.SystemNamespace)}
}

// Pure calls a rule twice. The rule must not write to its input, and must return the same output.
func Pure[In, Out any](t *testing.T, rule func(In) Out, in In) Out {
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

func ExpectEqual(t *testing.T, what string, got, want any, options ...cmp.Option) {
	t.Helper()
	if diff := cmp.Diff(want, got, options...); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// Build applies the modifiers to v and returns it.
func Build[T any](v *T, modifiers []func(*T)) *T {
	for _, modify := range modifiers {
		modify(v)
	}
	return v
}

// BoundJWT returns a token like those of the TokenRequest API, with a fake signature. A zero time means no expiry.
func BoundJWT(accountUID string, expires time.Time) string {
	claims := map[string]any{
		"iss": "https://kubernetes.default.svc",
		"kubernetes.io": map[string]any{
			"namespace":      Workspace,
			"serviceaccount": map[string]any{"name": "account", "uid": accountUID},
		},
	}
	if !expires.IsZero() {
		claims["exp"] = expires.Unix()
	}
	return JWT(claims)
}

// SecretJWT returns a token like those in token Secrets.
func SecretJWT(accountUID string) string {
	return JWT(map[string]any{
		"iss":                                    "kubernetes/serviceaccount",
		"kubernetes.io/serviceaccount/namespace": Workspace,
		"kubernetes.io/serviceaccount/service-account.name": "account",
		"kubernetes.io/serviceaccount/service-account.uid":  accountUID,
	})
}

// JWT returns a token with these claims and a fake signature.
func JWT(claims any) string {
	payload, err := json.Marshal(claims)
	if err != nil {
		panic(fmt.Sprintf("claims of a test: %v", err))
	}
	part := base64.RawURLEncoding.EncodeToString
	return part([]byte(`{"alg":"RS256"}`)) + "." + part(payload) + "." + part([]byte("signature"))
}

func AnAccount(namespace, name, uid string) *corev1.ServiceAccount {
	return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(uid)}}
}

// ARequest is ClusterRegistration request-1 of client c1 with token t1, made half a minute ago.
func ARequest(modifiers ...func(*fleet.ClusterRegistration)) *fleet.ClusterRegistration {
	return Build(&fleet.ClusterRegistration{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: Workspace, Name: "request-1", UID: "r1", CreationTimestamp: At(-30 * time.Second),
			Labels: map[string]string{fleet.LabelRegistrationToken: "t1"},
		},
		Spec: fleet.ClusterRegistrationSpec{ClientID: "c1", ClientRandom: "random-1", ClusterLabels: map[string]string{"env": "dev"}},
	}, modifiers)
}

// AToken returns ClusterRegistrationToken t1, created a minute ago, without a TTL.
func AToken(modifiers ...func(*fleet.ClusterRegistrationToken)) *fleet.ClusterRegistrationToken {
	return Build(&fleet.ClusterRegistrationToken{
		ObjectMeta: metav1.ObjectMeta{Namespace: Workspace, Name: "t1", UID: "u1", CreationTimestamp: At(-time.Minute)},
	}, modifiers)
}

func WithTTL(ttl time.Duration) func(*fleet.ClusterRegistrationToken) {
	return func(t *fleet.ClusterRegistrationToken) { t.Spec.TTL = &metav1.Duration{Duration: ttl} }
}

// ACluster returns Cluster east with client ID c1 and its namespace, created an hour ago.
func ACluster(modifiers ...func(*fleet.Cluster)) *fleet.Cluster {
	return Build(&fleet.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: Workspace, Name: "east", UID: "cluster-uid", CreationTimestamp: At(-time.Hour)},
		Spec:       fleet.ClusterSpec{ClientID: "c1"},
		Status:     fleet.ClusterStatus{Namespace: names.ClusterNamespace(Workspace, "east")},
	}, modifiers)
}

func ClusterNamed(name string) func(*fleet.Cluster) {
	return func(c *fleet.Cluster) { c.Name, c.UID = name, types.UID(name+"-uid") }
}

func ClusterMadeAt(t metav1.Time) func(*fleet.Cluster) {
	return func(c *fleet.Cluster) { c.CreationTimestamp = t }
}

func ClusterClient(clientID string) func(*fleet.Cluster) {
	return func(c *fleet.Cluster) { c.Spec.ClientID = clientID }
}

func ClusterUID(uid types.UID) func(*fleet.Cluster) { return func(c *fleet.Cluster) { c.UID = uid } }

func ClusterSeen(t metav1.Time) func(*fleet.Cluster) {
	return func(c *fleet.Cluster) { c.Status.Agent.LastSeen = t }
}

func ClusterCredentialExpires(t metav1.Time) func(*fleet.Cluster) {
	return func(c *fleet.Cluster) { c.Status.Agent.CredentialExpires = &t }
}

func ClusterWithoutNamespace(c *fleet.Cluster) { c.Status.Namespace = "" }

func ClusterGoing(c *fleet.Cluster) {
	going := At(-time.Second)
	c.DeletionTimestamp = &going
}

func Ptr[T any](v T) *T { return &v }

// ValuesSecret returns the values Secret of token t1 with this bearer token.
func ValuesSecret(bearer string) *corev1.Secret {
	secret, err := token.ValuesSecret(AToken(), protocol.Values{Token: bearer, TokenName: "t1"})
	if err != nil {
		panic(err)
	}
	return secret
}

// Note writes the result of an import into the status.
func Note(status *fleet.ClusterStatus, out importing.Outcome) {
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

func HubDefaults() importing.AgentDefaults {
	return importing.AgentDefaults{Replicas: 1, LeaseDuration: "30s", RetryPeriod: "10s", RenewDeadline: "25s"}
}

func HubConfig() config.Config {
	return config.Config{
		AgentImage: "rancher/fleet-agent:dev", AgentImagePullPolicy: "IfNotPresent",
		AgentCheckinInterval: metav1.Duration{Duration: 15 * time.Minute},
		APIServerURL:         HubURL, APIServerCA: []byte(HubCA), AgentTLSMode: config.TLSModeSystemStore,
		GarbageCollectionInterval: metav1.Duration{Duration: 15 * time.Minute},
		AgentWorkers:              config.AgentWorkers{BundleDeployment: "50", Drift: "50"},
	}
}

// Permute calls with every order of the elements.
func Permute[T any](of []T, call func([]T)) {
	if len(of) == 0 {
		call(nil)
		return
	}
	for i := range of {
		rest := slices.Delete(slices.Clone(of), i, i+1)
		Permute(rest, func(tail []T) { call(append([]T{of[i]}, tail...)) })
	}
}
