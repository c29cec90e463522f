package capi

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/hubtest"
	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/protocol"
	capirule "github.com/fleet-hub/fleet/internal/rules/capi"
	"github.com/fleet-hub/fleet/internal/rules/capi/joining"
	"github.com/fleet-hub/fleet/internal/rules/rulestest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// The requests of a cluster that joins with a manifest.
const (
	joinToken   = "ClusterRegistrationToken team-a/capi-join-east"
	joinSecret  = "Secret team-a/east-fleet-join"
	eastCluster = "Cluster team-a/east"
)

// joinsByManifest is a Cluster of Cluster API whose machines do not exist yet.
func joinsByManifest(modifiers ...func(*capirule.Cluster)) *capirule.Cluster {
	return capiCluster(append([]func(*capirule.Cluster){func(c *capirule.Cluster) {
		c.Join, c.Initialized = capirule.JoinByManifest, false
	}}, modifiers...)...)
}

// joinBench has a hub with an address.
func joinBench(t *testing.T) *bench {
	t.Helper()
	b := newBench(t)
	b.configure(func(c *config.Config) {
		c.APIServerURL, c.APIServerCA, c.AgentTLSMode = "https://hub.example", []byte(rulestest.HubCA), config.TLSModeStrict
	})
	return b
}

func (b *bench) configure(change func(*config.Config)) {
	conf := b.App.Config.Get()
	change(&conf)
	b.App.Config.Set(conf)
}

// mint plays the controller of tokens.
func (b *bench) mint(bearer string) {
	b.t.Helper()
	token := hubtest.MustGet[*fleet.ClusterRegistrationToken](b.t, b.Hub, ws, "capi-join-east")
	token.Status.SecretName = token.Name
	document, err := protocol.Values{Token: bearer}.Encode()
	if err != nil {
		b.t.Fatal(err)
	}
	b.Put(token, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ws, Name: token.Name}, Type: protocol.SecretTypeValues, Data: map[string][]byte{protocol.ValuesKey: document}})
}

func (b *bench) manifest() string {
	b.t.Helper()
	return string(hubtest.MustGet[*corev1.Secret](b.t, b.Hub, ws, "east-fleet-join").Data[joining.Key])
}

func (b *bench) expectReason(want string) {
	b.t.Helper()
	if got := b.reason(); got != want {
		b.t.Errorf("reason %q, want %q", got, want)
	}
}

// handedOut is a bench whose cluster has its manifest.
func handedOut(t *testing.T) *bench {
	t.Helper()
	b := joinBench(t)
	b.have(joinsByManifest())
	b.expect("create " + eastCluster)
	b.expect("create "+joinToken, "update Cluster/status team-a/east")
	b.mint("jwt-1")
	b.expect("get "+joinSecret, "create "+joinSecret, "update Cluster/status team-a/east")
	return b
}

// report plays the first heartbeat of the agent.
func (b *bench) heartbeat() {
	b.t.Helper()
	c := hubtest.MustGet[*fleet.Cluster](b.t, b.Hub, ws, "east")
	c.Status.Agent.LastSeen = metav1.NewTime(b.Now())
	b.Put(c)
}

func TestManifest_IsHandedOutBeforeTheMachinesExist(t *testing.T) {
	b := handedOut(t)
	b.expectReason(conditions.ReasonAwaitingAgent)
	b.expectTold() // waiting is no problem
	cluster := hubtest.MustGet[*fleet.Cluster](t, b.Hub, ws, "east")
	if cluster.Spec.KubeConfigSecret != "" || cluster.Spec.ClientID == "" {
		t.Errorf("spec %+v", cluster.Spec)
	}
	for _, want := range []string{"kind: Namespace\n", "kind: Deployment\n", "name: fleet-agent-bootstrap\n", cluster.Spec.ClientID} {
		if !strings.Contains(b.manifest(), want) {
			t.Errorf("the manifest has no %q", want)
		}
	}
	b.expect()
}

func TestFirstHeartbeat_EndsTheTokenAndEmptiesTheManifest(t *testing.T) {
	b := handedOut(t)
	b.heartbeat()
	b.expect("delete "+joinToken, "get "+joinSecret, "update "+joinSecret, "update Cluster/status team-a/east")
	b.expectReason("")
	if manifest := b.manifest(); !strings.Contains(manifest, "kind: Namespace\n") || strings.Contains(manifest, "kind: Secret") {
		t.Errorf("manifest:\n%s", manifest)
	}
	b.expect()
}

// A template of machines refers to the Secret for as long as the cluster exists.
func TestSecretThatWasDeletedAfterTheJoin_IsCreatedAgainWithoutAToken(t *testing.T) {
	b := handedOut(t)
	b.heartbeat()
	b.decide()
	b.Sync()
	b.Remove(hubtest.MustGet[*corev1.Secret](t, b.Hub, ws, "east-fleet-join"))
	b.Requests()
	b.expect("get "+joinSecret, "create "+joinSecret)
	if strings.Contains(b.manifest(), "kind: Secret") {
		t.Error("it has a token")
	}
}

func TestRenewedBearerToken_ReachesTheSecret(t *testing.T) {
	b := handedOut(t)
	before := b.manifest()
	b.Pass(joining.Lifetime - joining.Reserve)
	b.expect("patch " + joinToken)
	token := hubtest.MustGet[*fleet.ClusterRegistrationToken](t, b.Hub, ws, "capi-join-east")
	if end := token.CreationTimestamp.Add(token.Spec.TTL.Duration); end.Before(b.Now().Add(joining.Lifetime - time.Second)) {
		t.Errorf("it ends at %s, now is %s", end, b.Now())
	}
	b.mint("jwt-2")
	b.expect("get "+joinSecret, "update "+joinSecret)
	if b.manifest() == before {
		t.Error("the manifest has the former token")
	}
	b.expect()
}

func TestSecretOfAUser_IsNeitherReadOftenNorChanged(t *testing.T) {
	b := joinBench(t)
	b.Put(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ws, Name: "east-fleet-join", UID: "own"}, Data: map[string][]byte{"value": []byte("own")}})
	b.have(joinsByManifest())
	b.expect("create " + eastCluster)
	b.expect("create "+joinToken, "update Cluster/status team-a/east")
	b.mint("jwt-1")
	b.expect("get "+joinSecret, "update Cluster/status team-a/east")
	b.expectReason(conditions.ReasonNameTaken)
	b.expect()
	b.have(capiCluster(func(c *capirule.Cluster) { c.DeletionTimestamp = rulestest.Ptr(rulestest.At(0)) }))
	b.expect("delete "+eastCluster, "get "+joinSecret)
	if b.manifest() != "own" {
		t.Error("it was changed")
	}
}

// A Secret that a user has changed is written again. One that cannot be updated is replaced.
func TestChangedSecret_IsRepaired(t *testing.T) {
	for name, test := range map[string]struct {
		change   func(*corev1.Secret)
		requests []string
	}{
		"other data":    {func(s *corev1.Secret) { s.Data["value"] = []byte("x") }, []string{"get " + joinSecret, "update " + joinSecret}},
		"another owner": {func(s *corev1.Secret) { s.OwnerReferences[0].UID = "capi-0" }, []string{"get " + joinSecret, "update " + joinSecret}},
		"immutable":     {func(s *corev1.Secret) { s.Immutable = rulestest.Ptr(true) }, []string{"get " + joinSecret, "delete " + joinSecret}},
		"more labels":   {func(s *corev1.Secret) { s.Labels["a"] = "b" }, []string{"get " + joinSecret}},
	} {
		t.Run(name, func(t *testing.T) {
			b := handedOut(t)
			before := b.manifest()
			changed := hubtest.MustGet[*corev1.Secret](t, b.Hub, ws, "east-fleet-join")
			test.change(changed)
			b.Put(changed)
			b.expect(test.requests...)
			b.decide()
			b.Sync()
			if b.manifest() != before {
				t.Error("it is not what it was")
			}
			b.Requests()
			b.expect()
		})
	}
}

func TestObstacle_IsReportedAndResolves(t *testing.T) {
	b := newBench(t)
	b.have(joinsByManifest())
	b.expect("create " + eastCluster)
	b.expect("update Cluster/status team-a/east")
	b.expectReason(conditions.ReasonHubURLMissing)
	b.expectTold(conditions.ReasonHubURLMissing)
	b.configure(func(c *config.Config) {
		c.APIServerURL, c.APIServerCA, c.AgentTLSMode = "https://hub.example", []byte(rulestest.HubCA), config.TLSModeStrict
	})
	b.expect("create "+joinToken, "update Cluster/status team-a/east")
	b.mint("jwt-1")
	b.configure(func(c *config.Config) { c.AgentImagePullPolicy = "Sometimes" })
	b.expect("get "+joinSecret, "update Cluster/status team-a/east")
	b.expectReason(conditions.ReasonSettingsInvalid)
	b.expect("get " + joinSecret) // there is no version of it to remember
}

func TestPullSecrets_AreInTheManifest(t *testing.T) {
	b := joinBench(t)
	b.configure(func(c *config.Config) { c.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "pull"}} })
	b.have(joinsByManifest())
	b.expect("create " + eastCluster)
	b.expect("update Cluster/status team-a/east")
	b.expectReason(conditions.ReasonPullSecretMissing)
	pull := func(data string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: b.App.Namespaces.System, Name: "pull"}, Data: map[string][]byte{"k": []byte(data)}}
	}
	b.Put(pull("one"))
	b.expect("create "+joinToken, "update Cluster/status team-a/east")
	b.mint("jwt-1")
	b.expect("get "+joinSecret, "get Secret cattle-fleet-system/pull", "create "+joinSecret, "update Cluster/status team-a/east")
	b.Put(pull("two"))
	b.expect("get "+joinSecret, "get Secret cattle-fleet-system/pull", "update "+joinSecret)
	if !strings.Contains(b.manifest(), "k: dHdv") {
		t.Errorf("manifest:\n%s", b.manifest())
	}
	b.Put(pull(strings.Repeat("x", joining.MaxBytes)))
	b.expect("get "+joinSecret, "get Secret cattle-fleet-system/pull", "update Cluster/status team-a/east")
	b.expectReason(conditions.ReasonSettingsInvalid)
	b.expect()
}

func TestJoinAnnotation_SwitchesAndReturns(t *testing.T) {
	b := joinBench(t)
	b.Put(kubeconfigSecret())
	b.have(capiCluster())
	b.expect(getSecret, "create "+eastCluster)
	b.expect("update Cluster/status team-a/east")
	b.have(capiCluster(func(c *capirule.Cluster) { c.Join = capirule.JoinByManifest }))
	b.expect("patch "+eastCluster, "create "+joinToken, "update Cluster/status team-a/east")
	if c := hubtest.MustGet[*fleet.Cluster](t, b.Hub, ws, "east"); c.Spec.KubeConfigSecret != "" || c.Spec.ClientID == "" {
		t.Errorf("spec %+v", c.Spec)
	}
	b.mint("jwt-1")
	b.expect("get "+joinSecret, "create "+joinSecret, "update Cluster/status team-a/east")

	b.have(capiCluster())
	b.expect("patch "+eastCluster, "delete "+joinToken, "get "+joinSecret, "update "+joinSecret, "update Cluster/status team-a/east")
	if c := hubtest.MustGet[*fleet.Cluster](t, b.Hub, ws, "east"); c.Spec.KubeConfigSecret != "east-kubeconfig" {
		t.Errorf("spec %+v", c.Spec)
	}
	if strings.Contains(b.manifest(), "kind: Secret") {
		t.Error("the manifest has a token")
	}
	b.expect()
}

func TestPausedAndMovedClusters_KeepTheirManifest(t *testing.T) {
	b := handedOut(t)
	before := b.manifest()
	paused := joinsByManifest(func(c *capirule.Cluster) { c.Paused = true })
	b.have(paused)
	b.expect("patch "+eastCluster, "update Cluster/status team-a/east")
	b.Pass(joining.Lifetime)
	b.expect()
	b.lose(paused)
	b.expect("update Cluster/status team-a/east")
	if b.manifest() != before {
		t.Error("the manifest was changed")
	}
	// It comes back with another UID, and so does the Secret. The hub cannot ask the cluster whether it is the same one.
	b.have(joinsByManifest(func(c *capirule.Cluster) { c.UID = "capi-2" }))
	b.expect("update Cluster/status team-a/east")
	if b.reason() != conditions.ReasonNameTaken || b.manifest() != before {
		t.Errorf("reason %s, or the manifest was changed", b.reason())
	}
	c := hubtest.MustGet[*fleet.Cluster](t, b.Hub, ws, "east")
	c.Annotations[annotation.CAPICluster] = "team-a/east/capi-2" // as the message says
	b.Put(c)
	b.expect("patch "+eastCluster, "patch "+joinToken, "get "+joinSecret, "update "+joinSecret, "update Cluster/status team-a/east")
	if owner := hubtest.MustGet[*corev1.Secret](t, b.Hub, ws, "east-fleet-join").OwnerReferences[0].UID; owner != "capi-2" {
		t.Errorf("owner %s", owner)
	}
}

// The holder of the manifest could take the place of the agent until the token expires.
func TestFirstHeartbeatOfAPausedOrMovedCluster_EndsTheToken(t *testing.T) {
	paused := joinsByManifest(func(c *capirule.Cluster) { c.Paused = true })
	for name, happens := range map[string]func(*bench){
		"paused": func(b *bench) { b.have(paused) },
		"moved":  func(b *bench) { b.have(paused); b.decide(); b.Sync(); b.lose(paused) },
		"not selected": func(b *bench) {
			b.configure(func(c *config.Config) { c.CAPI.ClusterSelector.MatchLabels = map[string]string{"no": "one"} })
		},
		"disabled": func(b *bench) { b.watch.store = nil },
	} {
		t.Run(name, func(t *testing.T) {
			b := handedOut(t)
			happens(b)
			b.decide()
			b.Sync()
			b.Requests()
			b.heartbeat()
			b.expect("delete " + joinToken)
			b.expect()
		})
	}
}

func TestDeletedCluster_TakesItsManifestAlong(t *testing.T) {
	b := handedOut(t)
	b.have(joinsByManifest(func(c *capirule.Cluster) { c.DeletionTimestamp = rulestest.Ptr(rulestest.At(0)) }))
	b.expect("delete "+eastCluster, "get "+joinSecret, "delete "+joinSecret)
	b.expect()
}

func TestRecreatedCluster_GetsAnotherClientIDAndToken(t *testing.T) {
	b := handedOut(t)
	first := hubtest.MustGet[*fleet.Cluster](t, b.Hub, ws, "east").Spec.ClientID
	b.have(joinsByManifest(func(c *capirule.Cluster) { c.UID = "capi-2" }))
	b.expect("delete "+eastCluster, "get "+joinSecret, "delete "+joinSecret)
	b.expect("create " + eastCluster)
	b.expect("delete "+joinToken, "update Cluster/status team-a/east") // garbage collection may be slower
	b.expect("create " + joinToken)
	second := hubtest.MustGet[*fleet.Cluster](t, b.Hub, ws, "east").Spec.ClientID
	token := hubtest.MustGet[*fleet.ClusterRegistrationToken](t, b.Hub, ws, "capi-join-east")
	if second == first || token.Annotations[annotation.TokenForClientID] != second {
		t.Errorf("client ID %s, before %s; token %v", second, first, token.Annotations)
	}
}

func TestFailuresOfAManifest_AreReturned(t *testing.T) {
	for request, prepare := range map[string]func(*bench){
		"create " + joinToken: func(b *bench) {
			b.Remove(hubtest.MustGet[*fleet.ClusterRegistrationToken](b.t, b.Hub, ws, "capi-join-east"))
		},
		"patch " + joinToken:   func(b *bench) { b.Pass(joining.Lifetime) },
		"delete " + joinToken:  func(b *bench) { b.heartbeat() },
		"get " + joinSecret:    func(b *bench) { b.mint("jwt-2") },
		"update " + joinSecret: func(b *bench) { b.mint("jwt-2") },
		"create " + joinSecret: func(b *bench) { b.Remove(hubtest.MustGet[*corev1.Secret](b.t, b.Hub, ws, "east-fleet-join")) },
	} {
		t.Run(request, func(t *testing.T) {
			b := handedOut(t)
			prepare(b)
			b.Fail(request, errServer)
			err := b.reconcile(t.Context(), types.NamespacedName{Namespace: ws, Name: "east"})
			if err == nil || !strings.Contains(err.Error(), errServer.Error()) || strings.Contains(err.Error(), "jwt") {
				t.Errorf("error %v", err)
			}
		})
	}
}
