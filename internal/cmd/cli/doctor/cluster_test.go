package doctor

import (
	"encoding/json"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/fleet-hub/fleet/e2e/framework/golden"
	"github.com/fleet-hub/fleet/internal/cmd/cli/clitest"
	"github.com/fleet-hub/fleet/internal/kube/kubetest"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// hubWithWest returns the objects of a hub to which Cluster fleet-default/west has joined.
func hubWithWest(t *testing.T, hub *httptest.Server) []runtime.Object {
	t.Helper()
	settings, err := json.Marshal(map[string]any{"apiServerURL": hub.URL, "apiServerCA": kubetest.CAOf(hub)})
	if err != nil {
		t.Fatal(err)
	}
	config := &corev1.ConfigMap{ObjectMeta: meta(system, names.ControllerConfig), Data: map[string]string{names.ConfigKey: string(settings)}}
	config.Annotations = map[string]string{fleet.AnnotationVersion: "v1.2.0"}
	kube := &corev1.Namespace{ObjectMeta: meta("", metav1.NamespaceSystem)}
	kube.UID = "uid-of-hub"
	west := &fleet.Cluster{ObjectMeta: meta("fleet-default", "west"), Spec: fleet.ClusterSpec{ClientID: "client-of-west"}}
	west.Status.Agent.LastSeen = metav1.NewTime(clitest.Noon().Add(-time.Minute))
	request := &fleet.ClusterRegistration{ObjectMeta: meta("fleet-default", "request-1"), Spec: fleet.ClusterRegistrationSpec{ClientID: "client-of-west"}}
	request.UID = "uid-of-request"
	request.Status = fleet.ClusterRegistrationStatus{ClusterName: "west", Granted: true}
	namespace := names.ClusterNamespace("fleet-default", "west")
	account := &corev1.ServiceAccount{ObjectMeta: meta(namespace, names.RequestAccount(request.Name, string(request.UID)))}
	account.UID, account.Annotations = "uid-of-account", map[string]string{fleet.AnnotationClusterRegistration: request.Name}
	return []runtime.Object{config, kube, west, request, &corev1.Namespace{ObjectMeta: meta("", namespace)}, account}
}

// pair is a hub and a cluster. Each has an API server and a context.
type pair struct {
	hub, west *clitest.Server
	// run runs the command with constant addresses in the output.
	run func(args ...string) string
}

func startPair(t *testing.T) pair {
	t.Helper()
	address := hubOf(t)
	p := pair{hub: clitest.Start(t, hubWithWest(t, address)...), west: clitest.Start(t, withAgent(t, address)...)}
	p.hub.Date, p.west.Date = clitest.Noon(), clitest.Noon()
	read, err := os.ReadFile(p.hub.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(read), "{name: east, context: {cluster: hub,", "{name: west, context: {cluster: west,", 1) + `- {name: west, cluster: {server: "` + p.west.URL + `"}}` + "\n"
	p.hub.Kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(p.hub.Kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p.run = func(args ...string) string {
		t.Helper()
		text := run(t, p.hub, append([]string{"cluster", "west"}, args...)...)
		return strings.NewReplacer(address.URL, "https://hub.example.com:6443", p.west.URL, "http://west.example.com").Replace(text)
	}
	return p
}

func TestHealthyCluster_HasNoProblems(t *testing.T) {
	p := startPair(t)
	golden.Expect(t, "cluster-hub-all.golden", p.run("--all", "--fail-on", "warning"))
	golden.Expect(t, "cluster-both-all.golden", p.run("--cluster-context", "west", "--all", "--fail-on", "warning"))
}

func TestEveryFormat_OfAClusterMatchesTheGoldens(t *testing.T) {
	p := startPair(t)
	namespace := names.ClusterNamespace("fleet-default", "west")
	p.hub.Delete(&corev1.ServiceAccount{ObjectMeta: meta(namespace, names.RequestAccount("request-1", "uid-of-request"))})
	paused := &fleet.Cluster{ObjectMeta: meta("fleet-default", "west"), Spec: fleet.ClusterSpec{ClientID: "another", Paused: true}}
	paused.Status.Agent.LastSeen = metav1.NewTime(clitest.Noon().Add(-time.Minute))
	p.hub.Put(paused)
	for name, args := range map[string][]string{
		"hub": nil, "both": {"--cluster-context", "west"}, "json": {"--cluster-context", "west", "-o", "json"},
		"yaml": {"--cluster-context", "west", "-o", "yaml"}, "name": {"--cluster-context", "west", "-o", "name"}, "contexts": {"--cluster-context", "west", "--context", "hub"},
	} {
		t.Run(name, func(t *testing.T) { golden.Expect(t, "cluster-"+name+".golden", p.run(args...)) })
	}
}

func TestClusterThatDoesNotAnswer_SkipsItsChecks(t *testing.T) {
	p := startPair(t)
	p.west.Refuse("GET /version", 401)
	golden.Expect(t, "cluster-unreachable.golden", p.run("--cluster-context", "west"))
	if requests := p.west.Requests(); len(requests) > 1 {
		t.Errorf("requests: %v", requests)
	}
}

func TestClusterThatDoesNotExist_IsAnError(t *testing.T) {
	p := startPair(t)
	p.hub.Delete(&fleet.Cluster{ObjectMeta: meta("fleet-default", "west")})
	if got := p.run(); !strings.HasPrefix(got, "exit code 1\nerror: Cluster fleet-default/west does not exist\nfix: fleet clusters -A") {
		t.Error(got)
	}
}

func TestUnknownContextOfTheCluster_IsAnError(t *testing.T) {
	p := startPair(t)
	if got := p.run("--cluster-context", "nowhere"); !strings.HasPrefix(got, "exit code 3\nerror: reading the kubeconfig") {
		t.Error(got)
	}
}
