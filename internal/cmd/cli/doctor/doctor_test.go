package doctor

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/fleet-hub/fleet/charts"
	"github.com/fleet-hub/fleet/e2e/framework/golden"
	"github.com/fleet-hub/fleet/internal/cmd/cli/clitest"
	"github.com/fleet-hub/fleet/internal/cmd/cli/doctor/agent"
	"github.com/fleet-hub/fleet/internal/cmd/cli/doctor/both"
	"github.com/fleet-hub/fleet/internal/cmd/cli/doctor/check"
	"github.com/fleet-hub/fleet/internal/cmd/cli/doctor/hub"
	"github.com/fleet-hub/fleet/internal/cmd/cli/doctor/member"
	"github.com/fleet-hub/fleet/internal/crds"
	"github.com/fleet-hub/fleet/internal/kube/kubetest"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

const system = names.SystemNamespace

func meta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

func lease(name string, renewed time.Duration) *coordinationv1.Lease {
	at := metav1.NewMicroTime(clitest.Noon().Add(-renewed))
	return &coordinationv1.Lease{ObjectMeta: meta(system, name), Spec: coordinationv1.LeaseSpec{
		HolderIdentity: new("fleet-controller-1_abcdefghijklmnopqrstuvwxyz"), RenewTime: &at, LeaseDurationSeconds: new(int32(45)),
	}}
}

// address starts the TLS server of the hub's URL, and returns the URL and its CA.
func address(t *testing.T) (url string, ca []byte) {
	t.Helper()
	server := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	return server.URL, kubetest.CAOf(server)
}

// healthy returns the objects of a hub without problems, and its URL.
func healthy(t *testing.T) (objects []runtime.Object, url string) {
	t.Helper()
	url, ca := address(t)
	settings, err := json.Marshal(map[string]any{"apiServerURL": url, "apiServerCA": ca, "agentTLSMode": "strict"})
	if err != nil {
		t.Fatal(err)
	}
	config := &corev1.ConfigMap{ObjectMeta: meta(system, names.ControllerConfig), Data: map[string]string{names.ConfigKey: string(settings)}}
	config.Annotations = map[string]string{fleet.AnnotationVersion: "v1.2.0"}
	deployment := &appsv1.Deployment{ObjectMeta: meta(system, names.ControllerConfig), Status: appsv1.DeploymentStatus{ReadyReplicas: 1}}
	deployment.Spec.Template.Spec.Containers = []corev1.Container{{Name: "fleet-controller", Image: "fleethub/fleet:v1.2.0"}}
	objects = []runtime.Object{
		config, deployment,
		lease(names.ControllerLease, time.Second), lease(names.CleanupLease, time.Second), lease(names.DeliveryLease, time.Second),
	}
	embedded, err := crds.Embedded(charts.FS)
	if err != nil {
		t.Fatal(err)
	}
	for i := range embedded {
		embedded[i].Status.Conditions = []apiextensions.CustomResourceDefinitionCondition{{Type: apiextensions.Established, Status: apiextensions.ConditionTrue}}
		objects = append(objects, &embedded[i])
	}
	return objects, url
}

// ill returns objects with problems, in two workspaces.
func ill() []runtime.Object {
	old := func(namespace, name string) metav1.ObjectMeta {
		m := meta(namespace, name)
		m.CreationTimestamp = metav1.NewTime(clitest.Noon().Add(-24 * time.Hour))
		return m
	}
	silent := func(namespace, name string) *fleet.Cluster {
		c := &fleet.Cluster{ObjectMeta: old(namespace, name)}
		c.Status.Agent.LastSeen = metav1.NewTime(clitest.Noon().Add(-2 * time.Hour))
		c.Status.Conditions = []genericcondition.GenericCondition{{
			Type: conditions.AgentReporting, Status: corev1.ConditionFalse, Reason: conditions.ReasonAgentNotReporting, Message: "silent",
		}}
		return c
	}
	namespace := func(workspace, cluster string) *corev1.Namespace {
		n := &corev1.Namespace{ObjectMeta: old("", names.ClusterNamespace(workspace, cluster))}
		n.Annotations = map[string]string{fleet.AnnotationCluster: cluster, fleet.AnnotationClusterNamespace: workspace}
		return n
	}
	imported := &fleet.Cluster{ObjectMeta: old("fleet-default", "north"), Spec: fleet.ClusterSpec{KubeConfigSecret: "north-kubeconfig"}}
	imported.Status.Agent.LastSeen = metav1.NewTime(clitest.Noon())
	broken := &corev1.Secret{ObjectMeta: old("fleet-default", "north-kubeconfig"), Data: map[string][]byte{"value": []byte("token: CANARY\x1b")}}
	repo := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "fleet.cattle.io/v1alpha1", "kind": "GitRepo"}}
	repo.SetNamespace("fleet-default")
	repo.SetName("app")
	return []runtime.Object{
		silent("fleet-default", "east"), silent("fleet-default", "west"), silent("other", "south"), imported, broken, repo,
		namespace("fleet-default", "east"), namespace("fleet-default", "west"), namespace("fleet-default", "lost"), namespace("other", "south"),
		&fleet.ClusterRegistrationToken{ObjectMeta: old("fleet-default", "forever")},
	}
}

func run(t *testing.T, server *clitest.Server, args ...string) string {
	t.Helper()
	t.Setenv("KUBECONFIG", server.Kubeconfig)
	command := func(streams genericiooptions.IOStreams) *cobra.Command { return New(streams, clitest.Noon) }
	text := clitest.Call(t.Context(), command, args...).String()
	if strings.Contains(text, "CANARY") {
		t.Error("a secret is in the output")
	}
	return strings.ReplaceAll(text, server.URL, "http://hub.example.com")
}

// start starts an API server with these objects. The function that it returns runs the command, with constant addresses in
// the output.
func start(t *testing.T, more ...runtime.Object) (*clitest.Server, func(args ...string) string) {
	t.Helper()
	objects, url := healthy(t)
	server := clitest.Start(t, append(objects, more...)...)
	return server, func(args ...string) string {
		t.Helper()
		return strings.ReplaceAll(run(t, server, args...), url, "https://hub.example.com:6443")
	}
}

func TestHealthyHub_HasNoProblems(t *testing.T) {
	_, doctor := start(t)
	golden.Expect(t, "healthy.golden", doctor("hub", "-A", "--fail-on", "warning"))
	golden.Expect(t, "healthy-all.golden", doctor("-A", "--all"))
}

func TestMissingWorkspace_IsReported(t *testing.T) {
	_, doctor := start(t)
	golden.Expect(t, "no-workspace.golden", doctor("hub", "-n", "fleet-defualt"))
}

func TestEveryFormat_MatchesTheGoldens(t *testing.T) {
	_, doctor := start(t, ill()...)
	for name, args := range map[string][]string{
		"workspace": {"hub"}, "all": {"hub", "-A"}, "json": {"hub", "-A", "-o", "json"}, "yaml": {"hub", "-A", "-o", "yaml"}, "name": {"hub", "-A", "-o", "name"},
	} {
		t.Run(name, func(t *testing.T) { golden.Expect(t, name+".golden", doctor(args...)) })
	}
}

func TestFailOn_DecidesAboutTheExitCode(t *testing.T) {
	_, doctor := start(t, &fleet.ClusterRegistrationToken{ObjectMeta: meta("fleet-default", "forever")}, &corev1.Secret{ObjectMeta: meta("fleet-default", "forever")})
	for threshold, code := range map[string]string{"failed": "exit code 0\n", "warning": "exit code 1\n"} {
		if got := doctor("hub", "--fail-on", threshold); !strings.HasSuffix(got, code) {
			t.Errorf("--fail-on %s: %s", threshold, got)
		}
	}
}

func TestFixes_ReachTheSameHub(t *testing.T) {
	_, doctor := start(t, ill()...)
	golden.Expect(t, "context.golden", doctor("hub", "--context", "hub"))
}

func TestManyClusters_TakeFewRequests(t *testing.T) {
	const many = 1000
	var more []runtime.Object
	for i := range many {
		name := fmt.Sprintf("c-%04d", i)
		own := names.ClusterNamespace("fleet-default", name)
		more = append(more,
			&fleet.Cluster{ObjectMeta: meta("fleet-default", name), Spec: fleet.ClusterSpec{KubeConfigSecret: name}},
			&corev1.Secret{ObjectMeta: meta("fleet-default", name)},
			&corev1.Namespace{ObjectMeta: meta("", own)},
			&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: own, Name: name, Labels: map[string]string{fleet.LabelManaged: "true"}}},
			&fleet.ClusterRegistrationToken{ObjectMeta: meta("fleet-default", name)},
			&fleet.ClusterRegistration{ObjectMeta: meta("fleet-default", name)},
			&fleet.Bundle{ObjectMeta: meta("fleet-default", name)},
			&fleet.BundleDeployment{ObjectMeta: meta(own, name)},
			&corev1.Secret{ObjectMeta: meta("cattle-fleet-clusters-system", name)},
		)
	}
	server, doctor := start(t, more...)
	if got := doctor("hub", "-A"); !strings.Contains(got, fmt.Sprintf(", %d more", many-4)) {
		t.Error(got)
	}
	const reads = 3 // the configuration, the version and the Service of the API server are single objects
	if requests := server.Requests(); len(requests)+reads > 40 {
		t.Errorf("%d requests:\n%s", len(requests)+reads, strings.Join(requests, "\n"))
	}
}

func TestServerThatDoesNotAnswerOneRequest_SkipsItsChecks(t *testing.T) {
	server, doctor := start(t)
	server.Hang("GET /apis/fleet.cattle.io/v1alpha1/namespaces/fleet-default/bundles")
	kubetest.Patiently(t, 2*time.Second, func(timeout time.Duration) error {
		got := doctor("hub", "--timeout", timeout.String())
		if !strings.Contains(got, "skipped   hub-bundles-failing, 6 more") || !strings.Contains(got, "list bundles.fleet.cattle.io in namespace fleet-default") || !strings.HasSuffix(got, "exit code 4\n") {
			return errors.New(got)
		}
		return nil
	})
}

func TestServerThatFailsOneRequest_FailsTheCommand(t *testing.T) {
	server, doctor := start(t)
	server.Refuse("GET /apis/fleet.cattle.io/v1alpha1/namespaces/fleet-default/bundles", 500)
	got := doctor("hub")
	if !strings.Contains(got, "skipped   hub-bundles-failing, 6 more") || !strings.HasSuffix(got, "exit code 1\n") {
		t.Error(got)
	}
}

func TestMissingRights_SkipTheChecksThatNeedThem(t *testing.T) {
	server, doctor := start(t, ill()...)
	for _, request := range []string{
		"GET /apis/coordination.k8s.io/v1/namespaces/cattle-fleet-system/leases", "GET /api/v1/namespaces/fleet-default/secrets",
		"GET /apis/fleet.cattle.io/v1alpha1/namespaces/fleet-default/clusters", "GET /api/v1/namespaces",
		"GET /api/v1/namespaces/cattle-fleet-system/configmaps/fleet-controller",
	} {
		server.Refuse(request, 403)
	}
	golden.Expect(t, "few-rights.golden", doctor("hub"))
}

func TestClusterThatIsNoHub_LacksTheCRDs(t *testing.T) {
	server := clitest.Start(t)
	golden.Expect(t, "no-hub.golden", run(t, server, "hub"))
}

func TestHubThatDoesNotAnswer_IsAnError(t *testing.T) {
	server := clitest.Start(t)
	server.Refuse("GET /version", 401)
	got := run(t, server, "hub")
	if !strings.HasPrefix(got, "exit code 3\nerror: reading the version of the hub's API server") || len(server.Requests()) > 1 {
		t.Error(got, server.Requests())
	}
}

func TestUnreachableHub_IsAnErrorWithoutRows(t *testing.T) {
	server := clitest.Start(t)
	config, err := os.ReadFile(server.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(server.Kubeconfig, bytes.ReplaceAll(config, []byte(server.URL), []byte("https://127.0.0.1:1")), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := run(t, server, "hub", "-o", "json"); !strings.HasPrefix(got, "exit code 3\nerror: reading the version of the hub's API server: ") {
		t.Error(got)
	}
}

// The documentation says what each check expects, and what a problem means.
func TestDocumentation_ExplainsEveryCheck(t *testing.T) {
	page, err := os.ReadFile("../../../../" + check.Page)
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile("(?m)^\\| <a id=\"(.+)\"></a>`(.+)` \\| \\S.* \\| \\S.* \\|$")
	var explained []string
	for _, found := range row.FindAllStringSubmatch(string(page), -1) {
		if explained = append(explained, found[1]); found[1] != found[2] {
			t.Errorf("the anchor of %s is %s", found[2], found[1])
		}
	}
	all := slices.Concat(ids(hub.Checks()), ids(member.Checks()), ids(agent.Checks()), ids(both.Checks()))
	if diff := cmp.Diff(all, explained); diff != "" {
		t.Errorf("%s does not explain the checks (-want +got):\n%s", check.Page, diff)
	}
}

func ids[F any](checks []check.Check[F]) (all []string) {
	for _, c := range checks {
		all = append(all, c.ID)
	}
	return all
}
