package hub_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/dev/plane"
	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/e2e/framework/helm"
	"github.com/fleet-hub/fleet/internal/cmd/controller/agentmanagement"
	"github.com/fleet-hub/fleet/internal/cmd/controller/bundles"
	ctrl "github.com/fleet-hub/fleet/internal/cmd/controller/hub"
	"github.com/fleet-hub/fleet/internal/cmd/env"
	"github.com/fleet-hub/fleet/internal/kube"
	"github.com/fleet-hub/fleet/internal/logging"
	"github.com/fleet-hub/fleet/internal/protocol/names"
)

const (
	system = "cattle-fleet-system"
	// patience is how long a test waits for what should take milliseconds.
	patience = 90 * time.Second
)

var control = plane.Share(plane.Options{BeforeControllers: helm.HubCRDs})

func TestMain(m *testing.M) { os.Exit(control.Main(m)) }

// lines is a log that can be read while it is written.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// about returns the log lines about undecodable fields, without their times and remedies.
func (l *lines) about(object string) (found []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		if _, told, ok := strings.Cut(line, `msg="object cannot be decoded completely" `); ok && strings.Contains(told, object) {
			fields, _, _ := strings.Cut(told, "; correct it with: ")
			found = append(found, fields)
		}
	}
	return found
}

// controllers runs the controllers with the chart's account, until the returned function is called.
func controllers(t *testing.T, log *lines) (end func()) {
	t.Helper()
	hub := control.Plane(t).Hub
	token, err := reach(t).Kube.CoreV1().ServiceAccounts(system).CreateToken(t.Context(), "fleet-controller", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	cfg := rest.AnonymousClientConfig(hub.Config())
	cfg.BearerToken, cfg.QPS = token.Status.Token, -1
	options := logging.Options{Writer: log}
	logger := logging.New(options)
	logging.Bridge(logger, options)
	ctx, cancel := context.WithCancel(context.Background())
	started, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- agentmanagement.Run(ctx, agentmanagement.Options{
			Options: ctrl.Options{
				Own: kube.Own{Config: kube.Tune(cfg)},
				Env: env.Controller{Namespace: system, DisableBootstrap: true, Agent: env.AgentSettings{
					Replicas: 1, LeaseDuration: "30s", RenewDeadline: "25s", RetryPeriod: "10s",
				}},
				Version: "dev", Log: logger,
			},
			Also:      []agentmanagement.RegisterFunc{bundles.Register},
			OnStarted: func() { close(started) },
		})
	}()
	select {
	case <-started:
	case err := <-ended:
		t.Fatalf("the controllers ended: %v", err)
	case <-time.After(patience):
		t.Fatalf("the controllers did not start within %s", patience)
	}
	end = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(end)
	return end
}

// reach returns an administrator's client.
func reach(t *testing.T) *client.Client {
	t.Helper()
	c, err := client.New(control.Plane(t).Hub.Config())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// object is an object on the server, with any content.
type object struct {
	t                         *testing.T
	hub                       *client.Client
	resource, namespace, name string
}

// make creates it from a document without its metadata.
func (o object) make(kind, rest string) object {
	o.t.Helper()
	document := fmt.Sprintf(`{"apiVersion":"fleet.cattle.io/v1alpha1","kind":%q,"metadata":{"namespace":%q,"name":%q}%s}`, kind, o.namespace, o.name, rest)
	if err := o.hub.Fleet.Post().Namespace(o.namespace).Resource(o.resource).Body([]byte(document)).Do(o.t.Context()).Error(); err != nil {
		o.t.Fatal(err)
	}
	return o
}

func (o object) patch(patch string, subresources ...string) {
	o.t.Helper()
	request := o.hub.Fleet.Patch(types.MergePatchType).Namespace(o.namespace).Resource(o.resource).Name(o.name).SubResource(subresources...)
	if err := request.Body([]byte(patch)).Do(o.t.Context()).Error(); err != nil {
		o.t.Fatal(err)
	}
}

// expect waits until the fields at these paths have these JSON values. An empty value means that the field is missing.
func (o object) expect(want map[string]string) {
	o.t.Helper()
	NewWithT(o.t).Eventually(func(g Gomega) {
		text, err := o.hub.Fleet.Get().Namespace(o.namespace).Resource(o.resource).Name(o.name).DoRaw(o.t.Context())
		g.Expect(err).NotTo(HaveOccurred())
		got := map[string]string{}
		for path := range want {
			got[path] = at(g, text, path)
		}
		g.Expect(got).To(Equal(want))
	}).WithTimeout(patience).WithPolling(20 * time.Millisecond).Should(Succeed())
}

func at(g Gomega, document []byte, path string) string {
	for name := range strings.SplitSeq(path, ".") {
		var fields map[string]json.RawMessage
		g.Expect(json.Unmarshal(document, &fields)).To(Succeed())
		if document = fields[name]; document == nil {
			return ""
		}
	}
	return string(document)
}

// expectReported waits for the report about an object: one log line and an Event that names the fields and the remedy.
func (o object) expectReported(log *lines, kind, fields, remedy string) {
	o.t.Helper()
	NewWithT(o.t).Eventually(func(g Gomega) {
		g.Expect(log.about(kind + " " + o.namespace + "/" + o.name + `"`)).To(Equal([]string{fmt.Sprintf(`object="%s %s/%s" error="undecodable: %s`, kind, o.namespace, o.name, fields)}))
		list, err := o.hub.Kube.CoreV1().Events(o.namespace).List(o.t.Context(), metav1.ListOptions{FieldSelector: "reason=Unreadable,involvedObject.name=" + o.name})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(list.Items).NotTo(BeEmpty())
		for _, event := range list.Items {
			g.Expect(event.Type).To(Equal(corev1.EventTypeWarning))
			g.Expect(event.Message).To(Equal(fields + " cannot be decoded, so the object is not reconciled. Correct it with: kubectl edit " + remedy))
		}
	}).WithTimeout(patience).Should(Succeed())
}

// namespaceOf returns the name of the namespace of a Cluster in this workspace, as JSON.
func namespaceOf(cluster string) string {
	return fmt.Sprintf("%q", names.ClusterNamespace("ws", cluster))
}

// The CRDs allow values that cannot be decoded. They affect only their own object: the hub starts, reconciles all
// others, does not overwrite the values, and reconciles the object once it is corrected.
func TestUndecodableObjects_DoNotBlockOthers(t *testing.T) {
	hub := reach(t)
	plane := control.Plane(t).Hub
	values := map[string]any{"apiServerURL": plane.URL, "apiServerCA": string(plane.CA), "bootstrap": map[string]any{"enabled": false}}
	if err := (helm.Release{Config: plane.Config(), Chart: "fleet", Name: "fleet", Namespace: system, Values: values}).Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := hub.EnsureNamespace(t.Context(), "ws"); err != nil {
		t.Fatal(err)
	}
	a := func(resource, name string) object { return object{t, hub, resource, "ws", name} }
	good := a(client.Clusters, "good").make("Cluster", "")
	agents := a(client.Clusters, "agents").make("Cluster", "")
	agents.patch(`{"status":{"agent":{"lastSeen":"2026-01-02t03:04:05z","namespace":"n"},"garbageCollectionInterval":"x"}}`, "status")
	users := a(client.Clusters, "users").make("Cluster", `,"spec":{"agentResources":{"limits":{"cpu":"1","memory":"1e1.5"}}}`)
	bundle := a(client.Bundles, "bundle").make("Bundle", `,"spec":{"rolloutStrategy":{"maxUnavailable":99999999999},"targets":[{"clusterName":"good"}],"resources":[{"name":"a.yaml","content":"a"}]}`)
	deployment := a(client.BundleDeployments, "deployment").make("BundleDeployment", `,"spec":{"deploymentID":"a:b"}`)
	deployment.patch(`{"status":{"release":"ns/deployment:1","resources":[{"kind":"ConfigMap","name":"one","createdAt":"2026-01-02t03:04:05z"}]}}`, "status")

	log := &lines{}
	end := controllers(t, log)
	good.expect(map[string]string{"status.namespace": namespaceOf("good"), "metadata.finalizers": `["fleet.cattle.io/cluster-finalizer"]`})
	agents.expectReported(log, "Cluster", "status.agent, status.garbageCollectionInterval", "clusters.fleet.cattle.io agents --namespace ws --subresource status")
	users.expectReported(log, "Cluster", "spec.agentResources", "clusters.fleet.cattle.io users --namespace ws")
	bundle.expectReported(log, "Bundle", "spec.rolloutStrategy", "bundles.fleet.cattle.io bundle --namespace ws")
	deployment.expectReported(log, "BundleDeployment", "status.resources", "bundledeployments.fleet.cattle.io deployment --namespace ws --subresource status")
	agents.expect(map[string]string{
		"status.namespace": "", "status.agent.lastSeen": `"2026-01-02t03:04:05z"`, "status.agent.namespace": `"n"`,
		"status.garbageCollectionInterval": `"x"`, "metadata.finalizers": "",
	})
	deployment.expect(map[string]string{
		"status.display": "", "status.release": `"ns/deployment:1"`,
		"status.resources": `[{"createdAt":"2026-01-02t03:04:05z","kind":"ConfigMap","name":"one"}]`,
	})
	users.expect(map[string]string{"status": "", "metadata.finalizers": "", "spec.agentResources.limits.memory": `"1e1.5"`})
	bundle.expect(map[string]string{"status": "", "metadata.finalizers": "", "spec.rolloutStrategy.maxUnavailable": "99999999999"})

	good.patch(`{"status":{"garbageCollectionInterval":"x"}}`, "status") // while the hub watches
	good.expectReported(log, "Cluster", "status.garbageCollectionInterval", "clusters.fleet.cattle.io good --namespace ws --subresource status")
	a(client.Clusters, "late").make("Cluster", "").expect(map[string]string{"status.namespace": namespaceOf("late")})
	good.expect(map[string]string{"status.garbageCollectionInterval": `"x"`})

	users.patch(`{"spec":{"agentResources":{"limits":{"memory":"1Gi"}}}}`)
	users.expect(map[string]string{"status.namespace": namespaceOf("users"), "spec.agentResources.limits": `{"cpu":"1","memory":"1Gi"}`})
	bundle.patch(`{"spec":{"rolloutStrategy":{"maxUnavailable":1}}}`)
	bundle.expect(map[string]string{"metadata.finalizers": `["fleet.cattle.io/bundle-finalizer"]`, "status.summary.desiredReady": "1"})
	agents.patch(`{"status":{"agent":{"lastSeen":"2026-01-02T03:04:05Z"},"garbageCollectionInterval":null}}`, "status")
	agents.expect(map[string]string{"status.namespace": namespaceOf("agents"), "metadata.finalizers": `["fleet.cattle.io/cluster-finalizer"]`})

	end()
	again := &lines{}
	controllers(t, again)
	a(client.Clusters, "last").make("Cluster", "").expect(map[string]string{"status.namespace": namespaceOf("last")})
	good.expectReported(again, "Cluster", "status.garbageCollectionInterval", "clusters.fleet.cattle.io good --namespace ws --subresource status")
	for _, whole := range []string{"agents", "users", "bundle"} {
		if told := again.about("ws/" + whole + `"`); len(told) > 0 {
			t.Errorf("%s is whole, and yet %q", whole, told)
		}
	}
	if err := hub.Delete(t.Context(), client.Clusters, "ws", "good"); err != nil {
		t.Fatal(err)
	}
	NewWithT(t).Eventually(func(g Gomega) {
		_, err := good.hub.Fleet.Get().Namespace("ws").Resource(client.Clusters).Name("good").DoRaw(t.Context())
		g.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "it goes like any other")
	}).WithTimeout(patience).Should(Succeed())
}
