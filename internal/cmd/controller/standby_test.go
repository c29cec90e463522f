package controller_test

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/e2e/framework/replica"
)

// request is one that the API server has logged.
type request struct {
	Verb, RequestURI string
	User             struct{ Extra map[string][]string }
}

// requestsWith returns the requests that were sent with the token of a kubeconfig.
func requestsWith(t *testing.T, kubeconfig string) (sent []request) {
	t.Helper()
	cfg, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	payload, err := base64.RawURLEncoding.DecodeString(strings.Split(cfg.AuthInfos["u"].Token, ".")[1])
	if err != nil {
		t.Fatal(err)
	}
	var token struct{ JTI string }
	if err := json.Unmarshal(payload, &token); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(control.Plane(t).Hub.AuditLog)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r request
		if json.Unmarshal(lines.Bytes(), &r) == nil && slices.Contains(r.User.Extra["authentication.kubernetes.io/credential-id"], "JTI="+token.JTI) {
			sent = append(sent, r)
		}
	}
	return sent
}

// listsOfClusters counts how often the cache of Clusters was filled. The lists with which it is compared have longer pages.
func listsOfClusters(sent []request) (n int) {
	for _, r := range sent {
		if r.Verb == "list" && strings.HasPrefix(r.RequestURI, "/apis/fleet.cattle.io/v1alpha1/clusters?limit=500") {
			n++
		}
	}
	return n
}

// startStandby starts a replica with a token of its own, and waits until its caches are filled.
func startStandby(t *testing.T, election replica.Election) (standby *process, kubeconfig string) {
	t.Helper()
	kubeconfig = must(t)(kubeconfigFor(t.Context(), control.Plane(t).Hub))
	standby = startWith(t, replica.Options{Kubeconfig: kubeconfig, Election: election})
	if err := standby.awaitReady("standing by"); err != nil {
		t.Fatal(err)
	}
	NewWithT(t).Eventually(standby.Log).WithTimeout(patience).Should(ContainSubstring("caches filled"))
	return standby, kubeconfig
}

// takesOver ends the leader and waits until the standby has created a deleted role again. It returns how long that took.
func takesOver(t *testing.T, hub *client.Client, end func()) time.Duration {
	t.Helper()
	began := time.Now()
	end()
	expectWork(t, hub)
	return time.Since(began)
}

func TestStandby_IsWarmAndWritesNothing(t *testing.T) {
	hub, before := hub(t), leading
	compares := func(r request) bool {
		return r.Verb == "list" && strings.HasPrefix(r.RequestURI, "/apis/fleet.cattle.io/v1alpha1/clusters?limit=1000")
	}
	if !slices.ContainsFunc(requestsWith(t, must(t)(installed())), compares) {
		t.Error("the first leader did not compare its caches, which may have been filled before it led")
	}
	short := replica.Election{LeaseDuration: 10 * time.Second, RenewDeadline: 8 * time.Second, RetryPeriod: 5 * time.Second}
	second, kubeconfig := startStandby(t, short)
	expectStandby(t, second)
	workspace(t, hub, "ws-standby")
	newCluster(t, hub, "ws-standby", "c1") // an event that the standby must not act on
	for _, r := range requestsWith(t, kubeconfig) {
		if !slices.Contains([]string{"get", "list", "watch"}, r.Verb) && !strings.HasPrefix(r.RequestURI, "/apis/authorization.k8s.io/") {
			t.Errorf("the standby has sent %s %s", r.Verb, r.RequestURI)
		}
	}

	took := takesOver(t, hub, func() {
		if code := before.stop(); code != 0 {
			t.Errorf("exit code %d\n%s", code, before.Log())
		}
	})
	leading = second
	if err := second.awaitReady("leading"); err != nil {
		t.Fatal(err)
	}
	TestLeader_ServesAllMetrics(t)
	t.Logf("after a clean stop, the standby worked after %s", took.Round(time.Millisecond))
	if n := listsOfClusters(requestsWith(t, kubeconfig)); n != 1 {
		t.Errorf("the caches were filled %d times", n)
	}

	third, kubeconfig := startStandby(t, replica.Election{}) // leads in the tests that follow
	took = takesOver(t, hub, second.Kill)
	leading = third
	if err := third.awaitReady("leading"); err != nil {
		t.Fatal(err)
	}
	t.Logf("after the leader was killed, with a lease of %s, the standby worked after %s", short.LeaseDuration, took.Round(time.Millisecond))
	if n := listsOfClusters(requestsWith(t, kubeconfig)); n != 1 {
		t.Errorf("the caches were filled %d times", n)
	}
	for _, lease := range leases() {
		expectHolder(t, lease, t.Name())
	}
}
