package controller_test

import (
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/dev/plane"
	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/internal/protocol/names"
)

// The process exits with a code other than 0.
func TestStartupFailure_ExitsWithOneSentence(t *testing.T) {
	tests := map[string]struct {
		kubeconfig func(*testing.T, *plane.Plane) string
		args       []string
		says       []string
	}{
		"API server has another CA: does not wait": {
			kubeconfig: func(t *testing.T, p *plane.Plane) string {
				return must(t)(writeKubeconfig(&plane.Cluster{Name: "other", CA: otherCA()}, p.Hub.URL, "x"))
			},
			says: []string{"the API server's certificate is not trusted"},
		},
		"credential is rejected: does not wait": {
			kubeconfig: func(t *testing.T, p *plane.Plane) string { return must(t)(writeKubeconfig(p.Hub, p.Hub.URL, "x")) },
			says:       []string{"Unauthorized"},
		},
		"configuration is invalid: names the place and does not wait": {
			kubeconfig: malformed,
			args:       []string{"--namespace=malformed"},
			says:       []string{"the configuration is malformed: ConfigMap malformed/fleet-controller, key config: "},
		},
		"kubeconfig is missing: names it": {
			kubeconfig: func(*testing.T, *plane.Plane) string { return "/nowhere" },
			args:       []string{"--kubeconfig=/nowhere"},
			says:       []string{"not running in a cluster, and no usable kubeconfig", "/nowhere"},
		},
		"unknown flag": {
			kubeconfig: func(*testing.T, *plane.Plane) string { return "" },
			args:       []string{"--shards=3"},
			says:       []string{"unknown flag: --shards"},
		},
	}
	p := control.Plane(t)
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := start(t, test.kubeconfig(t, p), test.args...)
			if code := r.exitCode(); code != 1 {
				t.Errorf("exit code %d", code)
			}
			said := regexp.MustCompile(`(?m)^fleetcontroller: .*$`).FindAllString(r.Log(), -1) // others may log until the end
			if len(said) != 1 {
				t.Fatalf("it says %q; its log:\n%s", said, r.Log())
			}
			if strings.Contains(said[0], "(waited ") {
				t.Errorf("it has waited: it says %q", said[0])
			}
			for _, part := range test.says {
				if !strings.Contains(said[0], part) {
					t.Errorf("it says\n\t%s\nand not\n\t%s", said[0], part)
				}
			}
		})
	}
}

func must(t *testing.T) func(string, error) string {
	return func(value string, err error) string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

// malformed is the chart's account, and a ConfigMap in another system namespace that cannot be read.
func malformed(t *testing.T, p *plane.Plane) string {
	kubeconfig := must(t)(installed())
	admin := administrator(t, p.Hub.Config())
	if err := admin.EnsureNamespace(t.Context(), "malformed"); err != nil {
		t.Fatal(err)
	}
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "fleet-controller"}, Data: map[string]string{"config": "- a\n- list\n"}}
	if _, err := admin.Kube.CoreV1().ConfigMaps("malformed").Create(t.Context(), config, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	return kubeconfig
}

// scrape is what a replica tells an operator.
func (p *process) scrape(t *testing.T) string {
	t.Helper()
	at := regexp.MustCompile(`msg=starting .*metrics=(\S+)`).FindStringSubmatch(p.Log())
	response, err := http.Get("http://" + at[1] + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// ofALeader and ofAnybody are series that only a leader has, and that each replica has.
var (
	ofALeader = []string{`leader_election_master_status{name="fleet-agentmanagement-lock"} 1`, "fleet_clusters{", "fleet_checkin_interval_seconds"}
	ofAnybody = []string{"fleet_registrations_total{", "fleet_build_info{", "go_goroutines", "rest_client_requests_total{", "fleet_memory_bytes{"}
)

func TestLeader_ServesAllMetrics(t *testing.T) {
	hub(t)
	NewWithT(t).Eventually(func(g Gomega) { // one that has just begun to lead has not called every handler yet
		text := leading.scrape(t)
		for _, series := range append(ofALeader, ofAnybody...) {
			g.Expect(text).To(ContainSubstring(series))
		}
	}).WithTimeout(patience).Should(Succeed())
}

// expectStandby scrapes a replica that says it stands by, and has nothing of a leader's.
func expectStandby(t *testing.T, r *process) {
	t.Helper()
	text := r.scrape(t)
	for _, series := range append([]string{`leader_election_master_status{name="fleet-agentmanagement-lock"} 0`}, ofAnybody...) {
		if !strings.Contains(text, series) {
			t.Errorf("no %s", series)
		}
	}
	for _, series := range ofALeader {
		if strings.Contains(text, series) {
			t.Errorf("one that stands by has %s", series)
		}
	}
}

// expectWork is done when a deleted role is made anew.
func expectWork(t *testing.T, hub *client.Client) {
	t.Helper()
	roles := hub.Kube.RbacV1().ClusterRoles()
	if err := roles.Delete(t.Context(), names.ContentRole, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	NewWithT(t).Eventually(func(g Gomega) {
		_, err := roles.Get(t.Context(), names.ContentRole, metav1.GetOptions{})
		g.Expect(err).NotTo(HaveOccurred())
	}).WithTimeout(patience).Should(Succeed())
}

// otherCA signed nothing here.
func otherCA() []byte {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
}
