package unregister

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"helm.sh/helm/v3/pkg/release"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/e2e/framework/golden"
	"github.com/fleet-hub/fleet/internal/cmd/cli/access"
	"github.com/fleet-hub/fleet/internal/cmd/cli/clitest"
	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
	"github.com/fleet-hub/fleet/internal/cmd/cli/importaccount"
	"github.com/fleet-hub/fleet/internal/cmd/cli/output"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/clusters"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// world is a hub, and the cluster of context east.
type world struct {
	hub, east  *clitest.Server
	kubeconfig string
	// released means that the agent is a Helm release.
	released bool
}

func at(namespace, name string, labels ...string) metav1.ObjectMeta {
	meta := metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("uid-" + namespace + "-" + name)}
	for i := 0; i < len(labels); i += 2 {
		if meta.Labels == nil {
			meta.Labels = map[string]string{}
		}
		meta.Labels[labels[i]] = labels[i+1]
	}
	return meta
}

func system(uid string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: types.UID(uid)}}
}

func east(change func(*fleet.Cluster)) *fleet.Cluster {
	c := &fleet.Cluster{ObjectMeta: at("fleet-default", "east"), Spec: fleet.ClusterSpec{ClientID: "client-1", KubeConfigSecret: "east-kubeconfig"}}
	c.Finalizers = []string{fleet.FinalizerCluster}
	if change != nil {
		change(c)
	}
	return c
}

func workload(bundle string) *fleet.BundleDeployment {
	return &fleet.BundleDeployment{ObjectMeta: at(clusters.NamespaceOf(east(nil)), bundle, fleet.LabelBundleName, bundle, fleet.LabelBundleNamespace, "fleet-default")}
}

// onTheHub returns what the hub has of an imported cluster.
func onTheHub(more ...runtime.Object) []runtime.Object {
	token := func(name, of string) *fleet.ClusterRegistrationToken {
		t := &fleet.ClusterRegistrationToken{ObjectMeta: at("fleet-default", name)}
		t.Annotations = map[string]string{annotation.TokenForCluster: of}
		return t
	}
	secret := &corev1.Secret{ObjectMeta: at("fleet-default", "east-kubeconfig", "app.kubernetes.io/managed-by", "fleet-import"), Data: map[string][]byte{"value": []byte("canary-93ab")}}
	return append([]runtime.Object{
		system("uid-hub"), east(nil), token("east", "east"), token("west", "west"), secret, workload(names.AgentBundle("east")),
	}, more...)
}

const agents = "cattle-fleet-system"

// identity returns the identity of an agent.
func identity(namespace, workspace, name, server string) *corev1.Secret {
	kubeconfig := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}], users: [{name: u, user: {token: t}}],
		clusters: [{name: c, cluster: {server: %q}}]}`, server)
	return &corev1.Secret{
		ObjectMeta: at(namespace, "fleet-agent"),
		Data:       protocol.Identity{Kubeconfig: []byte(kubeconfig), DeploymentNamespace: "d", ClusterNamespace: workspace, ClusterName: name}.Encode(),
	}
}

func settings(namespace, hub, clientID string) *corev1.ConfigMap {
	c := &corev1.ConfigMap{ObjectMeta: at(namespace, "fleet-agent"), Data: map[string]string{"config": fmt.Sprintf(`{"clientID": %q}`, clientID)}}
	if hub != "" {
		c.Annotations = map[string]string{annotation.HubUID: hub}
	}
	return c
}

func setHash() string { return names.SetHash(names.AgentSetID(""), names.Owner{}) }

// onTheCluster returns what an import has created on the cluster.
func onTheCluster(more ...runtime.Object) []runtime.Object {
	account, binding, secret := importaccount.New(nil, "uid-hub", "fleet-default", "east").Objects()
	account.UID, binding.UID, secret.UID = "uid-account", "uid-binding", "uid-secret"
	return append([]runtime.Object{
		system("uid-east"), &corev1.Namespace{ObjectMeta: at("", agents, fleet.LabelSetHash, setHash())},
		identity(agents, "fleet-default", "east", "https://hub:6443"), settings(agents, "uid-hub", "client-1"),
		&corev1.ServiceAccount{ObjectMeta: at(agents, "default")}, &corev1.ConfigMap{ObjectMeta: at(agents, "kube-root-ca.crt")},
		&appsv1.Deployment{ObjectMeta: at(agents, "fleet-agent", "app", "fleet-agent")},
		&corev1.Secret{ObjectMeta: at(agents, "pull", fleet.LabelSetHash, setHash())},
		&corev1.Secret{ObjectMeta: at(agents, "sh.helm.release.v1.fleet-agent-east.v1", "owner", "helm", "name", "fleet-agent-east")},
		&rbacv1.ClusterRole{ObjectMeta: at("", "cattle-fleet-system-fleet-agent-role")},
		&schedulingv1.PriorityClass{ObjectMeta: at("", "fleet-agent-priority-class")},
		account, binding, secret,
	}, more...)
}

// start starts both servers. The hub's controllers remove the finalizer of the Cluster.
func start(t *testing.T, hub, cluster []runtime.Object) *world {
	t.Helper()
	w := &world{hub: clitest.Start(t, hub...), east: clitest.Start(t, cluster...), kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	w.hub.React = func(s *clitest.Server, method string, object *clitest.Object) {
		if method == "DELETE" && object.GetKind() == "Cluster" {
			s.Delete(object)
		}
	}
	document := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: hub,
		contexts: [{name: hub, context: {cluster: hub}}, {name: east, context: {cluster: east}}],
		clusters: [{name: hub, cluster: {server: %q}}, {name: east, cluster: {server: %q}}]}`, w.hub.URL, w.east.URL)
	if err := os.WriteFile(w.kubeconfig, []byte(document), 0o600); err != nil {
		t.Fatal(err)
	}
	return w
}

// helmOf is the Helm of context east.
type helmOf struct{ *world }

func (h helmOf) Status() (release.Status, error) {
	if h.released {
		return release.StatusDeployed, nil
	}
	return "", nil
}

func (h helmOf) Uninstall() error {
	if h.east.Get(system("")) == nil {
		return errors.New("no cluster")
	}
	h.released = false
	h.east.Delete(&appsv1.Deployment{ObjectMeta: at(agents, "fleet-agent")})
	return nil
}

// run executes the command, and returns everything that it printed.
func (w *world) run(t *testing.T, args ...string) (string, exit.Code) {
	t.Helper()
	newHelm := func(_ *rest.Config, namespace string) (helm, error) {
		if namespace != agents {
			return helmOf{&world{}}, nil
		}
		return helmOf{w}, nil
	}
	called := clitest.Call(t.Context(), func(streams genericiooptions.IOStreams) *cobra.Command {
		return newCommand(&options{streams: streams, flags: access.NewFlags(), format: output.Table, timeout: defaultTimeout, newHelm: newHelm})
	}, append(args, "--kubeconfig", w.kubeconfig)...)
	text := strings.ReplaceAll(called.String(), " --kubeconfig "+w.kubeconfig, "")
	if strings.Contains(text, "canary-93ab") {
		t.Errorf("a secret is shown:\n%s", text)
	}
	return text, called.Code
}

func TestEveryFormat_MatchesTheGoldens(t *testing.T) {
	both := []string{"east", "--cluster-context", "east"}
	for name, args := range map[string][]string{
		"hub": {"east"}, "hub-json": {"east", "-o", "json"}, "table": both, "json": append(both, "-o", "json"), "yaml": append(both, "-o", "yaml"),
		"name": append(both, "-o", "name"), "dry-run": append(both, "--dry-run"), "dry-run-json": append(both, "--dry-run", "-o", "json"),
	} {
		t.Run(name, func(t *testing.T) {
			w := start(t, onTheHub(), onTheCluster())
			shown, _ := w.run(t, args...)
			golden.Expect(t, name+".golden", shown)
			dry := strings.HasPrefix(name, "dry-run")
			if writes := len(w.hub.Writes()) + len(w.east.Writes()); (writes == 0) != dry {
				t.Errorf("writes: %v %v", w.hub.Writes(), w.east.Writes())
			}
			if left := w.left(); !dry && args[len(args)-1] != "json" && len(args) > 1 && len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}

// left returns what should have been deleted.
func (w *world) left() []string {
	var left []string
	for _, object := range onTheHub()[1:] {
		name := object.(metav1.Object).GetName()
		if w.hub.Get(object) != nil && name != "west" && name != "fleet-agent-east" {
			left = append(left, fmt.Sprintf("hub: %T %s", object, name))
		}
	}
	for _, object := range onTheCluster()[1:] {
		name := object.(metav1.Object).GetName()
		if w.east.Get(object) != nil && name != "default" && name != "kube-root-ca.crt" {
			left = append(left, fmt.Sprintf("east: %T %s", object, name))
		}
	}
	return left
}

func TestHelmRelease_IsUninstalled(t *testing.T) {
	w := start(t, onTheHub(), onTheCluster())
	w.released = true
	shown, code := w.run(t, "east", "--cluster-context", "east", "-o", "name")
	if code != exit.Done || w.released || !strings.Contains(shown, "\nhelmrelease/fleet-agent\n") || len(w.left()) > 0 {
		t.Errorf("left %v:\n%s", w.left(), shown)
	}
}

func TestSecondRun_ContinuesAfterEachWrite(t *testing.T) {
	count := func(w *world) int { return len(w.hub.Writes()) + len(w.east.Writes()) }
	complete := start(t, onTheHub(), onTheCluster())
	complete.run(t, "east", "--cluster-context", "east")
	for writes := range count(complete) {
		w := start(t, onTheHub(), onTheCluster())
		first := w.failAfter(writes)
		if shown, code := w.run(t, "east", "--cluster-context", "east", "--timeout", "50ms"); code == exit.Done || !strings.HasSuffix(shown, "fix: run the same command again: it continues\n") {
			t.Fatalf("after %d writes:\n%s", writes, shown)
		}
		first()
		if shown, code := w.run(t, "east", "--cluster-context", "east"); code != exit.Done || len(w.left()) > 0 {
			t.Errorf("after %d writes: left %v\n%s", writes, w.left(), shown)
		}
	}
}

// failAfter makes both servers refuse everything after a number of writes. The returned function ends that.
func (w *world) failAfter(writes int) (end func()) {
	refused := func() bool { return writes >= 0 && len(w.hub.Writes())+len(w.east.Writes()) > writes }
	w.hub.Fails, w.east.Fails = refused, refused
	return func() { writes = -1 }
}

func TestFailedRequest_FixReachesItsCluster(t *testing.T) {
	for name, test := range map[string]struct {
		onHub   bool
		request string
		code    exit.Code
		fix     string
	}{
		"hub, read":     {true, "GET /api/v1/namespaces/kube-system", exit.Preflight, "kubectl auth whoami"},
		"hub, step":     {true, "DELETE /api/v1/namespaces/fleet-default/secrets/east-kubeconfig", exit.Failed, "kubectl auth whoami"},
		"cluster, read": {false, "GET /api/v1/namespaces/kube-system", exit.Preflight, "kubectl --context east auth whoami"},
		"cluster, step": {false, "DELETE /apis/apps/v1/namespaces/" + agents + "/deployments/fleet-agent", exit.Failed, "kubectl --context east auth whoami"},
	} {
		t.Run(name, func(t *testing.T) {
			w := start(t, onTheHub(), onTheCluster())
			refusing := w.east
			if test.onHub {
				refusing = w.hub
			}
			refusing.Refuse(test.request, http.StatusUnauthorized)
			shown, code := w.run(t, "east", "--cluster-context", "east")
			if code != test.code || !strings.Contains(shown, "\nfix: log in again, then: "+test.fix+"\n") {
				t.Errorf("code %d:\n%s", code, shown)
			}
		})
	}
}

func TestWorkloads_AreNamed(t *testing.T) {
	var many []runtime.Object
	for i := range 12 {
		many = append(many, workload(fmt.Sprintf("web-%02d", i)))
	}
	const namespace = "cluster-fleet-default-east-0f0350029557"
	const uninstall = "fix: to uninstall them, let these Bundles no longer target the cluster, and wait until this prints none: kubectl get bundledeployments.fleet.cattle.io -n " + namespace + " -l 'fleet.cattle.io/bundle-name!=fleet-agent-east'\n"
	for name, test := range map[string]struct {
		objects []runtime.Object
		args    []string
		want    string
	}{
		"one": {[]runtime.Object{workload("web")}, nil,
			"exit code 5\nerror: Cluster fleet-default/east has 1 workload: fleet-default/web\n" + uninstall + "fix: to leave them on the cluster: fleet unregister east -n fleet-default --keep-workloads\n"},
		"an agent that stays": {[]runtime.Object{workload("web")}, []string{"--cluster-context", "east", "--keep-agent"},
			"exit code 5\nerror: Cluster fleet-default/east has 1 workload: fleet-default/web\n" + uninstall +
				"fix: to leave them on the cluster: fleet unregister east -n fleet-default --keep-workloads --cluster-context east --keep-agent\n"},
		"many: ten are named": {many, []string{"--cluster-context", "east"},
			"exit code 5\nerror: Cluster fleet-default/east has 12 workloads: fleet-default/web-00, fleet-default/web-01, fleet-default/web-02, fleet-default/web-03, fleet-default/web-04, " +
				"fleet-default/web-05, fleet-default/web-06, fleet-default/web-07, fleet-default/web-08, fleet-default/web-09 and 2 more\n" + uninstall +
				"fix: to leave them on the cluster: fleet unregister east -n fleet-default --keep-workloads --cluster-context east\n"},
		"without labels: its own name": {[]runtime.Object{&fleet.BundleDeployment{ObjectMeta: at(namespace, "odd")}}, nil,
			"exit code 5\nerror: Cluster fleet-default/east has 1 workload: " + namespace + "/odd\n" + uninstall + "fix: to leave them on the cluster: fleet unregister east -n fleet-default --keep-workloads\n"},
	} {
		t.Run(name, func(t *testing.T) {
			w := start(t, onTheHub(test.objects...), onTheCluster())
			got, _ := w.run(t, append([]string{"east"}, test.args...)...)
			if got != test.want || len(w.hub.Writes())+len(w.east.Writes()) > 0 {
				t.Errorf("writes %v %v, got:\n%s\nwant:\n%s", w.hub.Writes(), w.east.Writes(), got, test.want)
			}
			kept, code := w.run(t, append([]string{"east", "--keep-workloads"}, test.args...)...)
			if code != exit.Done || !strings.Contains(kept, "on the cluster. When it joins again, Bundles of the same names continue with the releases") {
				t.Errorf("--keep-workloads:\n%s", kept)
			}
		})
	}
}

func TestDryRunWithWorkloads_ListsObjectsAndSaysThatTheyStay(t *testing.T) {
	w := start(t, onTheHub(workload("web")), onTheCluster())
	args := []string{"east", "--cluster-context", "east"}
	refused, _ := w.run(t, args...)
	for name, format := range map[string]string{"refused": "table", "refused-json": "json", "refused-name": "name"} {
		shown, code := w.run(t, append(args, "--dry-run", "-o", format)...)
		golden.Expect(t, name+".golden", shown)
		if _, problem, found := strings.Cut(shown, "error: "); !found || code != exit.Refused || !strings.HasSuffix(refused, problem) {
			t.Errorf("%s: the dry run does not fail as the command does:\n%s\n%s", name, shown, refused)
		}
	}
	if kept, code := w.run(t, append(args, "--dry-run", "--keep-workloads")...); code != exit.Done || !strings.Contains(kept, "1 workload stays on the cluster") {
		t.Errorf("--keep-workloads:\n%s", kept)
	}
	if len(w.hub.Writes())+len(w.east.Writes()) > 0 {
		t.Errorf("writes: %v %v", w.hub.Writes(), w.east.Writes())
	}
}

func TestTenantWithoutRightsInTheNamespaceOfTheCluster_KeepsTheWorkloads(t *testing.T) {
	namespace := clusters.NamespaceOf(east(nil))
	begin := func() *world {
		w := start(t, onTheHub(workload("web")), onTheCluster())
		w.hub.Refuse("GET /apis/fleet.cattle.io/v1alpha1/namespaces/"+namespace+"/bundledeployments", http.StatusForbidden)
		w.hub.Refuse("GET /api/v1/namespaces/"+namespace+"/serviceaccounts", http.StatusForbidden)
		return w
	}
	w := begin()
	got, _ := w.run(t, "east")
	want := "exit code 5\nerror: you may not see the workloads of Cluster fleet-default/east (BundleDeployments of namespace " + namespace + ")\n" +
		"fix: to leave them on the cluster: fleet unregister east -n fleet-default --keep-workloads\nfix: otherwise ask a user who may list them to run the command\n"
	if got != want || len(w.hub.Writes()) > 0 {
		t.Errorf("writes %v, got:\n%s\nwant:\n%s", w.hub.Writes(), got, want)
	}
	if planned, _ := w.run(t, "east", "--keep-workloads", "--dry-run", "-o", "json"); strings.Contains(planned, `"workloads"`) {
		t.Errorf("the unknown number of workloads is shown:\n%s", planned)
	}
	kept, code := begin().run(t, "east", "--keep-workloads", "--cluster-context", "east")
	if code != exit.Done || !strings.Contains(kept, "\nIts workloads, if it has any, stay on the cluster. When it joins again, ") || !strings.Contains(kept, "deleted on east: ") {
		t.Errorf("--keep-workloads:\n%s", kept)
	}
}

func TestBadInput_IsRefusedAndNothingIsDeleted(t *testing.T) {
	local := &fleet.Cluster{ObjectMeta: at("fleet-local", "local")}
	managed := east(func(c *fleet.Cluster) { c.Labels = map[string]string{fleet.LabelClusterManagement: "x"} })
	foreign := func(objects ...runtime.Object) []runtime.Object {
		return append([]runtime.Object{system("uid-east")}, objects...)
	}
	const other = "fix: select the cluster with --cluster-context: kubectl config get-contexts\nfix: to delete only the Cluster on the hub: fleet unregister east -n fleet-default\n"
	const wrong = "error: context east does not point to the cluster of Cluster fleet-default/east: namespace cattle-fleet-system has "
	for name, test := range map[string]struct {
		hub, cluster []runtime.Object
		args         []string
		want         string
	}{
		"an invalid name": {nil, nil, []string{"East"}, "exit code 2\nerror: cluster name \"East\" is not the name of an object\nfix: fleet unregister --help\n"},
		"an agent on no cluster": {onTheHub(), nil, []string{"east", "--keep-agent"},
			"exit code 2\nerror: --keep-agent needs --cluster-context; without it, nothing is removed from the cluster\nfix: fleet unregister --help\n"},
		"no such Cluster": {[]runtime.Object{system("uid-hub")}, nil, []string{"north"}, "exit code 1\nerror: Cluster fleet-default/north does not exist\nfix: fleet clusters -A\n"},
		"nothing on both sides": {[]runtime.Object{system("uid-hub")}, foreign(), []string{"north", "--cluster-context", "east"},
			"exit code 1\nerror: Cluster fleet-default/north does not exist\nfix: fleet clusters -A\n"},
		"no such context": {onTheHub(), nil, []string{"east", "--cluster-context", "none"},
			"exit code 3\nerror: reading the kubeconfig: context \"none\" does not exist\nfix: kubectl config get-contexts\n"},
		"the hub's own Cluster": {onTheHub(local), nil, []string{"local", "-n", "fleet-local"},
			"exit code 5\nerror: Cluster fleet-local/local is the hub's own, and the hub would create it again\n" +
				"fix: to remove only its agent: helm upgrade -n cattle-fleet-system fleet charts/fleet --reset-then-reuse-values --set bootstrap.localAgentDisabled=true\n" +
				"fix: to remove the hub: docs/uninstall.md#the-hub\n"},
		"the hub's own cluster": {onTheHub(), foreign(), []string{"east", "--cluster-context", "hub"},
			"exit code 5\nerror: context hub points to the hub's own cluster\nreason: TargetIsHub (docs/conditions.md)\nfix: select the cluster with --cluster-context: kubectl config get-contexts\n"},
		"a Cluster of another manager": {onTheHub(managed), nil, []string{"east"},
			"exit code 5\nerror: another manager owns Cluster fleet-default/east: delete it there\nreason: ClusterManagedElsewhere (docs/conditions.md)\n" +
				"fix: if it is to be deleted here: kubectl label clusters.fleet.cattle.io -n fleet-default east fleet.cattle.io/cluster-management-\n"},
		"the agent of another Cluster": {onTheHub(), foreign(identity(agents, "fleet-default", "west\x1b[31m", "https://hub")), []string{"east", "--cluster-context", "east"},
			"exit code 5\n" + wrong + "the agent of Cluster fleet-default/west [31m\n" + other},
		"the agent of another hub": {onTheHub(), foreign(settings(agents, "uid-other", "client-1")), []string{"east", "--cluster-context", "east"},
			"exit code 5\n" + wrong + "the agent of another hub\n" + other},
		"a Cluster of the same name of another hub": {onTheHub(), foreign(identity(agents, "fleet-default", "east", "https://other"), settings(agents, "", "client-2")), []string{"east", "--cluster-context", "east"},
			"exit code 5\n" + wrong + "the agent of a Cluster with the same name of another hub, https://other\n" + other},
		"an agent that has not registered": {onTheHub(), foreign(settings(agents, "", "client-2")), []string{"east", "--cluster-context", "east"},
			"exit code 5\n" + wrong + "an agent that has not registered as this Cluster\n" + other},
	} {
		t.Run(name, func(t *testing.T) {
			w := start(t, test.hub, test.cluster)
			got, _ := w.run(t, test.args...)
			if got != test.want {
				t.Errorf("got:\n%s\nwant:\n%s", got, test.want)
			}
			if len(w.hub.Writes())+len(w.east.Writes()) > 0 {
				t.Errorf("writes: %v %v", w.hub.Writes(), w.east.Writes())
			}
		})
	}
}

func TestClusterOfClusterAPI_IsRefusedOnlyIfTheHubWouldCreateItAgain(t *testing.T) {
	const refused = "exit code 5\nerror: the hub has created Cluster fleet-default/east for the clusters.cluster.x-k8s.io of the same name, and would create it again\n" +
		"fix: exclude it first with capi.clusterSelector or capi.namespaceSelector of the chart fleet (docs/capi.md#turn-it-on), and run the command again\n" +
		"fix: to delete the cluster with its machines: kubectl delete clusters.cluster.x-k8s.io -n fleet-default east\n"
	marked := map[string]string{annotation.CAPICluster: "fleet-default/east/uid-capi"}
	kept := map[string]string{annotation.CAPICluster: "fleet-default/east/uid-capi", annotation.CAPIKept: "NotSelected"}
	for name, test := range map[string]struct {
		enabled, deleting bool
		annotations       map[string]string
		capi              string // the version that is served, or an error
		refused           bool
	}{
		"followed":              {true, false, marked, "v1beta2", true},
		"followed, v1beta1":     {true, false, marked, "v1beta1", true},
		"not readable":          {true, false, marked, "forbidden", true},
		"it does not exist":     {true, false, marked, "", false},
		"Cluster API is off":    {false, false, marked, "v1beta2", false},
		"not selected":          {true, false, kept, "v1beta2", false},
		"being deleted already": {true, true, marked, "v1beta2", false},
		"without the mark":      {true, false, nil, "v1beta2", false},
	} {
		t.Run(name, func(t *testing.T) {
			config := &corev1.ConfigMap{ObjectMeta: at("cattle-fleet-system", "fleet-controller"), Data: map[string]string{"config": fmt.Sprintf(`{"capi": {"enabled": %t}}`, test.enabled)}}
			w := start(t, onTheHub(config, east(func(c *fleet.Cluster) {
				c.Annotations = test.annotations
				if now := metav1.Now(); test.deleting {
					c.DeletionTimestamp = &now
				}
			})), nil)
			switch test.capi {
			case "":
			case "forbidden":
				w.hub.Refuse("GET /apis/cluster.x-k8s.io/v1beta2/namespaces/fleet-default/clusters/east", http.StatusForbidden)
			default:
				w.hub.Put(&clitest.Object{Object: map[string]any{
					"apiVersion": "cluster.x-k8s.io/" + test.capi, "kind": "Cluster", "metadata": map[string]any{"namespace": "fleet-default", "name": "east"},
				}})
			}
			got, _ := w.run(t, "east", "--dry-run")
			if (got == refused) != test.refused || len(w.hub.Writes()) > 0 {
				t.Errorf("writes %v:\n%s", w.hub.Writes(), got)
			}
		})
	}
}

func TestObjectsOfOthers_AreKept(t *testing.T) {
	sharing := &fleet.Cluster{ObjectMeta: at("team", "x"), Spec: fleet.ClusterSpec{KubeConfigSecret: "east-kubeconfig", KubeConfigSecretNamespace: "fleet-default"}}
	own := &corev1.Secret{ObjectMeta: at("fleet-default", "east-kubeconfig")}
	theirs := &corev1.ServiceAccount{ObjectMeta: at("kube-system", importaccount.New(nil, "uid-hub", "fleet-default", "east").Name)}
	earlier := &corev1.ServiceAccount{ObjectMeta: at("kube-system", "fleet-import-fleet-default-east", "app.kubernetes.io/managed-by", "fleet-import")}
	for name, test := range map[string]struct {
		hub, cluster []runtime.Object
		kept         runtime.Object
		onHub        bool
		want         string
	}{
		"a kubeconfig that another Cluster names":             {[]runtime.Object{sharing}, nil, own, true, "kept on hub: Secret fleet-default/east-kubeconfig ("},
		"a kubeconfig of a user":                              {[]runtime.Object{own}, nil, own, true, "kept on hub: Secret fleet-default/east-kubeconfig ("},
		"an account of an earlier release, and another agent": {nil, []runtime.Object{earlier, identity("scoped", "fleet-default", "west", "https://hub"), &appsv1.Deployment{ObjectMeta: at("scoped", "fleet-agent", "app", "fleet-agent")}}, earlier, false, "kept on east: ServiceAccount kube-system/fleet-import-fleet-default-east (the cluster has another agent, whose hub may use it)"},
		"an account of a user":                                {nil, []runtime.Object{theirs}, theirs, false, ""},
		"a namespace with something else":                     {nil, []runtime.Object{&corev1.Service{ObjectMeta: at(agents, "web")}}, &corev1.Service{ObjectMeta: at(agents, "web")}, false, "it also contains Service web"},
		"a namespace that was there before":                   {nil, []runtime.Object{&corev1.Namespace{ObjectMeta: at("", agents)}}, &corev1.Namespace{ObjectMeta: at("", agents)}, false, "it was not created with the agent"},
		"the PriorityClass, while there is another agent":     {nil, []runtime.Object{identity("scoped", "fleet-default", "west", "https://hub"), &appsv1.Deployment{ObjectMeta: at("scoped", "fleet-agent", "app", "fleet-agent")}}, &schedulingv1.PriorityClass{ObjectMeta: at("", "fleet-agent-priority-class")}, false, ""},
		"the other agent":                                     {nil, []runtime.Object{identity("scoped", "fleet-default", "west", "https://hub"), &appsv1.Deployment{ObjectMeta: at("scoped", "fleet-agent", "app", "fleet-agent")}}, &appsv1.Deployment{ObjectMeta: at("scoped", "fleet-agent")}, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := start(t, onTheHub(test.hub...), onTheCluster(test.cluster...))
			shown, code := w.run(t, "east", "--cluster-context", "east")
			server := w.east
			if test.onHub {
				server = w.hub
			}
			if code != exit.Done || server.Get(test.kept) == nil || !strings.Contains(shown, test.want) {
				t.Errorf("%s", shown)
			}
			if namespace := w.east.Get(&corev1.Namespace{ObjectMeta: at("", agents)}); namespace != nil && namespace.GetLabels()[fleet.LabelUnregistering] != "" {
				t.Error("the namespace has the mark still")
			}
		})
	}
}

func TestKeptAgent_LosesOnlyWhatTiesItToTheHub(t *testing.T) {
	w := start(t, onTheHub(), onTheCluster())
	args := []string{"east", "--cluster-context", "east", "--keep-agent"}
	shown, code := w.run(t, args...)
	if code != exit.Done || !strings.Contains(shown, "deleted on east: HubMark cattle-fleet-system/fleet-agent\n") {
		t.Fatal(shown)
	}
	account, binding, token := importaccount.New(nil, "uid-hub", "fleet-default", "east").Objects()
	for _, object := range []runtime.Object{account, binding, token} {
		if w.east.Get(object) != nil {
			t.Errorf("%T of the import is left", object)
		}
	}
	want := len(onTheCluster()) - 3
	for _, object := range onTheCluster() {
		if w.east.Get(object) != nil {
			want--
		}
	}
	mark := w.east.Get(settings(agents, "", "")).GetAnnotations()[annotation.HubUID]
	if want != 0 || mark != "" {
		t.Errorf("%d other objects are gone, mark %q", want, mark)
	}
	for writes := range len(w.hub.Writes()) + len(w.east.Writes()) {
		w := start(t, onTheHub(), onTheCluster())
		end := w.failAfter(writes)
		if first, code := w.run(t, append(args, "--timeout", "50ms")...); code == exit.Done {
			t.Fatalf("after %d writes:\n%s", writes, first)
		}
		end()
		second, code := w.run(t, args...)
		if code != exit.Done || w.east.Get(account) != nil || w.east.Get(settings(agents, "", "")).GetAnnotations()[annotation.HubUID] != "" {
			t.Errorf("again after %d writes:\n%s", writes, second)
		}
	}
}

func TestClusterWithoutAgent_IsUnregisteredWithAWarning(t *testing.T) {
	w := start(t, onTheHub(), []runtime.Object{system("uid-east")})
	shown, code := w.run(t, "east", "--cluster-context", "east")
	if code != exit.Done || !strings.Contains(shown, "warning: the cluster of context east has no agent\n") {
		t.Error(shown)
	}
}

func TestClusterStaysWhileItIsDeleted_NamesTheCause(t *testing.T) {
	w := start(t, onTheHub(), nil)
	w.hub.React = func(s *clitest.Server, method string, object *clitest.Object) {
		if method == "DELETE" && object.GetKind() == "Cluster" {
			s.Put(east(func(c *fleet.Cluster) {
				c.DeletionTimestamp = &metav1.Time{}
				c.Status.Conditions = []genericcondition.GenericCondition{{Type: conditions.Processed, Status: "False", Message: "the API server\nrefuses"}}
			}))
		}
	}
	shown, code := w.run(t, "east", "--timeout", "50ms")
	const want = "error: waited 50ms for the deletion of Cluster fleet-default/east\nerror: the API server refuses\n" +
		"fix: only the controllers remove the finalizer; to read their log: kubectl logs -n cattle-fleet-system deployment/fleet-controller\nfix: run the same command again: it continues\n"
	if code != exit.Timeout || !strings.HasSuffix(shown, want) {
		t.Errorf("code %d:\n%s", code, shown)
	}
}

func TestWhose(t *testing.T) {
	of := target{workspace: "fleet-default", name: "east", clientID: "client-1", hubUID: "uid-hub", urls: []string{"", "https://hub:6443"}, accounts: []string{"uid-account"}}
	gone := of
	gone.clientID, gone.accounts = "", nil
	this := &protocol.Identity{ClusterNamespace: "fleet-default", ClusterName: "east"}
	for name, test := range map[string]struct {
		agent  agent
		target target
		mine   bool
	}{
		"marked by an earlier run":              {agent{marked: true}, gone, true},
		"marked, of another hub since":          {agent{marked: true, hubUID: "other"}, gone, false},
		"marked, and the same account":          {agent{marked: true, markedAs: accountHash("a"), account: "a", identity: &protocol.Identity{ClusterNamespace: "elsewhere", ClusterName: "x"}}, gone, true},
		"marked, and another account":           {agent{marked: true, markedAs: accountHash("a"), account: "b", identity: &protocol.Identity{ClusterNamespace: gone.workspace, ClusterName: gone.name}, server: "https://other"}, gone, false},
		"marked, and another Cluster":           {agent{marked: true, identity: &protocol.Identity{ClusterNamespace: "elsewhere", ClusterName: "x"}}, gone, false},
		"marked, and registering elsewhere":     {agent{marked: true, bootstrap: &protocol.Bootstrap{APIServerURL: "https://other", ClusterNamespace: gone.workspace}}, gone, false},
		"installed by this hub":                 {agent{identity: this, hubUID: "uid-hub"}, gone, true},
		"installed by another hub":              {agent{identity: this, hubUID: "uid-other", clientID: "client-1"}, of, false},
		"the same client ID":                    {agent{identity: this, server: "https://moved", clientID: "client-1"}, of, true},
		"an account of the cluster":             {agent{identity: this, server: "https://moved", account: "uid-account"}, of, true},
		"the address of the hub":                {agent{identity: this, server: "https://hub:6443/"}, gone, true},
		"another address and no proof":          {agent{identity: this, server: "https://other"}, gone, false},
		"another Cluster":                       {agent{identity: &protocol.Identity{ClusterNamespace: "fleet-default", ClusterName: "west"}, clientID: "client-1"}, of, false},
		"not registered, the same client ID":    {agent{clientID: "client-1"}, of, true},
		"not registered, an import of this hub": {agent{bootstrap: &protocol.Bootstrap{ClusterNamespace: "fleet-default", TokenName: "import-token-east"}, hubUID: "uid-hub"}, gone, true},
		"not registered, an import of another":  {agent{bootstrap: &protocol.Bootstrap{ClusterNamespace: "fleet-default", TokenName: "import-token-west"}, hubUID: "uid-hub"}, gone, false},
		"not registered, the Cluster is gone":   {agent{clientID: "client-1"}, gone, false},
	} {
		if got := whose(test.agent, test.target); (got == "") != test.mine {
			t.Errorf("%s: %q", name, got)
		}
	}
}
