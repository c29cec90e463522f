package doctor

import (
	"encoding/base64"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/fleet-hub/fleet/e2e/framework/golden"
	"github.com/fleet-hub/fleet/internal/cmd/cli/clitest"
	"github.com/fleet-hub/fleet/internal/kube/kubetest"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
)

// hubOf starts the TLS server of a hub that accepts the agent.
func hubOf(t *testing.T) *httptest.Server {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", clitest.Noon().Format(http.TimeFormat))
		if !strings.HasSuffix(r.Header.Get("Authorization"), "CANARY") {
			w.WriteHeader(http.StatusUnauthorized)
		}
		_, _ = io.WriteString(w, `{"status":{"agent":{"lastSeen":"2026-05-04T11:59:00Z"}}}`) // the client has gone
	}))
	t.Cleanup(server.Close)
	return server
}

// agentToken returns a token of an account.
func agentToken(uid string) string {
	return "e30." + base64.RawURLEncoding.EncodeToString([]byte(`{"kubernetes.io":{"serviceaccount":{"uid":"`+uid+`"}}}`)) + ".CANARY"
}

// agentSecret returns Secret fleet-agent of Cluster fleet-default/west.
func agentSecret(t *testing.T, hub *httptest.Server) *corev1.Secret {
	t.Helper()
	cfg := api.NewConfig()
	cfg.Clusters["cluster"] = &api.Cluster{Server: hub.URL, CertificateAuthorityData: kubetest.CAOf(hub)}
	cfg.AuthInfos["user"] = &api.AuthInfo{Token: agentToken("uid-of-account")}
	cfg.Contexts["default"] = &api.Context{Cluster: "cluster", AuthInfo: "user"}
	cfg.CurrentContext = "default"
	encoded, err := clientcmd.Write(*cfg)
	if err != nil {
		t.Fatal(err)
	}
	return &corev1.Secret{ObjectMeta: meta(system, names.Agent), Data: protocol.Identity{
		Kubeconfig: encoded, DeploymentNamespace: names.ClusterNamespace("fleet-default", "west"), ClusterNamespace: "fleet-default", ClusterName: "west",
	}.Encode()}
}

// withAgent returns the objects of a cluster without problems.
func withAgent(t *testing.T, hub *httptest.Server) []runtime.Object {
	t.Helper()
	deployment := &appsv1.Deployment{ObjectMeta: meta(system, names.Agent), Status: appsv1.DeploymentStatus{ReadyReplicas: 1}}
	deployment.Spec.Template.Spec.Containers = []corev1.Container{{Name: names.Agent, Image: "fleethub/fleet-agent:v1.2.0"}}
	pod := &corev1.Pod{ObjectMeta: meta(system, "fleet-agent-1-a"), Status: corev1.PodStatus{Phase: corev1.PodRunning}}
	pod.Labels = map[string]string{"app": names.Agent}
	at := metav1.NewMicroTime(clitest.Noon().Add(-time.Second))
	role := names.SafeConcat(system, names.Agent, "role")
	system := &corev1.Namespace{ObjectMeta: meta("", system)}
	kube := &corev1.Namespace{ObjectMeta: meta("", metav1.NamespaceSystem)}
	kube.UID = "uid-of-west"
	return []runtime.Object{
		deployment, pod, system, kube, agentSecret(t, hub),
		&corev1.ConfigMap{ObjectMeta: meta(system.Name, names.Agent), Data: map[string]string{names.ConfigKey: `{"clientID":"client-of-west"}`}},
		&corev1.ServiceAccount{ObjectMeta: meta(system.Name, names.Agent)},
		&rbacv1.ClusterRole{ObjectMeta: meta("", role)},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: meta("", role+"-binding"), RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: role},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: system.Name, Name: names.Agent}},
		},
		&coordinationv1.Lease{ObjectMeta: meta(system.Name, names.Agent), Spec: coordinationv1.LeaseSpec{HolderIdentity: new("fleet-agent-1-a_x"), RenewTime: &at, LeaseDurationSeconds: new(int32(30))}},
	}
}

// startAgent starts the API server of a cluster whose agent is healthy, apart from other objects. The function that it
// returns runs the command, with constant addresses in the output.
func startAgent(t *testing.T, more ...runtime.Object) (*clitest.Server, func(args ...string) string) {
	t.Helper()
	hub := hubOf(t)
	server := clitest.Start(t, append(withAgent(t, hub), more...)...)
	server.Date = clitest.Noon()
	return server, func(args ...string) string {
		t.Helper()
		text := strings.ReplaceAll(run(t, server, args...), hub.URL, "https://hub.example.com:6443")
		return strings.ReplaceAll(text, server.Kubeconfig, "/kubeconfig")
	}
}

// ruin returns objects with problems.
func ruin() []runtime.Object {
	deployment := &appsv1.Deployment{ObjectMeta: meta(system, names.Agent)}
	deployment.Spec.Template.Spec.Containers = []corev1.Container{{Name: names.Agent, Env: []corev1.EnvVar{{Name: "HTTPS_PROXY", Value: "ftp://u:CANARY@p"}}}}
	other := &appsv1.Deployment{ObjectMeta: meta("other", names.Agent)}
	other.Spec.Template.Spec.Containers = []corev1.Container{{Name: names.Agent, Image: "rancher/fleet-agent:v0.12.0\x1b[31m"}}
	pod := &corev1.Pod{ObjectMeta: meta(system, "fleet-agent-1-a"), Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{
		Name: names.Agent, RestartCount: 3, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
		LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Message: "no identity\nrun: \x1b[2J"}},
	}}}}
	pod.Labels = map[string]string{"app": names.Agent}
	secret := &corev1.Secret{ObjectMeta: meta(system, names.Agent), Data: map[string][]byte{"kubeconfig": []byte("token: CANARY")}}
	release := &corev1.Secret{ObjectMeta: meta(system, "sh.helm.release.v1.fleet-agent.v2"), Type: "helm.sh/release.v1"}
	release.Labels = map[string]string{"owner": "helm", "name": names.Agent, "status": "pending-upgrade", "version": "2", "modifiedAt": "1777800000"}
	return []runtime.Object{deployment, other, pod, secret, release}
}

func TestHealthyAgent_HasNoProblems(t *testing.T) {
	server, doctor := startAgent(t)
	golden.Expect(t, "agent-healthy.golden", doctor("agent", "--fail-on", "warning"))
	golden.Expect(t, "agent-healthy-all.golden", doctor("agent", "--context", "east", "--all"))
	if writes := server.Writes(); len(writes) != 2 {
		t.Errorf("requests that write: %v", writes) // the reviews of access store nothing
	}
}

func TestEveryFormat_OfAnAgentMatchesTheGoldens(t *testing.T) {
	server, doctor := startAgent(t, ruin()...)
	server.Denied = true
	for name, args := range map[string][]string{"table": nil, "json": {"-o", "json"}, "yaml": {"-o", "yaml"}, "name": {"-o", "name"}} {
		t.Run(name, func(t *testing.T) {
			golden.Expect(t, "agent-"+name+".golden", doctor(append([]string{"agent", "--context", "east"}, args...)...))
		})
	}
}

func TestMissingRightsOnTheCluster_SkipTheChecksThatNeedThem(t *testing.T) {
	server, doctor := startAgent(t)
	for _, request := range []string{
		"GET /api/v1/secrets", "GET /api/v1/namespaces/cattle-fleet-system/secrets/fleet-agent", "GET /apis/apps/v1/deployments",
		"POST /apis/authorization.k8s.io/v1/subjectaccessreviews", "GET /apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
	} {
		server.Refuse(request, 403)
	}
	golden.Expect(t, "agent-few-rights.golden", doctor("agent"))
}

func TestClusterThatDoesNotAnswer_IsAnError(t *testing.T) {
	server, doctor := startAgent(t)
	server.Refuse("GET /version", 401)
	got := doctor("agent")
	if !strings.HasPrefix(got, "exit code 3\nerror: reading the version of the cluster's API server") || len(server.Requests()) > 1 {
		t.Error(got, server.Requests())
	}
}
