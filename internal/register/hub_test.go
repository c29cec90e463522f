package register

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/rules/registering"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// answers is an API server that answers each "METHOD path?query" with what is written down for it, and
// notes what it was asked.
type answers struct {
	t      *testing.T
	given  map[string]answer
	asked  []string
	server *httptest.Server
}

type answer struct {
	status int
	body   string
}

func serveAnswers(t *testing.T, given map[string]answer) *answers {
	t.Helper()
	a := &answers{t: t, given: given}
	a.server = httptest.NewUnstartedServer(a)
	a.server.Config.ErrorLog = quiet()
	a.server.StartTLS()
	t.Cleanup(a.server.Close)
	return a
}

func (a *answers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key := r.Method + " " + r.URL.RequestURI()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		a.t.Error(err)
	}
	a.asked = append(a.asked, key+" "+r.Header.Get("Authorization")+" "+string(body))
	given, known := a.given[key]
	if !known {
		a.t.Errorf("asked for %s", key)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(given.status)
	if _, err := w.Write([]byte(given.body)); err != nil {
		a.t.Error(err)
	}
}

func (a *answers) access() Access {
	return Access{
		Server: a.server.URL, Token: "t",
		CA: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.server.Certificate().Raw}),
	}
}

func (a *answers) expectAsked(want ...string) {
	a.t.Helper()
	if diff := cmp.Diff(want, a.asked); diff != "" {
		a.t.Errorf("asked (-want +got):\n%s", diff)
	}
}

func hubAt(t *testing.T, access Access) Hub {
	t.Helper()
	hub, err := Connect(access.Config())
	if err != nil {
		t.Fatal(err)
	}
	return hub
}

func status(code int, reason metav1.StatusReason) answer {
	return answer{code, fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d}`, reason, code)}
}

func TestHubRegister(t *testing.T) {
	const path = "/apis/fleet.cattle.io/v1alpha1/namespaces/fleet-default/clusterregistrations"
	server := serveAnswers(t, map[string]answer{"POST " + path: {http.StatusCreated,
		`{"apiVersion":"fleet.cattle.io/v1alpha1","kind":"ClusterRegistration","metadata":{"name":"request-5k4nm","namespace":"fleet-default"},"spec":{"clientID":"c","clientRandom":"r"}}`}})
	made, err := hubAt(t, server.access()).Register(t.Context(), registering.NewRequest(registering.RequestInput{
		Bootstrap: protocol.Bootstrap{ClusterNamespace: "fleet-default", TokenName: "t1"},
		SystemUID: "c", Random: "r", Pod: "fleet-agent-x",
	}))
	if err != nil {
		t.Fatal(err)
	}
	want := &fleet.ClusterRegistration{
		ObjectMeta: metav1.ObjectMeta{Name: "request-5k4nm", Namespace: "fleet-default"},
		Spec:       fleet.ClusterRegistrationSpec{ClientID: "c", ClientRandom: "r"},
	}
	made.TypeMeta = metav1.TypeMeta{}
	if diff := cmp.Diff(want, made); diff != "" {
		t.Errorf("made (-want +got):\n%s", diff)
	}
	server.expectAsked("POST " + path + ` Bearer t {"kind":"ClusterRegistration","apiVersion":"fleet.cattle.io/v1alpha1",` +
		`"metadata":{"generateName":"request-","namespace":"fleet-default","labels":{"fleet.cattle.io/registration-token":"t1"}},` +
		`"spec":{"clientID":"c","clientRandom":"r","clusterLabels":{"fleet.cattle.io/created-by-agent-pod":"fleet-agent-x"}},"status":{}}` + "\n")
}

func TestHubCredential(t *testing.T) {
	const path = "/api/v1/namespaces/cattle-fleet-clusters-system/secrets/c-1"
	server := serveAnswers(t, map[string]answer{"GET " + path: {http.StatusOK,
		`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"c-1"},"data":{"token":"YQ=="}}`}})
	secret, err := hubAt(t, server.access()).Credential(t.Context(), "cattle-fleet-clusters-system", "c-1")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string][]byte{"token": []byte("a")}, secret.Data); diff != "" {
		t.Errorf("data (-want +got):\n%s", diff)
	}
	server.expectAsked("GET " + path + " Bearer t ")
}

func TestHubWatchCredential(t *testing.T) {
	const query = "/api/v1/namespaces/r/secrets?fieldSelector=metadata.name%3Dc-1&watch=true"
	server := serveAnswers(t, map[string]answer{"GET " + query: {http.StatusOK,
		`{"type":"ADDED","object":{"apiVersion":"v1","kind":"Secret","metadata":{"name":"c-1"}}}` + "\n"}})
	watching, err := hubAt(t, server.access()).WatchCredential(t.Context(), "r", "c-1")
	if err != nil {
		t.Fatal(err)
	}
	defer watching.Stop()
	event := <-watching.ResultChan()
	if secret, ok := event.Object.(*corev1.Secret); event.Type != watch.Added || !ok || secret.Name != "c-1" {
		t.Errorf("event %+v", event)
	}
	server.expectAsked("GET " + query + " Bearer t ")
}

func TestHubProve(t *testing.T) {
	const path = "/apis/fleet.cattle.io/v1alpha1/namespaces/cluster-a/bundledeployments?limit=1&resourceVersion=0"
	tests := map[string]struct {
		answer answer
		want   registering.Answer
	}{
		"an empty list":           {answer{http.StatusOK, `{"apiVersion":"fleet.cattle.io/v1alpha1","kind":"BundleDeploymentList","items":[]}`}, registering.Accepted},
		"401":                     {status(401, metav1.StatusReasonUnauthorized), registering.Rejected},
		"403":                     {status(403, metav1.StatusReasonForbidden), registering.Rejected},
		"401 of a proxy":          {answer{401, "who are you?"}, registering.Rejected},
		"404 of another server":   {answer{404, "<html>"}, registering.Unanswered},
		"503 of an API server":    {status(503, metav1.StatusReasonServiceUnavailable), registering.Unanswered},
		"502 of a load balancer":  {answer{502, "<html>bad gateway</html>"}, registering.Unanswered},
		"500 while etcd is away":  {status(500, metav1.StatusReasonInternalError), registering.Unanswered},
		"a redirect to elsewhere": {answer{302, ""}, registering.Unanswered},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			server := serveAnswers(t, map[string]answer{"GET " + path: test.answer})
			err := hubAt(t, server.access()).Prove(t.Context(), "cluster-a")
			if got := answerOf(err); got != test.want {
				t.Errorf("answer %q (%v), want %q", got, err, test.want)
			}
			server.expectAsked("GET " + path + " Bearer t ")
		})
	}
}

// What a connection that does not come about says of an identity.
func TestHubProveWithoutConnection(t *testing.T) {
	tests := map[string]struct {
		access func(*testing.T, *answers) Access
		want   registering.Answer
	}{
		"a certificate of another CA": {func(t *testing.T, s *answers) Access {
			access := s.access()
			access.CA = newCA(t)
			return access
		}, registering.Untrusted},
		"a certificate the system's roots do not know": {func(_ *testing.T, s *answers) Access {
			access := s.access()
			access.CA = nil
			return access
		}, registering.Untrusted},
		"a server that is gone": {func(_ *testing.T, s *answers) Access {
			s.server.Close()
			return s.access()
		}, registering.Unanswered},
		"a certificate for another host": {func(_ *testing.T, s *answers) Access {
			access := s.access()
			access.Server = "https://localhost:" + s.server.URL[len("https://127.0.0.1:"):]
			return access
		}, registering.Unanswered},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			server := serveAnswers(t, nil)
			err := hubAt(t, test.access(t, server)).Prove(t.Context(), "cluster-a")
			if got := answerOf(err); got != test.want {
				t.Errorf("answer %q (%v), want %q", got, err, test.want)
			}
			server.expectAsked()
		})
	}
}

// The TLS modes decide what is stored: system-store keeps the CA where the system's roots do not suffice.
func TestReach(t *testing.T) {
	server := serveAnswers(t, nil)
	access := server.access()
	tests := map[string]struct {
		mode string
		ca   []byte
	}{
		"strict keeps the CA":                              {"strict", access.CA},
		"no mode is strict":                                {"", access.CA},
		"system-store keeps it where it is needed":         {"system-store", access.CA},
		"system-store without a CA relies on the system's": {"system-store", nil},
		"a CA that is of no use is kept, to be found out":  {"system-store", newCA(t)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			a := newAgent(Options{Clock: func() time.Time { return time.Time{} }, Random: zeros{}}, nil)
			a.found.config = config.Agent{AgentTLSMode: test.mode}
			a.attempt = &attempt{bootstrap: protocol.Bootstrap{APIServerURL: access.Server, APIServerCA: test.ca, Token: "t", ClusterNamespace: "fleet-default"}}
			err := a.reach(t.Context(), a.attempt)
			if err != nil {
				t.Fatal(err)
			}
			want := Access{Server: access.Server, CA: test.ca, Token: "t", Namespace: "fleet-default"}
			if diff := cmp.Diff(want, a.attempt.access); diff != "" {
				t.Errorf("access (-want +got):\n%s", diff)
			}
		})
	}
}

// A whole registration over TLS: the identity that is stored reaches the hub as the import identity did.
func TestRegistrationOverTLS(t *testing.T) {
	const (
		post   = "POST /apis/fleet.cattle.io/v1alpha1/namespaces/fleet-default/clusterregistrations"
		list   = "GET /apis/fleet.cattle.io/v1alpha1/namespaces/cluster-a/bundledeployments?limit=1&resourceVersion=0"
		random = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
	)
	credential := `{"apiVersion":"v1","kind":"Secret","data":{"token":"YWNjb3VudA==","deploymentNamespace":"Y2x1c3Rlci1h","clusterNamespace":"ZmxlZXQtZGVmYXVsdA==","clusterName":"YQ=="}}`
	for _, mode := range []string{"strict", "system-store"} {
		t.Run(mode, func(t *testing.T) {
			server := serveAnswers(t, map[string]answer{
				post: {http.StatusCreated, `{"apiVersion":"fleet.cattle.io/v1alpha1","kind":"ClusterRegistration","metadata":{"name":"request-1","namespace":"fleet-default"},"spec":{"clientID":"c1","clientRandom":"` + random + `"}}`},
				list: {http.StatusOK, `{"apiVersion":"fleet.cattle.io/v1alpha1","kind":"BundleDeploymentList","items":[]}`},
				// The name is that of the contract: c- and the beginning of the SHA-256 of both.
				"GET /api/v1/namespaces/r/secrets/" + credentialName("c1", random): {http.StatusOK, credential},
			})
			encoded, err := config.Agent{ClientID: "c1", AgentTLSMode: mode}.Encode()
			if err != nil {
				t.Fatal(err)
			}
			access := server.access()
			local := fake.NewClientset(
				&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: agentNS, Name: "fleet-agent"}, Data: map[string]string{"config": encoded}},
				&corev1.Secret{
					ObjectMeta: metav1.ObjectMeta{Namespace: agentNS, Name: "fleet-agent-bootstrap"},
					Data: protocol.Bootstrap{
						APIServerURL: access.Server, APIServerCA: access.CA, ClusterNamespace: "fleet-default", Token: "import",
						TokenName: "t1", SystemRegistrationNamespace: "r",
					}.Encode(),
				},
			)
			done := errors.New("seen enough")
			var session Session
			err = Run(t.Context(), Options{
				Local: local, Namespace: agentNS, Clock: time.Now, Random: byteReader(0),
			}, func(_ context.Context, s Session) error {
				session = s
				return done
			})
			if !errors.Is(err, done) {
				t.Fatal(err)
			}
			stored, err := local.CoreV1().Secrets(agentNS).Get(t.Context(), "fleet-agent", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			want := Access{Server: access.Server, CA: access.CA, Token: "account", Namespace: "cluster-a"}
			kubeconfig, err := want.Kubeconfig()
			if err != nil {
				t.Fatal(err)
			}
			wantStored := protocol.Identity{Kubeconfig: kubeconfig, DeploymentNamespace: "cluster-a", ClusterNamespace: "fleet-default", ClusterName: "a"}
			if diff := cmp.Diff(wantStored.Encode(), stored.Data); diff != "" {
				t.Errorf("stored (-want +got):\n%s", diff)
			}
			if got := [3]string{session.ClusterNamespace, session.ClusterName, session.DeploymentNamespace}; got != [3]string{"fleet-default", "a", "cluster-a"} {
				t.Errorf("session for %v", got)
			}
			if err := hubOf(t, session).Prove(t.Context(), "cluster-a"); err != nil {
				t.Errorf("the session does not reach the hub: %v", err)
			}
			_, err = local.CoreV1().Secrets(agentNS).Get(t.Context(), "fleet-agent-bootstrap", metav1.GetOptions{})
			if !apierrors.IsNotFound(err) {
				t.Errorf("the bootstrap secret is still there (%v)", err)
			}
		})
	}
}

func hubOf(t *testing.T, session Session) Hub {
	t.Helper()
	hub, err := Connect(session.Hub)
	if err != nil {
		t.Fatal(err)
	}
	return hub
}
