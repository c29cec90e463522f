package bootstrap

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/fleet-hub/fleet/e2e/framework/golden"
	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/hubtest"
	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/kube"
	"github.com/fleet-hub/fleet/internal/kube/kubeconfig"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/rules/clusters"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

const (
	ownKeyText = "cattle-fleet-system/fleet-controller"
	accountUID = "a0e1152f-0af2-4e49-adf1-f6eff44d1d17"
)

func noon() time.Time { return time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC) }

func tokenUntil(uid string, life time.Duration) string { return hubtest.Token(uid, noon().Add(life)) }

func bootAccount() *corev1.ServiceAccount {
	return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "cattle-fleet-system", Name: "fleet-controller-bootstrap", UID: accountUID}}
}

// known is everything a hub with the chart's defaults knows of itself.
func known(changes ...func(*input)) input {
	in := input{
		now: noon(), config: config.Bootstrap{Namespace: "fleet-local"}, systemNamespace: "cattle-fleet-system",
		server: "https://10.43.0.1:443", ca: []byte("CA"), account: bootAccount(),
		tolerations: []corev1.Toleration{{Key: "cattle.io/os", Operator: "Equal", Value: "linux", Effect: "NoSchedule"}},
	}
	for _, change := range changes {
		change(&in)
	}
	return in
}

func TestDecide(t *testing.T) {
	mint := &protocol.Mint{Namespace: "cattle-fleet-system", Account: "fleet-controller-bootstrap", Lifetime: protocol.TokenLifetime}
	good := tokenUntil(accountUID, time.Hour)
	tests := map[string]struct {
		in    input
		stage stage
		mint  *protocol.Mint
		token string // in the kubeconfig
		raw   string // the kubeconfig
		// holder is the only Secret it may be written to
		holder types.UID
	}{
		"no namespace: no Cluster":        {in: known(func(in *input) { in.config.Namespace = "" }), stage: disabled},
		"namespace is a dash: no Cluster": {in: known(func(in *input) { in.config.Namespace = "-" }), stage: disabled},
		"no token: one is requested":      {in: known(), stage: minting, mint: mint},
		"valid token: kept": {
			in: known(func(in *input) { in.held, in.holder = good, "s" }), stage: registered, token: good, holder: "s",
		},
		"token without an expiry: kept": {
			in: known(func(in *input) { in.held = hubtest.Token(accountUID, time.Time{}) }), stage: registered, token: hubtest.Token(accountUID, time.Time{}),
		},
		"expired token: replaced": {
			in: known(func(in *input) { in.held, in.holder = tokenUntil(accountUID, -time.Second), "s" }), stage: minting, mint: mint,
		},
		"token of a former account: replaced": {
			in: known(func(in *input) { in.held = tokenUntil("before", time.Hour) }), stage: minting, mint: mint,
		},
		"token rejected by the API server: replaced": {
			in: known(func(in *input) { in.held, in.holder, in.rejected = good, "s", true }), stage: minting, mint: mint,
		},
		"invalid token: replaced": {in: known(func(in *input) { in.held = "x" }), stage: minting, mint: mint},
		"no account: token of the process": {
			in: known(func(in *input) { in.account, in.ownToken = nil, "own" }), stage: registered, token: "own",
		},
		"no account and token: kubeconfig of the process": {
			in: known(func(in *input) { in.account, in.ownKubeconfig = nil, []byte("own kubeconfig") }), stage: registered, raw: "own kubeconfig",
		},
		"no account, token and kubeconfig: no token": {
			in: known(func(in *input) { in.account = nil }), stage: registered, token: "",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := decide(test.in)
			if err != nil {
				t.Fatal(err)
			}
			if got.stage != test.stage {
				t.Errorf("stage %s, want %s", got.stage, test.stage)
			}
			if diff := cmp.Diff(test.mint, got.mint); diff != "" {
				t.Errorf("minted (-want +got):\n%s", diff)
			}
			if found := tokenIn(got.kubeconfig); found != test.token {
				t.Errorf("the kubeconfig's token is %q, want %q", found, test.token)
			}
			if got.holder != test.holder {
				t.Errorf("for Secret %q, want %q", got.holder, test.holder)
			}
			if test.raw != "" && string(got.kubeconfig) != test.raw {
				t.Errorf("the kubeconfig is %q", got.kubeconfig)
			}
		})
	}
}

func TestTokenIn(t *testing.T) {
	tests := map[string]struct{ in, want string }{
		"invalid kubeconfig":          {in: "- x"},
		"kubeconfig with other names": {in: "apiVersion: v1\nkind: Config\nusers: [{name: admin, user: {token: t}}]\n"},
		"kubeconfig without a user":   {in: "apiVersion: v1\nkind: Config\n"},
		"generated kubeconfig":        {in: "apiVersion: v1\nkind: Config\nusers: [{name: user, user: {token: t}}]\n", want: "t"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := tokenIn([]byte(test.in)); got != test.want {
				t.Errorf("got %q", got)
			}
		})
	}
}

func TestChildren(t *testing.T) {
	tests := map[string]input{
		"defaults": known(),
		"everything": known(func(in *input) {
			in.config.ClusterLabels = map[string]string{"env": "hub", "name": "renamed"}
			in.config.AgentNamespace = "cattle-fleet-local-system"
			in.config.Namespace = "elsewhere"
		}),
		"nothing-known": known(func(in *input) { in.tolerations, in.ca = nil, nil }),
	}
	for name, in := range tests {
		t.Run(name, func(t *testing.T) {
			kubeconfig, err := kubeconfigWith(in, "TOKEN")
			if err != nil {
				t.Fatal(err)
			}
			expectGolden(t, name, children(in, kubeconfig, ""))
		})
	}
	t.Run("hub-data", func(t *testing.T) {
		expectGolden(t, "hub-data", data(clusters.Namespaces{System: "cattle-fleet-system", Registration: "cattle-fleet-clusters-system"}))
	})
}

// expectGolden compares objects with a file; Secrets' data are shown decoded.
func expectGolden(t *testing.T, name string, objects []runtime.Object) {
	t.Helper()
	var documents []string
	for _, object := range objects {
		if secret, ok := object.(*corev1.Secret); ok {
			shown := secret.DeepCopy()
			shown.StringData = map[string]string{}
			for key, value := range secret.Data {
				shown.StringData[key] = string(value)
			}
			shown.Data = nil
			object = shown
		}
		document, err := yaml.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		documents = append(documents, string(document))
	}
	golden.Expect(t, name+".golden", strings.Join(documents, "---\n"))
}

// newHub is a hub with the controller on it, configured as by the chart.
func newHub(t *testing.T, objects ...hubtest.Object) *hubtest.Hub {
	t.Helper()
	hub := hubtest.New(t)
	hub.App.Own = kube.Own{Config: &rest.Config{Host: "https://10.43.0.1:443", TLSClientConfig: rest.TLSClientConfig{CAData: []byte("CA")}}}
	hub.App.Config.Set(config.Config{Bootstrap: config.Bootstrap{Namespace: "fleet-local"}})
	if err := Register(context.Background(), hub.App); err != nil {
		t.Fatal(err)
	}
	hubtest.ExpectWoken(t, hub, "ClusterRole fleet-content", "Deployment "+ownKeyText)
	hub.Put(objects...)
	return hub
}

func handle(t *testing.T, hub *hubtest.Hub) {
	t.Helper()
	if err := hub.Handle("Deployment", ownKeyText); err != nil {
		t.Fatal(err)
	}
}

const (
	mintLine    = "mint cattle-fleet-system/fleet-controller-bootstrap 1193046h28m15s"
	accountLine = "get ServiceAccount cattle-fleet-system/fleet-controller-bootstrap"
	secretLine  = "get Secret fleet-local/local-cluster"
	reviewLine  = "review token"
)

func TestHub_RegistersItselfOnce(t *testing.T) {
	own := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "cattle-fleet-system", Name: "fleet-controller"}}
	own.Spec.Template.Spec.Tolerations = []corev1.Toleration{{Key: "k"}}
	hub := newHub(t, bootAccount(), own)
	handle(t, hub)
	requests := hubtest.ExpectRequests(t, hub, accountLine, secretLine, mintLine,
		"create Namespace fleet-local", "create Secret fleet-local/local-cluster", "create Cluster fleet-local/local", "create ClusterGroup fleet-local/default")
	hubtest.ExpectOrder(t, requests, mintLine,
		"create Namespace fleet-local", "create Secret fleet-local/local-cluster", "create Cluster fleet-local/local", "create ClusterGroup fleet-local/default")
	secret := hubtest.MustGet[*corev1.Secret](t, hub, "fleet-local", "local-cluster")
	cfg, err := kubeconfig.Safe(secret.Data["value"])
	if err != nil || cfg.Host != "https://10.43.0.1:443" || string(cfg.CAData) != "CA" || cfg.BearerToken == "" {
		t.Errorf("the kubeconfig is %s: %v", secret.Data["value"], err)
	}
	local := hubtest.MustGet[*fleet.Cluster](t, hub, "fleet-local", "local")
	if diff := cmp.Diff([]corev1.Toleration{{Key: "k"}}, local.Spec.AgentTolerations); diff != "" {
		t.Errorf("tolerations (-want +got):\n%s", diff)
	}

	handle(t, hub) // again, before the caches have seen anything
	hubtest.ExpectRequests(t, hub, accountLine, secretLine, reviewLine)

	hub.Sync()
	handle(t, hub) // and after
	hubtest.ExpectRequests(t, hub, accountLine, reviewLine)
}

// helm uninstall deletes the Deployment while the leader still runs and may write.
func TestUninstalledHub_AgentKeepsItsTolerations(t *testing.T) {
	own := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "cattle-fleet-system", Name: "fleet-controller"}}
	own.Spec.Template.Spec.Tolerations = []corev1.Toleration{{Key: "k"}}
	hub := newHub(t, bootAccount(), own)
	handle(t, hub)
	hub.Sync()
	hub.Remove(own)
	handle(t, hub)
	local := hubtest.MustGet[*fleet.Cluster](t, hub, "fleet-local", "local")
	if diff := cmp.Diff([]corev1.Toleration{{Key: "k"}}, local.Spec.AgentTolerations); diff != "" {
		t.Errorf("tolerations (-want +got):\n%s", diff)
	}
}

// After a change of the key that signs tokens, the token looks as before, and the API server rejects it.
func TestRejectedToken_IsReplaced(t *testing.T) {
	hub := newHub(t, bootAccount())
	handle(t, hub)
	hub.Sync()
	hub.Pass(time.Minute) // so that the next token is another one
	before := hubtest.MustGet[*corev1.Secret](t, hub, "fleet-local", "local-cluster")
	old := tokenIn(before.Data["value"])
	hub.RejectTokens(func(token string) bool { return token == old })
	hub.Requests()
	handle(t, hub)
	hubtest.ExpectRequests(t, hub, accountLine, reviewLine, mintLine, "patch Secret fleet-local/local-cluster")
	after := hubtest.MustGet[*corev1.Secret](t, hub, "fleet-local", "local-cluster")
	if token := tokenIn(after.Data["value"]); token == "" || token == old {
		t.Errorf("token %q", token)
	}
	hub.Woken()
	hub.RejectTokens(func(string) bool { return true })
	hub.Sync()
	handle(t, hub) // the event of the Secret
	hubtest.ExpectRequests(t, hub, accountLine)

	hub.Pass(time.Minute)
	hub.Fail(reviewLine, errors.New("no"))
	handle(t, hub) // without an answer it counts as accepted
	hubtest.ExpectRequests(t, hub, accountLine, reviewLine)
	hub.Fail(reviewLine, nil)
	handle(t, hub)
	hubtest.ExpectRequests(t, hub, accountLine, reviewLine, mintLine, "patch Secret fleet-local/local-cluster")
	hubtest.ExpectWoken(t, hub, "Deployment "+ownKeyText+" in 1m0s")
}

func TestBootstrapWorkspaceChanges_ObjectsFollow(t *testing.T) {
	hub := newHub(t, bootAccount())
	handle(t, hub)
	hub.Sync()
	hub.Requests()

	hub.App.Config.Set(config.Config{Bootstrap: config.Bootstrap{Namespace: "moved"}})
	hubtest.ExpectWoken(t, hub, "Deployment "+ownKeyText)
	handle(t, hub)
	hubtest.ExpectRequests(t, hub, accountLine, "get Secret moved/local-cluster", mintLine,
		"create Namespace moved", "create Secret moved/local-cluster", "create Cluster moved/local", "create ClusterGroup moved/default",
		"delete Secret fleet-local/local-cluster", "delete Cluster fleet-local/local", "delete ClusterGroup fleet-local/default")

	hub.Sync()
	hub.App.Config.Set(config.Config{})
	handle(t, hub)
	hubtest.ExpectRequests(t, hub) // disabling removes nothing
}

func TestOtherObjects_AreIgnored(t *testing.T) {
	hub := newHub(t)
	if err := hub.Handle("Deployment", "cattle-fleet-system/other"); err != nil {
		t.Fatal(err)
	}
	if err := hub.Handle("ClusterRole", "fleet-bundle-deployment"); err != nil { // the other one's wake-up serves both
		t.Fatal(err)
	}
	hubtest.ExpectRequests(t, hub)
}

func TestDisabledByFlag_RegistersNothing(t *testing.T) {
	hub := hubtest.New(t)
	hub.App.Env.DisableBootstrap = true
	if err := Register(context.Background(), hub.App); err != nil {
		t.Fatal(err)
	}
	hubtest.ExpectWoken(t, hub, "ClusterRole fleet-content")
}

func TestNoBootstrapAccount_OwnCredentialIsUsed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("renewed\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		own   kube.Own
		token string
		value string
		err   string
	}{
		"token of the process":            {own: kube.Own{Config: &rest.Config{Host: "h", BearerToken: "own"}, Raw: []byte("raw")}, token: "own"},
		"current token of the token file": {own: kube.Own{Config: &rest.Config{Host: "h", BearerToken: "old", BearerTokenFile: file}}, token: "renewed"},
		"missing token file":              {own: kube.Own{Config: &rest.Config{Host: "h", BearerTokenFile: file + "x"}}, err: "reading the process's own token"},
		"missing CA file":                 {own: kube.Own{Config: &rest.Config{Host: "h", TLSClientConfig: rest.TLSClientConfig{CAFile: file + "x"}}}, err: "reading the API server's CA"},
		"kubeconfig of the process":       {own: kube.Own{Config: &rest.Config{Host: "h"}, Raw: []byte("raw")}, value: "raw"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			hub := newHub(t)
			hub.App.Own = test.own
			err := hub.Handle("Deployment", ownKeyText)
			if test.err != "" {
				if err == nil || !strings.HasPrefix(err.Error(), test.err) {
					t.Errorf("error %v, want %q", err, test.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			value := hubtest.MustGet[*corev1.Secret](t, hub, "fleet-local", "local-cluster").Data["value"]
			if test.value != "" && string(value) != test.value || tokenIn(value) != test.token {
				t.Errorf("the kubeconfig is %q", value)
			}
		})
	}
}

func TestCappedTokenLifetime_WaitsForTheTokenSecret(t *testing.T) {
	hub := newHub(t, bootAccount())
	hub.CapTokens(time.Hour)
	handle(t, hub)
	hubtest.ExpectWoken(t, hub, "Deployment "+ownKeyText+" in 500ms")
	if hubtest.Get[*corev1.Secret](hub, "fleet-local", "local-cluster") != nil {
		t.Error("a kubeconfig without a token")
	}
}

func TestFailedRequest_ErrorNamesTheObject(t *testing.T) {
	tests := map[string]string{
		accountLine:                        "reading account fleet-controller-bootstrap: no",
		secretLine:                         "reading Secret fleet-local/local-cluster: no",
		mintLine:                           "requesting a token of account cattle-fleet-system/fleet-controller-bootstrap: no",
		"create Cluster fleet-local/local": "registering the hub's own cluster: Cluster fleet-local/local: no",
		"create ClusterGroup fleet-local/default": "registering the hub's own cluster: ClusterGroup fleet-local/default: no",
	}
	for request, want := range tests {
		t.Run(request, func(t *testing.T) {
			hub := newHub(t, bootAccount())
			hub.Fail(request, errors.New("no"))
			if err := hub.Handle("Deployment", ownKeyText); err == nil || err.Error() != want {
				t.Errorf("error %v, want %q", err, want)
			}
		})
	}
	t.Run("a cache", func(t *testing.T) {
		hub := newHub(t, bootAccount())
		hub.Spoil(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Namespace: "fleet-local", Name: "local-cluster", Labels: map[string]string{fleet.LabelSetHash: "67f475f626e5473772f6084a291170a9de5942d1"},
		}})
		if err := hub.Handle("Deployment", ownKeyText); err == nil {
			t.Error("want an error")
		}
	})
}

func TestHubObjects_AreCreatedAndRestored(t *testing.T) {
	hub := newHub(t)
	hub.Have(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "cattle-fleet-system"}})
	hub.Sync()
	if err := hub.Handle("ClusterRole", "fleet-content"); err != nil {
		t.Fatal(err)
	}
	hubtest.ExpectRequests(t, hub, "create ClusterRole fleet-bundle-deployment", "create ClusterRole fleet-content",
		"patch Namespace cattle-fleet-system", "create Namespace cattle-fleet-clusters-system")
	hub.Sync()
	if err := hub.Handle("ClusterRole", "fleet-content"); err != nil {
		t.Fatal(err)
	}
	hubtest.ExpectRequests(t, hub)

	narrowed := hubtest.MustGet[*rbacv1.ClusterRole](t, hub, "", "fleet-bundle-deployment")
	narrowed.Rules = nil
	hub.Put(narrowed)
	if err := hub.Handle("ClusterRole", "fleet-content"); err != nil {
		t.Fatal(err)
	}
	hubtest.ExpectRequests(t, hub, "patch ClusterRole fleet-bundle-deployment")
}
