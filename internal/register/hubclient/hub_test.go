package hubclient

import (
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/fleet-hub/fleet/dev/plane/pki"
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
	contentType := "application/json"
	if strings.HasPrefix(given.body, "<") {
		contentType = "text/html"
	}
	w.Header().Set("Content-Type", contentType)
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
		"an empty list":          {answer{http.StatusOK, `{"apiVersion":"fleet.cattle.io/v1alpha1","kind":"BundleDeploymentList","items":[]}`}, registering.Accepted},
		"401":                    {status(401, metav1.StatusReasonUnauthorized), registering.Rejected},
		"403":                    {status(403, metav1.StatusReasonForbidden), registering.Rejected},
		"401 of a proxy":         {answer{401, "who are you?"}, registering.Rejected},
		"404 of another server":  {answer{404, "<html>"}, registering.Unanswered},
		"503 of an API server":   {status(503, metav1.StatusReasonServiceUnavailable), registering.Unanswered},
		"502 of a load balancer": {answer{502, "<html>bad gateway</html>"}, registering.Unanswered},
		"500 while etcd is away": {status(500, metav1.StatusReasonInternalError), registering.Unanswered},
		"redirect":               {answer{302, ""}, registering.Unanswered},
		"HTML page of a proxy":   {answer{200, "<html>sign in</html>"}, registering.Unanswered},
		"JSON of another server": {answer{200, `{"status":"ok"}`}, registering.Unanswered},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			server := serveAnswers(t, map[string]answer{"GET " + path: test.answer})
			err := hubAt(t, server.access()).Prove(t.Context(), "cluster-a")
			if got := AnswerOf(err); got != test.want {
				t.Errorf("answer %q (%v), want %q", got, err, test.want)
			}
			server.expectAsked("GET " + path + " Bearer t ")
		})
	}
}

func TestHubProve_ConnectionErrors(t *testing.T) {
	tests := map[string]struct {
		access func(*testing.T, *answers) Access
		want   registering.Answer
	}{
		"a certificate of another CA": {func(t *testing.T, s *answers) Access {
			access := s.access()
			access.CA = newCA(t)
			return access
		}, registering.Untrusted},
		"certificate not signed by the system's roots": {func(_ *testing.T, s *answers) Access {
			access := s.access()
			access.CA = nil
			return access
		}, registering.Untrusted},
		"closed server": {func(_ *testing.T, s *answers) Access {
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
			if got := AnswerOf(err); got != test.want {
				t.Errorf("answer %q (%v), want %q", got, err, test.want)
			}
			server.expectAsked()
		})
	}
}

// newCA returns a certificate that parses. Nothing is signed with it.
func newCA(t *testing.T) []byte {
	t.Helper()
	authority, err := pki.NewAuthority("ca", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return authority.Certificate
}

// quiet drops what an HTTP server logs about handshakes that clients end.
func quiet() *log.Logger { return log.New(io.Discard, "", 0) }
