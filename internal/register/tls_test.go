package register

import (
	"context"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/register/hubclient"
)

// serveTLS serves documents by method and path, and returns the access to their server.
func serveTLS(t *testing.T, documents map[string]string) hubclient.Access {
	t.Helper()
	mux := http.NewServeMux()
	for pattern, document := range documents {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, document)
		})
	}
	server := httptest.NewUnstartedServer(mux)
	server.Config.ErrorLog = quiet()
	server.StartTLS()
	t.Cleanup(server.Close)
	return hubclient.Access{
		Server: server.URL, Token: "t",
		CA: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
	}
}

// Mode system-store stores the CA only if the system's roots do not suffice.
func TestReach(t *testing.T) {
	access := serveTLS(t, nil)
	tests := map[string]struct {
		mode string
		ca   []byte
	}{
		"strict keeps the CA":                               {"strict", access.CA},
		"no mode: as strict":                                {"", access.CA},
		"system-store keeps a needed CA":                    {"system-store", access.CA},
		"system-store without a CA uses the roots":          {"system-store", nil},
		"unusable CA is kept, so that the proof reports it": {"system-store", newCA(t)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			a := newAgent(Options{Clock: func() time.Time { return time.Time{} }, Random: zeros{}}, nil)
			a.found.Config = config.Agent{AgentTLSMode: test.mode}
			a.attempt = &attempt{bootstrap: protocol.Bootstrap{APIServerURL: access.Server, APIServerCA: test.ca, Token: "t", ClusterNamespace: "fleet-default"}}
			err := a.reach(t.Context(), a.attempt)
			if err != nil {
				t.Fatal(err)
			}
			want := hubclient.Access{Server: access.Server, CA: test.ca, Token: "t", Namespace: "fleet-default"}
			if diff := cmp.Diff(want, a.attempt.access); diff != "" {
				t.Errorf("access (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRegistrationOverTLS_StoredIdentityReachesTheHub(t *testing.T) {
	const (
		post   = "POST /apis/fleet.cattle.io/v1alpha1/namespaces/fleet-default/clusterregistrations"
		list   = "GET /apis/fleet.cattle.io/v1alpha1/namespaces/cluster-a/bundledeployments"
		random = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
	)
	credential := `{"apiVersion":"v1","kind":"Secret","data":{"token":"YWNjb3VudA==","deploymentNamespace":"Y2x1c3Rlci1h","clusterNamespace":"ZmxlZXQtZGVmYXVsdA==","clusterName":"YQ=="}}`
	for _, mode := range []string{"strict", "system-store"} {
		t.Run(mode, func(t *testing.T) {
			access := serveTLS(t, map[string]string{
				post: `{"apiVersion":"fleet.cattle.io/v1alpha1","kind":"ClusterRegistration","metadata":{"name":"request-1","namespace":"fleet-default"},"spec":{"clientID":"c1","clientRandom":"` + random + `"}}`,
				list: `{"apiVersion":"fleet.cattle.io/v1alpha1","kind":"BundleDeploymentList","items":[]}`,
				// The name is that of the contract: c- and the beginning of the SHA-256 of both.
				"GET /api/v1/namespaces/r/secrets/" + credentialName("c1", random): credential,
			})
			encoded, err := config.Agent{ClientID: "c1", AgentTLSMode: mode}.Encode()
			if err != nil {
				t.Fatal(err)
			}
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
			want := hubclient.Access{Server: access.Server, CA: access.CA, Token: "account", Namespace: "cluster-a"}
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
			client, err := hubclient.Connect(session.Hub)
			if err != nil {
				t.Fatal(err)
			}
			if err := client.Prove(t.Context(), "cluster-a"); err != nil {
				t.Errorf("the session does not reach the hub: %v", err)
			}
			_, err = local.CoreV1().Secrets(agentNS).Get(t.Context(), "fleet-agent-bootstrap", metav1.GetOptions{})
			if !apierrors.IsNotFound(err) {
				t.Errorf("the bootstrap secret is still there (%v)", err)
			}
		})
	}
}
