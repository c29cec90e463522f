package clusterimport

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/hubtest"
	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/kube/foreign"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/rules/rulestest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

func TestNewCluster_GetsClientIDAndToken(t *testing.T) {
	hub, _ := start(t, cluster(func(c *fleet.Cluster) { c.Spec.ClientID = "" }), kubeconfig())
	handle(t, hub) // its client ID
	hub.Sync()
	askForToken(t, hub)
	expectSome(t, hub, "patch Cluster ws/c1", readSecret, readSecret, "create ClusterRegistrationToken ws/"+tokenName)
	id := current(t, hub).Spec.ClientID
	if !regexp.MustCompile(`^[bcdfghjklmnpqrstvwxz2456789]{54}$`).MatchString(id) {
		t.Errorf("client ID %q", id)
	}
	got := hubtest.MustGet[*fleet.ClusterRegistrationToken](t, hub, "ws", tokenName)
	owner := []metav1.OwnerReference{{APIVersion: "fleet.cattle.io/v1alpha1", Kind: "Cluster", Name: "c1", UID: "u-c1"}}
	if diff := cmp.Diff(owner, got.OwnerReferences); diff != "" || got.Spec.TTL.Duration != 12*time.Hour {
		t.Errorf("TTL %v, owners (-want +got):\n%s", got.Spec.TTL, diff)
	}

	handle(t, hub) // the caches lag: neither a second client ID nor a second token
	if again := current(t, hub).Spec.ClientID; again != id {
		t.Errorf("client ID %q became %q", id, again)
	}
	if again := hubtest.MustGet[*fleet.ClusterRegistrationToken](t, hub, "ws", tokenName); again.UID != got.UID {
		t.Error("the token was replaced")
	}
	hub.Requests()
	hub.Sync()
	handle(t, hub)
	expectSome(t, hub, readSecret) // its values are awaited
	hubtest.ExpectWoken(t, hub)
}

func TestClientIDOfAnotherWriter_Stays(t *testing.T) {
	c := cluster(func(c *fleet.Cluster) { c.Spec.ClientID = "" })
	hub, _ := start(t, c, kubeconfig())
	hub.Have(cluster()) // with a client ID, and a newer version
	handle(t, hub)
	if id := current(t, hub).Spec.ClientID; id != "client" {
		t.Errorf("client ID %q", id)
	}
}

func TestEndToken(t *testing.T) {
	expiring := importToken()
	expiring.Status.Expires = &metav1.Time{Time: time.Date(2026, 1, 1, 12, 59, 0, 0, time.UTC)}
	const deletes = "delete ClusterRegistrationToken ws/" + tokenName
	tests := map[string]struct {
		token   *fleet.ClusterRegistrationToken
		prepare func(*hubtest.Hub)
		fails   bool
	}{
		"a token that is about to expire goes first":     {token: expiring},
		"a token that was deleted meanwhile is no error": {token: expiring, prepare: func(h *hubtest.Hub) { h.Before(deletes, func() { h.Remove(expiring) }) }},
		"a token that cannot be deleted is an error":     {token: expiring, prepare: func(h *hubtest.Hub) { h.Fail(deletes, errServer) }, fails: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			hub, _ := start(t, cluster(), kubeconfig())
			if test.token != nil {
				hub.Put(test.token)
			}
			if test.prepare != nil {
				test.prepare(hub)
			}
			if err := hub.Handle("Cluster", "ws/c1"); errors.Is(err, errServer) != test.fails {
				t.Errorf("error %v", err)
			}
			expectSome(t, hub, readSecret, deletes)
		})
	}
}

// A token is created only if the cluster is reachable.
func TestMakeToken(t *testing.T) {
	const creates = "create ClusterRegistrationToken ws/" + tokenName
	tests := map[string]struct {
		reach   error
		prepare func(*hubtest.Hub)
		want    []string
		reason  string
		// again is what the handler does next, and fails whether it fails.
		again []string
		fails bool
	}{
		"cluster answers": {
			want: []string{readSecret}, reason: "(none)", again: []string{readSecret, creates},
		},
		"cluster does not answer": {
			reach: foreign.ErrUnreachable, want: []string{readSecret, "update Cluster/status ws/c1"}, reason: conditions.ReasonDownstreamUnreachable, again: []string{readSecret},
		},
		"token exists, cache is behind": {
			prepare: func(h *hubtest.Hub) { h.Have(importToken()) }, want: []string{readSecret}, reason: "(none)", again: []string{readSecret, creates},
		},
		"the token cannot be made": {
			prepare: func(h *hubtest.Hub) { h.Fail(creates, errServer) }, want: []string{readSecret}, reason: "(none)",
			again: []string{readSecret, creates}, fails: true,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			hub, _ := start(t, cluster(), kubeconfig())
			asked := 0
			hub.App.Reach = func(_ context.Context, kubeconfig []byte, _ time.Duration, _ bool) error {
				asked++
				if string(kubeconfig) != "kubeconfig" {
					t.Errorf("asked by %q", kubeconfig)
				}
				return test.reach
			}
			if test.prepare != nil {
				test.prepare(hub)
			}
			handle(t, hub)
			hub.AwaitWoken()
			expectSome(t, hub, test.want...)
			if got := importedReason(t, hub, "c1"); got != test.reason {
				t.Errorf("the condition says %s, want %s", got, test.reason)
			}
			if err := hub.Handle("Cluster", "ws/c1"); errors.Is(err, errServer) != test.fails {
				t.Errorf("error %v", err)
			}
			expectSome(t, hub, test.again...)
			if asked != 1 {
				t.Errorf("the cluster was asked %d times", asked)
			}
		})
	}
}

func TestOtherClusters_AreNotImported(t *testing.T) {
	deleting := metav1.Now()
	tests := map[string]func(*fleet.Cluster){
		"Cluster without a kubeconfig":  func(c *fleet.Cluster) { c.Spec.KubeConfigSecret = "" },
		"Cluster of another manager":    func(c *fleet.Cluster) { c.Labels[fleet.LabelClusterManagement] = "other" },
		"Cluster that is being deleted": func(c *fleet.Cluster) { c.DeletionTimestamp = &deleting },
	}
	for name, modify := range tests {
		t.Run(name, func(t *testing.T) {
			hub, _ := ready(t, cluster(modify))
			handle(t, hub)
			for _, request := range hub.Requests() {
				if request != written && request != readSecret {
					t.Errorf("unexpected: %s", request)
				}
			}
			expectImported(t, hub, "") // as the recorded Clusters have it
			hub.Sync()
			handle(t, hub)
			for _, request := range hub.Requests() {
				if request != readSecret {
					t.Errorf("unexpected the second time: %s", request)
				}
			}
		})
	}
}

func TestObstacle_IsReportedUntilItIsRemoved(t *testing.T) {
	tests := map[string]struct {
		modify func(*fleet.Cluster)
		secret func(*corev1.Secret)
		config func(*config.Config)
		reason string
		mends  func(*hubtest.Hub)
	}{
		"a namespace that is not allowed": {
			modify: func(c *fleet.Cluster) { c.Spec.KubeConfigSecretNamespace = "kube-system" }, reason: conditions.ReasonKubeconfigNamespaceRefused,
			mends: func(h *hubtest.Hub) { h.Put(cluster()) },
		},
		"no Secret": {
			modify: func(c *fleet.Cluster) { c.Spec.KubeConfigSecret = "other" }, reason: conditions.ReasonKubeconfigMissing,
			mends: func(h *hubtest.Hub) { s := kubeconfig(); s.Name = "other"; h.Put(s) },
		},
		"a Secret without the key": {
			secret: func(s *corev1.Secret) { s.Data = map[string][]byte{"config": s.Data["value"]} }, reason: conditions.ReasonKubeconfigMissing,
			mends: func(h *hubtest.Hub) { h.Put(kubeconfig()) },
		},
		"no URL of the hub": {
			config: func(c *config.Config) { c.APIServerURL = "" }, reason: conditions.ReasonHubURLMissing,
			mends: func(h *hubtest.Hub) { h.App.Config.Set(hubConfig()) },
		},
		"a URL of the hub without TLS": {
			config: func(c *config.Config) { c.APIServerURL = "http://hub" }, reason: conditions.ReasonHubURLInvalid,
			mends: func(h *hubtest.Hub) { h.App.Config.Set(hubConfig()) },
		},
		"an unknown TLS mode": {
			config: func(c *config.Config) { c.AgentTLSMode = "lax" }, reason: conditions.ReasonTLSModeUnknown,
			mends: func(h *hubtest.Hub) { h.App.Config.Set(hubConfig()) },
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c, secret, conf := cluster(), kubeconfig(), hubConfig()
			if test.modify != nil {
				test.modify(c)
			}
			if test.secret != nil {
				test.secret(secret)
			}
			if test.config != nil {
				test.config(&conf)
			}
			hub, _ := start(t, c, secret, importToken(), values(t))
			hub.App.Config.Set(conf)
			hub.Woken()
			handle(t, hub)
			expectImported(t, hub, test.reason)
			hubtest.ExpectWoken(t, hub) // nothing changes by waiting
			hub.Sync()
			hub.Requests()
			handle(t, hub)
			for _, request := range hub.Requests() {
				if !strings.HasPrefix(request, "get Secret ") {
					t.Errorf("unexpected the second time: %s", request)
				}
			}
			test.mends(hub)
			hub.Woken()
			work(t, hub)
			expectImported(t, hub, "")
		})
	}
}

func TestGather_ReadsTheKubeconfigOnlyIfNeeded(t *testing.T) {
	tests := map[string]struct {
		modify func(*fleet.Cluster)
		want   []string
	}{
		"in the Cluster's own namespace":                  {func(*fleet.Cluster) {}, []string{readSecret}},
		"in another namespace, whose Secret may allow it": {func(c *fleet.Cluster) { c.Spec.KubeConfigSecretNamespace = "fleet-default" }, []string{"get Secret fleet-default/kc"}},
		"no name: not read":                               {func(c *fleet.Cluster) { c.Spec.KubeConfigSecret = "" }, nil},
		"no client ID: not read":                          {func(c *fleet.Cluster) { c.Spec.ClientID = "" }, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			hub, _ := start(t)
			h := newTestHandler(hub)
			if _, err := h.gather(t.Context(), cluster(test.modify), clusterRecord{}); err != nil {
				t.Fatal(err)
			}
			hubtest.ExpectRequests(t, hub, test.want...)
		})
	}
}

func TestGather_FailedReadStopsTheImport(t *testing.T) {
	tests := map[string]func(*testing.T, *hubtest.Hub){
		"the kubeconfig cannot be read": func(_ *testing.T, h *hubtest.Hub) { h.Fail(readSecret, errServer) },
		"the token cannot be read":      func(_ *testing.T, h *hubtest.Hub) { h.Spoil(importToken()) },
		"its values cannot be read":     func(t *testing.T, h *hubtest.Hub) { h.Spoil(values(t)) },
	}
	for name, prepare := range tests {
		t.Run(name, func(t *testing.T) {
			hub, _ := ready(t, cluster())
			prepare(t, hub)
			if err := hub.Handle("Cluster", "ws/c1"); err == nil || !strings.Contains(err.Error(), "looking at cluster ws/c1") {
				t.Errorf("error %v", err)
			}
			for _, request := range hub.Requests() {
				if request != readSecret {
					t.Errorf("went on to %s", request)
				}
			}
		})
	}
}

func TestGather(t *testing.T) {
	tests := map[string]struct {
		there         []hubtest.Object
		token, values bool
	}{
		"missing objects: nil":        {},
		"existing token: found":       {there: []hubtest.Object{importToken()}, token: true},
		"existing values: found":      {there: []hubtest.Object{importToken(), values(t)}, token: true, values: true},
		"Secret of another type: nil": {there: []hubtest.Object{&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: tokenName}}}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			hub, _ := start(t, test.there...)
			h := newTestHandler(hub)
			in, err := h.gather(t.Context(), cluster(), clusterRecord{})
			if err != nil {
				t.Fatal(err)
			}
			if (in.Token != nil) != test.token || (in.Values != nil) != test.values {
				t.Errorf("token %v, values %v", in.Token, in.Values)
			}
			if !cmp.Equal(in.Defaults, hub.App.AgentDefaults()) || in.Kubeconfig != nil || in.Namespaces != hub.App.Namespaces {
				t.Errorf("gathered %+v", in)
			}
			hubtest.ExpectRequests(t, hub, readSecret)
		})
	}
}

func TestEvents_EnqueueClusters(t *testing.T) {
	own := cluster(func(c *fleet.Cluster) { c.Name, c.Spec.KubeConfigSecret = "c2", "" })
	hub, _ := start(t, cluster(), own)
	hub.Woken()
	next := hubConfig()
	next.AgentTLSMode = config.TLSModeStrict
	hub.App.Config.Set(next)
	hubtest.ExpectWoken(t, hub, "Cluster ws/c1") // the other one's agent comes by itself

	h := &handler{app: hub.App}
	for token, want := range map[string]string{tokenName: "ws/c1", "import-token-c2": "ws/c2", "t1": ""} {
		var got string
		for _, key := range h.clustersOf("ws", token) {
			got += key.String()
		}
		if got != want {
			t.Errorf("token %s wakes %q, want %q", token, got, want)
		}
	}
	if got := h.clustersOf("ws2", tokenName); got != nil {
		t.Errorf("a token of another workspace wakes %v", got)
	}
}

func TestDeletedCluster_ItsFailuresAreForgotten(t *testing.T) {
	for name, handled := range map[string]bool{"its deletion is handled": true, "it is recreated before its deletion is handled": false} {
		t.Run(name, func(t *testing.T) {
			hub, _ := ready(t, cluster())
			hub.Fail(dialled, errServer)
			work(t, hub)
			handle(t, hub)
			expectRetry(t, hub, retryMin)
			hub.Remove(cluster())
			if handled {
				handle(t, hub)
			}
			hub.Fail(dialled, nil)
			hub.Put(cluster(func(c *fleet.Cluster) { c.UID = "u-new" }))
			work(t, hub) // at once
			expectImported(t, hub, "")
		})
	}
}

func TestBootstrapSecret_HasTheValuesOfTheToken(t *testing.T) {
	hub, behind := ready(t, cluster())
	work(t, hub)
	var got protocol.Bootstrap
	for _, object := range behind.applied {
		if secret, ok := object.(*corev1.Secret); ok {
			parsed, err := protocol.ParseBootstrap(secret.Data)
			if err != nil {
				t.Fatal(err)
			}
			got = parsed
		}
	}
	want := protocol.Bootstrap{
		APIServerURL: "https://hub", APIServerCA: []byte(rulestest.HubCA), ClusterNamespace: "ws", Token: "bearer", TokenName: tokenName,
		SystemRegistrationNamespace: "cattle-fleet-clusters-system",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
