package deploy

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/dev/plane/build"
	"github.com/fleet-hub/fleet/internal/deploy/deploytest"
	"github.com/fleet-hub/fleet/internal/deploy/release"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// request is one line of an audit log.
type request struct {
	Stage, Verb, RequestURI string
	ObjectRef               struct{ Resource, Subresource, Namespace, Name string }
	User                    struct{ Username string }
	ResponseStatus          struct{ Code int }
}

// requestsOf returns the requests of an account from an audit log.
func requestsOf(t *testing.T, log, account string) []request {
	t.Helper()
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	var found []request
	for line := range strings.Lines(string(text)) {
		var r request
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		if r.User.Username == account {
			found = append(found, r)
		}
	}
	return found
}

func (r request) String() string {
	resource := r.ObjectRef.Resource
	if r.ObjectRef.Subresource != "" {
		resource += "/" + r.ObjectRef.Subresource
	}
	return r.Verb + " " + resource
}

func TestAgent_SendsFewRequestsToHub(t *testing.T) {
	t.Parallel()
	l := newLab(t, "hub-requests")
	l.start()
	options := deploytest.InNamespace(l.Name)
	l.apply(bundle{Name: "x", Files: rawFiles(), Options: options})
	l.expectStatus("x", ready)
	l.delete("x")
	l.expectNoRelease(l.Name, "x")
	l.halt()
	counts := map[string]int{}
	// Requests just before an uninstallation, reports after it, or reads from a stale cache.
	harmless := []string{
		"get bundledeployments: 404", "update bundledeployments/status: 404", "update bundledeployments/status: 409",
		"patch bundledeployments/status: 404", "get contents: 404",
	}
	if build.Minor() < 32 {
		harmless = append(harmless, "watch bundledeployments: 422") // a watch that begins with a list: client-go lists after it
	}
	l.eventually(func() string {
		clear(counts)
		for _, r := range requestsOf(t, control.Plane(t).Hub.AuditLog, "system:serviceaccount:"+l.Name+":request") {
			if outcome := fmt.Sprintf("%s: %d", r, r.ResponseStatus.Code); r.ResponseStatus.Code >= 400 && !slices.Contains(harmless, outcome) {
				t.Errorf("refused: %s %s", r.RequestURI, outcome)
			} else if r.ResponseStatus.Code < 400 {
				counts[r.String()]++
			}
		}
		if len(counts) == 0 {
			return "nothing in the audit log"
		}
		return ""
	})
	for _, verb := range slices.Sorted(maps.Keys(counts)) {
		t.Logf("%3d %s", counts[verb], verb)
	}
	if counts["get contents"] != 1 {
		t.Errorf("the content was fetched %d times", counts["get contents"])
	}
	if n := counts["update bundledeployments/status"]; n < 1 || n > 12 {
		t.Errorf("the status was written %d times", n)
	}
	for _, never := range []string{"list secrets", "watch secrets", "list contents", "watch contents", "get secrets", "patch bundledeployments/status"} {
		if counts[never] > 0 {
			t.Errorf("%s", never)
		}
	}
}

// This test runs alone, because it stops the hub for all tests.
func TestHubDown_AgentWaits(t *testing.T) {
	l := newLab(t, "hub-down")
	l.start()
	l.apply(bundle{Name: "x", Files: deploytest.HelloFiles("hi"), Options: deploytest.InNamespace(l.Name)})
	l.expectStatus("x", ready)
	p := control.Plane(t)
	if err := p.Hub.Pause(); err != nil {
		t.Fatal(err)
	}
	// Changes in the meantime are reported afterwards; nothing is uninstalled.
	if err := l.East.CoreV1().ConfigMaps(l.Name).Delete(t.Context(), "x", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	l.eventually(func() string {
		if !strings.Contains(l.log(), "reporting the status") {
			return "nothing was tried"
		}
		return ""
	})
	if got := l.revisionsOf(l.Name, "x"); len(got) != 1 {
		t.Errorf("the release went with the hub: %v", got)
	}
	if err := p.Hub.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.expectStatus("x", says(conditions.Ready, "missing"))
	l.apply(bundle{Name: "x", Files: deploytest.HelloFiles("salut"), Options: deploytest.InNamespace(l.Name)})
	l.expectStatus("x", ready)
	if bd := l.get("x"); bd.Status.Release != l.Name+"/x:2" {
		t.Errorf("release is %s", bd.Status.Release)
	}
}

// A later change of an object triggers the deployment.
func TestDeletedReleaseSecret_ReleaseIsDeployedAgain(t *testing.T) {
	t.Parallel()
	expectDeployedAgain(t, "history-lost", func(l *lab) { l.remove("secrets", release.SecretName("x", 1)) }, func(l *lab) string {
		if len(l.revisionsOf(l.Name, "x")) != 1 {
			return "not made again"
		}
		return ""
	})
}

// expectDeployedAgain loses a release, and then an object goes or changes. check is another condition for the end, or nil.
func expectDeployedAgain(t *testing.T, prefix string, lose func(*lab), check func(*lab) string) {
	t.Helper()
	for name, happens := range map[string]func(*lab){
		"goes":    func(l *lab) { l.remove("configmaps", "x") },
		"changes": func(l *lab) { l.edit("configmaps", "x", `{"data":{"greeting":"edited"}}`) },
	} {
		t.Run("an object "+name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, prefix+"-"+name)
			l.start()
			l.apply(bundle{Name: "x", Files: deploytest.HelloFiles("hi"), Options: deploytest.InNamespace(l.Name)})
			l.expectStatus("x", ready)
			lose(l)
			happens(l)
			l.eventually(func() string {
				if check != nil && check(l) != "" {
					return check(l)
				}
				return cmp.Diff("hi", l.field("configmaps", "x", dig("data", "greeting")))
			})
			l.expectStatus("x", ready)
		})
	}
}

func TestUpgrade_DeletesRemovedObjects(t *testing.T) {
	t.Parallel()
	l := newLab(t, "surplus")
	l.start()
	files := map[string]string{
		"a.yaml": deploytest.ConfigMapYAML,
		"b.yaml": strings.Replace(deploytest.ConfigMapYAML, "name: cm", "name: gone", 1),
		"c.yaml": strings.Replace(deploytest.ConfigMapYAML, "name: cm", "name: kept, annotations: {helm.sh/resource-policy: keep}", 1),
	}
	l.apply(bundle{Name: "x", Files: files, Options: deploytest.InNamespace(l.Name)})
	l.expectStatus("x", ready)
	l.apply(bundle{Name: "x", Files: map[string]string{"a.yaml": deploytest.ConfigMapYAML}, Options: deploytest.InNamespace(l.Name)})
	bd := l.expectStatus("x", func(bd *fleet.BundleDeployment) string {
		if len(bd.Status.Resources) != 1 {
			return "more than one object"
		}
		return ready(bd)
	})
	if l.configMapIsThere(l.Name, "gone") || !l.configMapIsThere(l.Name, "kept") || bd.Status.Release != l.Name+"/x:2" {
		t.Errorf("gone: %t, kept: %t, release %s", !l.configMapIsThere(l.Name, "gone"), l.configMapIsThere(l.Name, "kept"), bd.Status.Release)
	}
}

func TestDeployments_KeepTwoRevisions(t *testing.T) {
	t.Parallel()
	l := newLab(t, "revisions")
	l.start()
	for i := range 4 {
		l.apply(bundle{Name: "x", Files: deploytest.HelloFiles(fmt.Sprint("v", i)), Options: deploytest.InNamespace(l.Name)})
		l.expectStatus("x", ready)
	}
	if got := fmt.Sprint(l.revisionsOf(l.Name, "x")); got != "[3 superseded 4 deployed]" {
		t.Errorf("revisions %s", got)
	}
}

func TestForce_ReplacesImmutableObjects(t *testing.T) {
	t.Parallel()
	l := newLab(t, "force")
	l.start()
	service := func(ip string) map[string]string {
		return map[string]string{"s.yaml": "apiVersion: v1\nkind: Service\nmetadata: {name: s}\nspec: {ports: [{port: 80}], selector: {a: b}, type: " + ip + "}\n"}
	}
	l.apply(bundle{Name: "x", Files: service("NodePort"), Options: deploytest.InNamespace(l.Name)})
	l.expectStatus("x", ready)
	options := deploytest.InNamespace(l.Name)
	options.Helm.Force = true
	l.apply(bundle{Name: "x", Files: service("ClusterIP"), Options: options})
	l.expectStatus("x", ready)
	found, err := l.East.CoreV1().Services(l.Name).Get(t.Context(), "s", metav1.GetOptions{})
	if err != nil || found.Spec.Type != "ClusterIP" || found.Spec.Ports[0].NodePort != 0 {
		t.Errorf("not replaced: %v %v", found.Spec, err)
	}
}

// This test deploys as many bundles as a cluster usually has.
func TestManyBundles_AreDeployed(t *testing.T) {
	l := newLab(t, "many")
	l.options = func(o *Options) { o.Workers = 50 }
	const count = 60
	for i := range count {
		l.apply(bundle{Name: fmt.Sprintf("b-%02d", i), Files: deploytest.HelloFiles("hi"), Options: deploytest.InNamespace(l.Name)})
	}
	began := time.Now()
	l.start()
	for i := range count {
		l.expectStatus(fmt.Sprintf("b-%02d", i), ready)
	}
	t.Logf("%d bundles in %s", count, time.Since(began))
	began = time.Now()
	for i := range count {
		l.delete(fmt.Sprintf("b-%02d", i))
	}
	l.eventually(func() string {
		list, err := l.East.CoreV1().Secrets(l.Name).List(t.Context(), metav1.ListOptions{LabelSelector: "owner=helm"})
		if err != nil || len(list.Items) > 0 {
			return fmt.Sprintf("%d releases are there (%v)", len(list.Items), err)
		}
		return ""
	})
	t.Logf("gone in %s", time.Since(began))
}

// The API server stores an empty map for null, and an empty text for null in a map.
func TestNullLabelsAndAnnotations_AreDeployed(t *testing.T) {
	t.Parallel()
	l := newLab(t, "null")
	l.start()
	l.apply(bundle{Name: "x", Options: deploytest.InNamespace(l.Name), Change: correcting(fleet.CorrectDrift{Enabled: true}), Files: map[string]string{
		"a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, annotations: null, labels: {x: null, b: z}}\n---\n" +
			"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b, annotations: {checksum/x: }, labels: }\n",
	}})
	l.expectStatus("x", released(l.Name+"/x:1"))
	live, err := l.East.CoreV1().ConfigMaps(l.Name).Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if value, found := live.Labels["x"]; !found || value != "" || live.Labels["b"] != "z" {
		t.Errorf("labels %v", live.Labels)
	}
}
