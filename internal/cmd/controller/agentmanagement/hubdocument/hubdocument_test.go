package hubdocument

import (
	"crypto/rand"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/hubtest"
	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/recoveries"
	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/identity"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

const (
	own       = "cattle-fleet-system/fleet-controller"
	readOld   = "get ConfigMap kube-public/fleet-hub"
	creates   = "create ConfigMap kube-public/fleet-hub"
	updates   = "update ConfigMap kube-public/fleet-hub"
	rechecks  = "ConfigMap " + own + " in 5m0s"
	readToken = "get Secret ws/fleet-recovery-token"
)

var errServer = errors.New("the server is upset")

func newKey(t *testing.T) identity.Key {
	t.Helper()
	key, err := identity.NewKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func keySecret(t *testing.T, key identity.Key) *corev1.Secret {
	t.Helper()
	document, err := key.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "cattle-fleet-system", Name: "fleet-hub-key"},
		Type:       protocol.SecretTypeHubKey, Data: map[string][]byte{"key": document},
	}
}

// start is a hub that publishes documents with this key.
func start(t *testing.T, key identity.Key, objects ...hubtest.Object) *hubtest.Hub {
	t.Helper()
	hub := hubtest.New(t)
	hub.App.Config.Set(config.Config{APIServerURL: hubURL, APIServerCA: []byte("PEM")})
	if err := Register(t.Context(), hub.App); err != nil {
		t.Fatal(err)
	}
	hub.Put(append([]hubtest.Object{keySecret(t, key)}, objects...)...)
	loadKey(t, hub)
	hub.Sync()
	hub.Woken()
	return hub
}

func loadKey(t *testing.T, hub *hubtest.Hub) {
	t.Helper()
	if err := hub.App.Recoveries.LoadKey(t.Context()); err != nil {
		t.Fatal(err)
	}
	hub.Requests()
}

// restart is another process of the same hub.
func restart(t *testing.T, hub *hubtest.Hub) {
	t.Helper()
	if err := Register(t.Context(), hub.App); err != nil {
		t.Fatal(err)
	}
}

func handle(t *testing.T, hub *hubtest.Hub) {
	t.Helper()
	if err := hub.Handle("ConfigMap", own); err != nil {
		t.Fatal(err)
	}
	hub.Sync()
}

func account(uid string) *corev1.ServiceAccount {
	return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ws", Name: "fleet-recovery", UID: types.UID(uid),
		Labels: map[string]string{fleet.LabelManaged: "true", fleet.LabelSetHash: names.SetHash(recoveries.SetID, names.Owner{GVK: "/v1, Kind=Namespace", Name: "ws"})},
	}}
}

func tokenOf(account string) string { return hubtest.Token(account, time.Time{}) }

func tokenSecret(uid, token string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "fleet-recovery-token", Annotations: map[string]string{corev1.ServiceAccountUIDKey: uid, corev1.ServiceAccountNameKey: "fleet-recovery"}},
		Type:       corev1.SecretTypeServiceAccountToken, Data: map[string][]byte{"token": []byte(token)},
	}
}

// current returns the published document.
func current(t *testing.T, hub *hubtest.Hub, key identity.Key) identity.Document {
	t.Helper()
	found, ok := hub.Live(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-public", Name: "fleet-hub"}}).(*corev1.ConfigMap)
	if !ok || found == nil {
		t.Fatal("no document")
	}
	d, err := identity.VerifyDocument(key.Public(), found.Data["document"])
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestDocument_IsPublishedAndFollowsChanges(t *testing.T) {
	key := newKey(t)
	hub := start(t, key)
	handle(t, hub)
	hubtest.ExpectRequests(t, hub, readOld, creates)
	first := current(t, hub, key)
	if first.URL != hubURL || string(first.CA) != "PEM" || first.Serial != hub.Now().Unix() || hub.App.PublishedAddress().Serial != first.Serial {
		t.Errorf("document %+v, address serial %d", first, hub.App.PublishedAddress().Serial)
	}

	handle(t, hub)
	hubtest.ExpectRequests(t, hub, readOld) // nothing has changed

	hub.Pass(time.Minute)
	hub.Put(account("u1"), tokenSecret("u1", tokenOf("u1")))
	handle(t, hub)
	hubtest.ExpectRequests(t, hub, readOld, readToken, updates)
	second := current(t, hub, key)
	if token, err := second.Token(key.WorkspaceKey("ws")); err != nil || token != tokenOf("u1") || second.Serial != first.Serial+60 {
		t.Errorf("token %q, error %v, serial %d after %d", token, err, second.Serial, first.Serial)
	}
	if hub.App.PublishedAddress().Serial != first.Serial {
		t.Errorf("the address is known since %d, want %d", hub.App.PublishedAddress().Serial, first.Serial)
	}
	handle(t, hub)
	hubtest.ExpectRequests(t, hub, readOld) // the token is not read again

	hub.Pass(time.Minute)
	hub.App.Config.Set(config.Config{APIServerURL: "https://new.example", APIServerCA: []byte("PEM")})
	handle(t, hub)
	hubtest.ExpectRequests(t, hub, readOld, updates)
	if third := current(t, hub, key); third.URL != "https://new.example" || hub.App.PublishedAddress().Serial != third.Serial || len(third.Tokens) != 1 {
		t.Errorf("document %+v, address serial %d", third, hub.App.PublishedAddress().Serial)
	}
}

func TestStart_SignsAgainWithAHigherSerial(t *testing.T) {
	key := newKey(t)
	hub := start(t, key)
	handle(t, hub)
	first := current(t, hub, key)
	for range 2 { // within a second
		hub.Requests()
		restart(t, hub)
		handle(t, hub)
	}
	if got := current(t, hub, key); got.Serial != first.Serial+2 || hub.App.PublishedAddress().Serial != first.Serial {
		t.Errorf("serial %d, address since %d; want %d and %d", got.Serial, hub.App.PublishedAddress().Serial, first.Serial+2, first.Serial)
	}
}

func TestReplacedHubKey_SignsANewDocument(t *testing.T) {
	key, other := newKey(t), newKey(t)
	hub := start(t, key)
	handle(t, hub)
	hub.Put(keySecret(t, other))
	loadKey(t, hub)
	hub.Pass(time.Hour)
	handle(t, hub)
	if got := current(t, hub, other); got.Serial != hub.Now().Unix() || got.AddressSerial != got.Serial {
		t.Errorf("document %+v", got)
	}
}

func TestWhatIsNotThereYet_IsAwaited(t *testing.T) {
	key := newKey(t)
	hub := start(t, key, tokenSecret("u1", tokenOf("u1")))
	recent := account("u2")
	recent.CreationTimestamp = metav1.NewTime(hub.Now())
	hub.Put(recent)
	loaded := hub.App.Recoveries
	hub.App.Recoveries = recoveries.New(nil, "", hub.Now)
	handle(t, hub)
	hubtest.ExpectRequests(t, hub)
	hubtest.ExpectWoken(t, hub, fmt.Sprintf("ConfigMap %s in %s", own, waitDelay))
	hub.App.Recoveries = loaded
	handle(t, hub)
	hubtest.ExpectWoken(t, hub, fmt.Sprintf("ConfigMap %s in %s", own, waitDelay), rechecks) // for the token
	if got := current(t, hub, key); len(got.Tokens) != 0 {
		t.Errorf("the token of an earlier account is published: %v", got.Tokens)
	}
	hub.Put(tokenSecret("u2", tokenOf("u1")))
	handle(t, hub)
	hubtest.ExpectWoken(t, hub, fmt.Sprintf("ConfigMap %s in %s", own, waitDelay), rechecks)
	if got := current(t, hub, key); len(got.Tokens) != 0 {
		t.Errorf("the token of another account in the Secret is published: %v", got.Tokens)
	}
	hub.Pass(newAccount)
	handle(t, hub)
	hubtest.ExpectWoken(t, hub, rechecks)
	hub.Put(tokenSecret("u2", tokenOf("u2")))
	handle(t, hub)
	hubtest.ExpectWoken(t, hub, rechecks)
	if token, err := func() (string, error) { d := current(t, hub, key); return d.Token(key.WorkspaceKey("ws")) }(); err != nil || token != tokenOf("u2") {
		t.Errorf("token %q, error %v", token, err)
	}
}

func TestDeletedOrChangedDocument_IsWrittenAgain(t *testing.T) {
	key := newKey(t)
	published := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-public", Name: "fleet-hub", Labels: map[string]string{fleet.LabelManaged: "true"}}}
	for name, test := range map[string]struct {
		change func(*hubtest.Hub)
		want   string
	}{
		"deleted": {func(h *hubtest.Hub) { h.Remove(published) }, creates},
		"changed": {func(h *hubtest.Hub) { h.Have(published) }, updates},
	} {
		t.Run(name, func(t *testing.T) {
			hub := start(t, key)
			handle(t, hub)
			hubtest.ExpectWoken(t, hub, rechecks)
			hub.Requests()
			test.change(hub)
			handle(t, hub)
			hubtest.ExpectRequests(t, hub, readOld, test.want)
			hubtest.ExpectWoken(t, hub, rechecks)
			if got := current(t, hub, key); got.URL != hubURL {
				t.Errorf("URL %q", got.URL)
			}
		})
	}
}

func TestProblem_IsTriedAgainLater(t *testing.T) {
	key := newKey(t)
	foreign := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-public", Name: "fleet-hub"}}
	tests := map[string]func(*hubtest.Hub){
		"ConfigMap of another owner":  func(h *hubtest.Hub) { h.Put(foreign) },
		"ConfigMap cannot be written": func(h *hubtest.Hub) { h.Fail(creates, errServer) },
		"URL that agents cannot use":  func(h *hubtest.Hub) { h.App.Config.Set(config.Config{APIServerURL: "http://hub"}) },
		"CA that exceeds the document": func(h *hubtest.Hub) {
			h.App.Config.Set(config.Config{APIServerURL: hubURL, APIServerCA: make([]byte, 1<<20)})
		},
		"another hub wrote in between": func(h *hubtest.Hub) { h.Before(creates, func() { h.Have(foreign) }) },
	}
	for name, prepare := range tests {
		t.Run(name, func(t *testing.T) {
			hub := start(t, key)
			prepare(hub)
			hub.Woken()
			handle(t, hub)
			hubtest.ExpectWoken(t, hub, "ConfigMap "+own+" in 1m0s")
			if hub.App.PublishedAddress().Serial != 0 {
				t.Error("a document counts as published")
			}
			handle(t, hub)
			hubtest.ExpectWoken(t, hub, "ConfigMap "+own+" in 1m0s")
		})
	}
}

func TestServerThatFailsReads_IsAskedAgain(t *testing.T) {
	for _, request := range []string{readOld, readToken} {
		t.Run(request, func(t *testing.T) {
			hub := start(t, newKey(t), account("u1"), tokenSecret("u1", tokenOf("u1")))
			hub.Fail(request, errServer)
			if err := hub.Handle("ConfigMap", own); !errors.Is(err, errServer) {
				t.Errorf("error %v, want the server's", err)
			}
		})
	}
}

// Clusters whose agents have no key cannot return, and are not counted.
func TestRecoverySpread_CountsClustersWithAKey(t *testing.T) {
	key := newKey(t)
	hub := start(t, key)
	add := func(from, to int, annotations map[string]string) {
		for i := from; i < to; i++ {
			hub.Put(&fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: fmt.Sprint("c", i), Annotations: annotations}})
		}
		hub.Requests()
		handle(t, hub)
	}
	add(0, 1000, map[string]string{annotation.AgentKey: "key"})
	add(1000, 1500, nil)
	hubtest.ExpectRequests(t, hub, readOld)
	if got := current(t, hub, key).RecoverySpread; got != 0 {
		t.Errorf("1,000 clusters: spread %s", got)
	}
	add(1500, 1501, map[string]string{annotation.AgentKey: "key"})
	hubtest.ExpectRequests(t, hub, readOld, updates)
	if got := current(t, hub, key).RecoverySpread; got != 2*time.Minute {
		t.Errorf("1,001 clusters: spread %s", got)
	}
}
