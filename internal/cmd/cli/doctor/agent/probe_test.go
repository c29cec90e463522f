package agent

import (
	"crypto/tls"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/fleet-hub/fleet/internal/cmd/cli/doctor/check"
	kubeconfigs "github.com/fleet-hub/fleet/internal/kube/kubeconfig"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
)

// token returns a token of an account.
func token(uid string, expires int64) string {
	claims := fmt.Sprintf(`{"exp":%d,"kubernetes.io":{"serviceaccount":{"uid":%q}}}`, expires, uid)
	return "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".CANARY"
}

// identity returns Secret fleet-agent.
func identity(t *testing.T, server string, ca []byte, token string) *corev1.Secret {
	t.Helper()
	cfg := api.NewConfig()
	cfg.Clusters["cluster"] = &api.Cluster{Server: server, CertificateAuthorityData: ca}
	cfg.AuthInfos["user"] = &api.AuthInfo{Token: token}
	cfg.Contexts["default"] = &api.Context{Cluster: "cluster", AuthInfo: "user"}
	cfg.CurrentContext = "default"
	encoded, err := clientcmd.Write(*cfg)
	if err != nil {
		t.Fatal(err)
	}
	return &corev1.Secret{ObjectMeta: named(names.Agent), Data: protocol.Identity{
		Kubeconfig: encoded, DeploymentNamespace: "cluster-fleet-default-east-0f0350029557", ClusterNamespace: "fleet-default", ClusterName: "east",
	}.Encode()}
}

func TestReadCredential(t *testing.T) {
	ca := certificate(t, noon())
	exec := identity(t, server, ca, "")
	exec.Data["kubeconfig"] = []byte(strings.Replace(string(exec.Data["kubeconfig"]), "user: {}", "user: {exec: {command: rm, apiVersion: client.authentication.k8s.io/v1}}", 1))
	huge := identity(t, server, ca, "x")
	huge.Data["kubeconfig"] = append(huge.Data["kubeconfig"], make([]byte, maxKubeconfig)...)
	incomplete := identity(t, server, ca, "x")
	delete(incomplete.Data, "clusterName")
	for name, test := range map[string]struct {
		secret  *corev1.Secret
		is      error
		account string
		expires time.Time
		token   string
	}{
		"complete":              {identity(t, server, ca, token("u-1", noon().Unix())), nil, "u-1", noon(), token("u-1", noon().Unix())},
		"token without claims":  {identity(t, server, ca, "opaque"), nil, "", time.Time{}, "opaque"},
		"no token":              {identity(t, server, ca, ""), kubeconfigs.ErrKubeconfigMalformed, "", time.Time{}, ""},
		"token is too long":     {identity(t, server, ca, strings.Repeat("x", maxToken+1)), kubeconfigs.ErrKubeconfigMalformed, "", time.Time{}, ""},
		"key is missing":        {incomplete, protocol.ErrIncomplete, "", time.Time{}, ""},
		"runs a command":        {exec, kubeconfigs.ErrKubeconfigExec, "", time.Time{}, ""},
		"kubeconfig is too big": {huge, kubeconfigs.ErrKubeconfigMalformed, "", time.Time{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, token := readCredential(test.secret)
			if !got.Exists || !errors.Is(got.Err, test.is) || got.Account != test.account || !got.Expires.Equal(test.expires) || token != test.token {
				t.Errorf("%+v, %d bytes of token", got, len(token))
			}
			if strings.Contains(fmt.Sprintf("%+v", got), "CANARY") {
				t.Error("the facts contain the token")
			}
		})
	}
	if got, token := readCredential(nil); got.Exists || token != "" {
		t.Errorf("%+v", got)
	}
}

func TestReadBootstrap(t *testing.T) {
	complete := protocol.Bootstrap{APIServerURL: server, ClusterNamespace: "fleet-default", Token: "CANARY", SystemRegistrationNamespace: "s"}
	secret := &corev1.Secret{ObjectMeta: named(names.AgentBootstrap), Data: complete.Encode()}
	at := ago(time.Minute)
	secret.ManagedFields = []metav1.ManagedFieldsEntry{{Time: &at}}
	got := readBootstrap(secret)
	if !got.Exists || got.Err != nil || got.Server != server || got.Workspace != "fleet-default" || !got.Since.Equal(at.Time) {
		t.Errorf("%+v", got)
	}
	delete(secret.Data, "token")
	if got := readBootstrap(secret); !errors.Is(got.Err, protocol.ErrIncomplete) {
		t.Errorf("%+v", got)
	}
	if got := readBootstrap(nil); got.Exists {
		t.Errorf("%+v", got)
	}
}

// fakeHub answers requests, and records them.
type fakeHub struct {
	mu       sync.Mutex
	requests []string
	// answers are the statuses of paths. Others are 200.
	answers map[string]int
}

func (h *fakeHub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.requests = append(h.requests, r.Method+" "+r.URL.Path+" "+r.Header.Get("Authorization"))
	w.Header().Set("Date", noon().Add(3*time.Minute).Format(http.TimeFormat))
	w.Header().Set("Location", "/elsewhere")
	if code := h.answers[r.URL.Path]; code != 0 {
		w.WriteHeader(code)
	}
	_, _ = io.WriteString(w, `{"status":{"agent":{"lastSeen":"2026-05-04T11:59:00Z"}}}`) // the client has gone
}

// serve starts a TLS server of a hub and returns its address and its CA.
func (h *fakeHub) serve(t *testing.T, expires time.Time) (address string, ca []byte) {
	t.Helper()
	der, key := pair(t, expires)
	server := httptest.NewUnstartedServer(h)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.URL, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

const (
	deployments = "/apis/fleet.cattle.io/v1alpha1/namespaces/cluster-fleet-default-east-0f0350029557/bundledeployments"
	status      = "/apis/fleet.cattle.io/v1alpha1/namespaces/fleet-default/clusters/east/status"
)

func TestProbe(t *testing.T) {
	valid, other := time.Now().AddDate(1, 0, 0), certificate(t, time.Now().AddDate(1, 0, 0))
	all := []string{"GET /readyz Bearer bearer", "GET " + deployments + " Bearer bearer", "PATCH " + status + " Bearer bearer"}
	for name, test := range map[string]struct {
		answers  map[string]int
		expires  time.Time
		ca       []byte
		insecure bool
		// requests are those that the hub gets, and want are the checks that do not pass.
		requests []string
		want     string
	}{
		"hub accepts the agent": {requests: all},
		"identity is revoked":   {answers: map[string]int{"/readyz": 401}, requests: all[:1], want: "agent-hub-accepts failed"},
		"hub is not ready":      {answers: map[string]int{"/readyz": 500}, requests: all, want: "agent-hub-ready failed"},
		"rights are deleted":    {answers: map[string]int{deployments: 403}, requests: all[:2], want: "agent-hub-accepts failed"},
		"Cluster is deleted":    {answers: map[string]int{status: 404}, requests: all, want: "agent-hub-accepts failed"},
		"server redirects":      {answers: map[string]int{"/readyz": 302}, requests: all[:1], want: "agent-hub-certificate failed"},
		"server of another CA":  {ca: other, want: "agent-hub-certificate failed"},
		"expired certificate":   {expires: time.Now().AddDate(0, 0, -1), want: "agent-hub-certificate failed"},
		"address without TLS":   {insecure: true, want: "agent-hub-url failed"},
	} {
		t.Run(name, func(t *testing.T) {
			hub := &fakeHub{answers: test.answers}
			if test.expires.IsZero() {
				test.expires = valid
			}
			f := healthy(t)
			f.Now, f.Clock.Offset = time.Now(), 3*time.Minute
			f.Credential.Server, f.Credential.CA = hub.serve(t, test.expires)
			if test.ca != nil {
				f.Credential.CA = test.ca
			}
			if test.insecure {
				f.Credential.Server = strings.Replace(f.Credential.Server, "https:", "http:", 1)
			}
			f.Probe = probe(t.Context(), f.Credential, "bearer", noon)
			if got, want := fmt.Sprint(hub.requests), fmt.Sprint(test.requests); got != want {
				t.Errorf("requests %s, want %s", got, want)
			}
			if f.Probe.Sent && f.Probe.Err == nil && f.Probe.Answer.Offset != 3*time.Minute {
				t.Errorf("offset %s", f.Probe.Answer.Offset)
			}
			var failed []string
			for _, id := range []string{"agent-hub-url", "agent-hub-certificate", "agent-hub-ready", "agent-hub-accepts"} {
				for _, row := range problems(f, id) {
					failed = append(failed, id+" "+string(row.Verdict))
				}
			}
			if got := strings.Join(failed, ", "); got != test.want {
				t.Errorf("problems %q, want %q; probe %+v", got, test.want, f.Probe)
			}
		})
	}
}

func TestUnreachableCluster_FailsOneCheckAndSkipsTheOthers(t *testing.T) {
	f := healthy(t)
	rows := Unreachable(f.Scope, errors.New("no route"), noon()).Rows()
	for _, row := range rows {
		if want := map[bool]check.Verdict{true: check.Failed, false: check.Skipped}[row.ID == "agent-api"]; row.Verdict != want {
			t.Errorf("%+v", row)
		}
	}
	if len(rows) != len(Checks()) {
		t.Errorf("%d rows", len(rows))
	}
}
