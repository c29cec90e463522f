package capi_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/fleet-hub/fleet/dev/plane"
	"github.com/fleet-hub/fleet/e2e/framework/await"
)

var control = plane.Share(plane.Options{Audit: true})

func TestMain(m *testing.M) { os.Exit(control.Main(m)) }

func coreOf(t *testing.T) *plane.CAPI {
	t.Helper()
	core, err := control.Plane(t).CAPI(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return core
}

// clusters returns a client for CAPI Clusters of this version in namespace default, as admin.
func clusters(t *testing.T, version string) dynamic.ResourceInterface {
	t.Helper()
	client, err := dynamic.NewForConfig(control.Plane(t).Hub.Config())
	if err != nil {
		t.Fatal(err)
	}
	return client.Resource(schema.GroupVersionResource{Group: "cluster.x-k8s.io", Version: version, Resource: "clusters"}).Namespace("default")
}

// clusterOf returns a Cluster whose provider is not installed.
func clusterOf(version, name, podCIDR string) *unstructured.Unstructured {
	infrastructure := map[string]any{"kind": "LabCluster", "name": name}
	if version == "v1beta1" {
		infrastructure["apiVersion"] = "infrastructure.cluster.x-k8s.io/v1alpha1"
	} else {
		infrastructure["apiGroup"] = "infrastructure.cluster.x-k8s.io"
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "cluster.x-k8s.io/" + version, "kind": "Cluster", "metadata": map[string]any{"name": name},
		"spec": map[string]any{
			"infrastructureRef": infrastructure,
			"clusterNetwork":    map[string]any{"pods": map[string]any{"cidrBlocks": []any{podCIDR}}},
		},
	}}
}

func create(t *testing.T, cluster *unstructured.Unstructured) {
	t.Helper()
	if _, err := clusters(t, cluster.GroupVersionKind().Version).Create(t.Context(), cluster, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// In version v1beta2, because an object can have lost the CRD that a conversion to v1beta1 needs.
		if err := clusters(t, "v1beta2").Delete(context.Background(), cluster.GetName(), metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})
}

// awaitFinalizer waits until the core's controller has added its finalizer to the Cluster.
func awaitFinalizer(t *testing.T, name string) {
	t.Helper()
	await.Until(t, "the core's finalizer", time.Minute, func(ctx context.Context) error {
		got, err := clusters(t, "v1beta2").Get(ctx, name, metav1.GetOptions{})
		if err == nil && len(got.GetFinalizers()) == 0 {
			return errors.New("the Cluster has no finalizer")
		}
		return err
	})
}

func TestInvalidCluster_IsRejectedByTheWebhook(t *testing.T) {
	coreOf(t)
	_, err := clusters(t, "v1beta2").Create(t.Context(), clusterOf("v1beta2", "wrong", "10.0.0.0/99"), metav1.CreateOptions{})
	if err == nil || !strings.Contains(err.Error(), `admission webhook "validation.cluster.cluster.x-k8s.io" denied the request`) || !strings.Contains(err.Error(), "10.0.0.0/99") {
		t.Errorf("creating a Cluster with an invalid network: %v", err)
	}
}

// addProvider installs the CRD of the Clusters' infrastructure. A conversion to v1beta1 reads the version of the CRD
// from its label.
func addProvider(t *testing.T) {
	t.Helper()
	client, err := dynamic.NewForConfig(control.Plane(t).Hub.Config())
	if err != nil {
		t.Fatal(err)
	}
	crd := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(providerCRD), &crd.Object); err != nil {
		t.Fatal(err)
	}
	crds := client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	if _, err := crds.Create(t.Context(), crd, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := crds.Delete(context.Background(), crd.GetName(), metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
}

const providerCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: labclusters.infrastructure.cluster.x-k8s.io
  labels: {cluster.x-k8s.io/v1beta2: v1alpha1}
spec:
  group: infrastructure.cluster.x-k8s.io
  names: {kind: LabCluster, plural: labclusters}
  scope: Namespaced
  versions:
  - name: v1alpha1
    served: true
    storage: true
    schema:
      openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}
`

func TestCluster_IsConvertedBetweenVersions(t *testing.T) {
	coreOf(t)
	addProvider(t)
	old := clusterOf("v1beta1", "old", "10.0.0.0/16")
	await.Until(t, "the core's knowledge of the provider's CRD", time.Minute, func(ctx context.Context) error {
		_, err := clusters(t, "v1beta1").Create(ctx, old, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	})
	create(t, old)
	got, err := clusters(t, "v1beta2").Get(t.Context(), "old", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	blocks, _, err := unstructured.NestedStringSlice(got.Object, "spec", "clusterNetwork", "pods", "cidrBlocks")
	group, _, _ := unstructured.NestedString(got.Object, "spec", "infrastructureRef", "apiGroup")
	if group != "infrastructure.cluster.x-k8s.io" {
		t.Errorf("the infrastructure's group is %q", group)
	}
	if diff := cmp.Diff([]string{"10.0.0.0/16"}, blocks); err != nil || diff != "" || got.GetAPIVersion() != "cluster.x-k8s.io/v1beta2" {
		t.Errorf("read as %s, %v, networks (-want +got):\n%s", got.GetAPIVersion(), err, diff)
	}
}

func TestCluster_IsReconciled(t *testing.T) {
	coreOf(t)
	create(t, clusterOf("v1beta2", "plain", "10.0.0.0/16"))
	awaitFinalizer(t, "plain")
}

func TestKilledCore_ServesAgainAfterRestart(t *testing.T) {
	core := coreOf(t)
	starts := startsOf(t, core)
	for range 2 { // the second Kill finds no process
		if err := core.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	_, err := clusters(t, "v1beta2").Create(t.Context(), clusterOf("v1beta2", "between", "10.0.0.0/16"), metav1.CreateOptions{})
	if err == nil || !strings.Contains(err.Error(), "failed calling webhook") {
		t.Errorf("creating a Cluster while the core is down: %v", err)
	}
	for range 2 { // the second Restart replaces a running process
		if err := core.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	create(t, clusterOf("v1beta2", "after", "10.0.0.0/16"))
	awaitFinalizer(t, "after")
	if now := startsOf(t, core); now != starts+2 {
		t.Errorf("the log %s contains %d starts, want %d", core.Log, now, starts+2)
	}
}

// startsOf returns how often the core has started, by its log.
func startsOf(t *testing.T, core *plane.CAPI) int {
	t.Helper()
	log, err := os.ReadFile(core.Log)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Count(log, []byte(`"Starting manager"`))
}

func TestRestartOnATakenPort_FailsWithTheCauseAndSucceedsLater(t *testing.T) {
	core := coreOf(t)
	if err := core.Kill(); err != nil {
		t.Fatal(err)
	}
	taken, err := net.Listen("tcp", webhookAddress(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := core.Restart(t.Context()); err == nil || !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("restarting on a taken port: %v", err)
	}
	if err := taken.Close(); err != nil {
		t.Fatal(err)
	}
	if err := core.Restart(t.Context()); err != nil {
		t.Error(err)
	}
}

// webhookAddress returns the address of the core's webhooks, as the API server knows it.
func webhookAddress(t *testing.T) string {
	t.Helper()
	client, err := kubernetes.NewForConfig(control.Plane(t).Hub.Config())
	if err != nil {
		t.Fatal(err)
	}
	webhooks, err := client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(t.Context(), "capi-validating-webhook-configuration", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	server, err := url.Parse(*webhooks.Webhooks[0].ClientConfig.URL)
	if err != nil {
		t.Fatal(err)
	}
	return server.Host
}

func TestSecondCall_ReturnsTheSameCore(t *testing.T) {
	if one, two := coreOf(t), coreOf(t); one != two {
		t.Errorf("cores %p and %p", one, two)
	}
}

// TestCore_RunsWithTheRightsOfItsAccount reads the audit log, because a kubeconfig shows only what the core could use.
func TestCore_RunsWithTheRightsOfItsAccount(t *testing.T) {
	core := coreOf(t)
	config, err := clientcmd.BuildConfigFromFlags("", core.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		verb, group, resource string
		want                  bool
	}{
		{"*", "*", "*", false},
		{"create", "rbac.authorization.k8s.io", "clusterrolebindings", false},
		{"create", "", "serviceaccounts/token", false},
		{"list", "cluster.x-k8s.io", "clusters", true},
		{"create", "infrastructure.cluster.x-k8s.io", "labmachines", true},
	} {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: test.verb, Group: test.group, Resource: test.resource},
		}}
		got, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(), review, metav1.CreateOptions{})
		if err != nil || got.Status.Allowed != test.want {
			t.Errorf("%s %s.%s: allowed %t, want %t, %v", test.verb, test.resource, test.group, got.Status.Allowed, test.want, err)
		}
	}
	users, err := usersOf(control.Plane(t).Hub.AuditLog, "cluster-api-controller-manager")
	if diff := cmp.Diff(map[string]bool{"system:serviceaccount:capi-system:capi-manager": true}, users); err != nil || diff != "" {
		t.Errorf("%v, users of the core's requests (-want +got):\n%s", err, diff)
	}
}

// usersOf returns the users of all requests in the audit log whose user agent contains agent.
func usersOf(log, agent string) (map[string]bool, error) {
	file, err := os.Open(log)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // only read from
	users := map[string]bool{}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var event struct {
			UserAgent string
			User      struct{ Username string }
		}
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			return nil, fmt.Errorf("line %q: %w", lines.Text(), err)
		}
		if strings.Contains(event.UserAgent, agent) {
			users[event.User.Username] = true
		}
	}
	return users, lines.Err()
}
