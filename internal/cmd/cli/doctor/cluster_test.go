package doctor

import (
	"encoding/json"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/fleet-hub/fleet/e2e/framework/golden"
	"github.com/fleet-hub/fleet/internal/cmd/cli/clitest"
	"github.com/fleet-hub/fleet/internal/cmd/cli/doctor/check"
	"github.com/fleet-hub/fleet/internal/kube/foreign"
	kubeconfigs "github.com/fleet-hub/fleet/internal/kube/kubeconfig"
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

// The hub's settings decide which kubeconfigs the hub uses. Both commands judge by them.
func TestKubeconfig_IsJudgedByTheSettingsOfTheHub(t *testing.T) {
	const server, ca = "https://10.99.0.3:6443", "certificate-authority-data: Y2E="
	loopback := kubetest.Kubeconfig(server, "https://127.0.0.1:6443", "SECRET", "CANARY")
	unverified := kubetest.Kubeconfig(ca, "insecure-skip-tls-verify: true", "SECRET", "CANARY")
	inCluster := kubetest.Kubeconfig(server, "https://10.43.0.1:443", "SECRET", "CANARY")
	for name, test := range map[string]struct {
		kubeconfig []byte
		settings   string
		workspace  string
		insecure   string
		want       error
	}{
		"address of another machine":                      {kubetest.Kubeconfig(), `{}`, "fleet-default", "false", nil},
		"loopback address":                                {loopback, `{}`, "fleet-default", "false", foreign.ErrKubeconfigAddress},
		"loopback address that the operator allows":       {loopback, `{"allowLocalKubeconfigs": true}`, "fleet-default", "false", nil},
		"loopback address of the hub's own Cluster":       {loopback, `{"bootstrap": {"namespace": "fleet-local"}}`, "fleet-local", "false", nil},
		"network that the operator refuses":               {kubetest.Kubeconfig(), `{"refusedKubeconfigCIDRs": ["10.99.0.0/16"]}`, "fleet-default", "false", foreign.ErrKubeconfigAddress},
		"Service of the hub's API server":                 {inCluster, `{}`, "fleet-default", "false", foreign.ErrKubeconfigAddress},
		"Service that the operator allows":                {inCluster, `{"allowLocalKubeconfigs": true}`, "fleet-default", "false", nil},
		"server without TLS":                              {kubetest.Kubeconfig(server, "http://10.99.0.3"), `{}`, "fleet-default", "false", foreign.ErrKubeconfigPlain},
		"server that is not verified":                     {unverified, `{}`, "fleet-default", "false", kubeconfigs.ErrKubeconfigInsecure},
		"server that is not verified, which is permitted": {unverified, `{}`, "fleet-default", "true", nil},
	} {
		t.Run(name, func(t *testing.T) {
			controller := &appsv1.Deployment{ObjectMeta: meta(system, names.ControllerConfig)}
			controller.Spec.Template.Spec.Containers = []corev1.Container{{Env: []corev1.EnvVar{{Name: "FLEET_ALLOW_INSECURE_KUBECONFIGS", Value: test.insecure}}}}
			server := hubWithKubeconfig(t, test.settings, test.workspace, test.kubeconfig, "local")
			server.Put(controller)
			onHub := rowOf(t, server, "hub-kubeconfigs-valid", "hub", "-n", test.workspace)
			ofCluster := rowOf(t, server, "cluster-kubeconfig", "cluster", "local", "-n", test.workspace)
			if test.want == nil {
				if onHub.Verdict != check.OK || ofCluster.Verdict != check.OK {
					t.Errorf("%+v\n%+v", onHub, ofCluster)
				}
				return
			}
			if ofCluster.Verdict != check.Failed || ofCluster.Cause != test.want.Error() || ofCluster.Fix != onHub.Fix ||
				onHub.Cause != "Secret "+test.workspace+"/kubeconfig: "+ofCluster.Cause {
				t.Errorf("of the hub %+v\nof the cluster %+v", onHub, ofCluster)
			}
		})
	}
}

// Users of a workspace have no rights in the namespace default.
func TestServiceThatCannotBeRead_RefusesNoKubeconfig(t *testing.T) {
	server := hubWithKubeconfig(t, `{}`, "fleet-default", kubetest.Kubeconfig("https://10.99.0.3:6443", "https://10.43.0.1:443"), "west")
	server.Refuse("GET /api/v1/namespaces/default/services/kubernetes", 403)
	onHub, ofCluster := rowOf(t, server, "hub-kubeconfigs-valid", "hub"), rowOf(t, server, "cluster-kubeconfig", "cluster", "west")
	if onHub.Verdict != check.OK || ofCluster.Verdict != check.OK {
		t.Errorf("%+v\n%+v", onHub, ofCluster)
	}
}

// Only the hub's own Cluster may have any address, whichever Cluster of the Secret is read last.
func TestSharedKubeconfig_IsJudgedForEachCluster(t *testing.T) {
	server := hubWithKubeconfig(t, `{"bootstrap": {"namespace": "fleet-local"}}`, "fleet-local",
		kubetest.Kubeconfig("https://10.99.0.3:6443", "https://127.0.0.1:6443"), "before", "local", "other")
	row := rowOf(t, server, "hub-kubeconfigs-valid", "hub", "-n", "fleet-local")
	if row.Verdict != check.Failed || row.Count != 2 || row.Object.Name != "before" || row.Examples[0].Name != "other" {
		t.Errorf("%+v", row)
	}
}

// hubWithKubeconfig starts a hub with these settings, whose Clusters in the workspace name one Secret.
func hubWithKubeconfig(t *testing.T, settings, workspace string, kubeconfig []byte, clusters ...string) *clitest.Server {
	t.Helper()
	server := clitest.Start(t,
		&corev1.Service{ObjectMeta: meta(metav1.NamespaceDefault, "kubernetes"), Spec: corev1.ServiceSpec{ClusterIP: "10.43.0.1"}},
		&corev1.ConfigMap{ObjectMeta: meta(system, names.ControllerConfig), Data: map[string]string{names.ConfigKey: settings}},
		&corev1.Secret{ObjectMeta: meta(workspace, "kubeconfig"), Data: map[string][]byte{"value": kubeconfig}})
	for _, name := range clusters {
		server.Put(&fleet.Cluster{ObjectMeta: meta(workspace, name), Spec: fleet.ClusterSpec{KubeConfigSecret: "kubeconfig"}})
	}
	return server
}

// Tenants may not read the hub's settings. What these may permit is not reported.
func TestKubeconfigWithSettingsThatCannotBeRead_IsNotRefusedByThem(t *testing.T) {
	for name, test := range map[string]struct {
		kubeconfig []byte
		want       check.Verdict
	}{
		"address that they may permit":        {kubetest.Kubeconfig("https://10.99.0.3:6443", "https://127.0.0.1:6443"), check.OK},
		"missing TLS, which they may permit":  {kubetest.Kubeconfig("certificate-authority-data: Y2E=", "insecure-skip-tls-verify: true"), check.OK},
		"command, which no settings permit":   {kubetest.Kubeconfig("token: SECRET", "exec: {command: CANARY}"), check.Failed},
		"server without TLS, which none does": {kubetest.Kubeconfig("https://10.99.0.3", "http://10.99.0.3"), check.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			server := clitest.Start(t, &fleet.Cluster{ObjectMeta: meta("fleet-default", "west"), Spec: fleet.ClusterSpec{KubeConfigSecret: "kubeconfig"}},
				&corev1.Secret{ObjectMeta: meta("fleet-default", "kubeconfig"), Data: map[string][]byte{"value": test.kubeconfig}})
			for _, resource := range []string{"api/v1/namespaces/" + system + "/configmaps", "apis/apps/v1/namespaces/" + system + "/deployments"} {
				server.Refuse("GET /"+resource+"/"+names.ControllerConfig, 403)
			}
			if row := rowOf(t, server, "cluster-kubeconfig", "cluster", "west"); row.Verdict != test.want {
				t.Errorf("%+v", row)
			}
		})
	}
}

// rowOf returns the row of a check.
func rowOf(t *testing.T, server *clitest.Server, id string, args ...string) check.Row {
	t.Helper()
	_, text, _ := strings.Cut(run(t, server, append(args, "--all", "-o", "json")...), "{")
	var report check.Report
	if err := json.NewDecoder(strings.NewReader("{" + text)).Decode(&report); err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(report.Rows, func(r check.Row) bool { return r.ID == id })
	if i < 0 {
		t.Fatalf("no row of %s in %+v", id, report)
	}
	return report.Rows[i]
}
