package gather

import (
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/cli/clitest"
	"github.com/fleet-hub/fleet/internal/cmd/cli/doctor/agent"
	"github.com/fleet-hub/fleet/internal/cmd/cli/doctor/check"
)

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
	w.Header().Set("Date", clitest.Noon().Add(3*time.Minute).Format(http.TimeFormat))
	w.Header().Set("Location", "/elsewhere")
	if code := h.answers[r.URL.Path]; code != 0 {
		w.WriteHeader(code)
	}
	_, _ = io.WriteString(w, `{"status":{"agent":{"lastSeen":"2026-05-04T11:59:00Z"}}}`) // the client has gone
}

// serve starts a TLS server of a hub and returns its address and its CA.
func (h *fakeHub) serve(t *testing.T, expires time.Time) (address string, ca []byte) {
	t.Helper()
	der, key := clitest.Certificate(t, expires)
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

// problems returns the rows of a check that are not ok.
func problems(f *agent.Facts, id string) []check.Row {
	all := agent.Checks()
	rows := all[slices.IndexFunc(all, func(c check.Check[*agent.Facts]) bool { return c.ID == id })].Judge(f)
	return slices.DeleteFunc(rows, func(r check.Row) bool { return r.Verdict == check.OK || r.Verdict == check.Skipped })
}

func TestProbe(t *testing.T) {
	valid, other := time.Now().AddDate(1, 0, 0), clitest.CertificatePEM(t, time.Now().AddDate(1, 0, 0))
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
			f := &agent.Facts{Now: time.Now(), Credential: agent.Credential{
				Exists: true, Cluster: types.NamespacedName{Namespace: "fleet-default", Name: "east"}, ClusterNamespace: "cluster-fleet-default-east-0f0350029557",
			}}
			f.Credential.Server, f.Credential.CA = hub.serve(t, test.expires)
			if test.ca != nil {
				f.Credential.CA = test.ca
			}
			if test.insecure {
				f.Credential.Server = strings.Replace(f.Credential.Server, "https:", "http:", 1)
			}
			f.Probe = probe(t.Context(), f.Credential, "bearer", clitest.Noon)
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
