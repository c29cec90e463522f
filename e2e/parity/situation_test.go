package parity_test

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/e2e/framework/helm"
	"github.com/fleet-hub/fleet/e2e/parity"
	"github.com/fleet-hub/fleet/internal/protocol"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// The clusters of the situation.
const (
	hub  = framework.HubName
	east = "east"
	west = "west"
)

// situation is the recorded one, played.
type situation struct {
	*framework.World
	recorded []parity.Object
	kinds    map[string][]string // that were recorded, by cluster
	// held keeps the pods of Bundle raw from running: so it was when the hub was recorded.
	held atomic.Bool
}

func start(t *testing.T) *situation {
	t.Helper()
	s := &situation{kinds: map[string][]string{}}
	s.held.Store(true)
	var err error
	s.recorded, err = parity.Load(os.DirFS(filepath.Join("..", "..", "testdata", "recorded")), hub, east, west)
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range s.recorded {
		if !slices.Contains(s.kinds[object.Cluster], object.Kind()) {
			s.kinds[object.Cluster] = append(s.kinds[object.Cluster], object.Kind())
		}
	}
	s.World, err = framework.Start(t.Context(), framework.Options{
		Downstreams: []string{east, west}, Progress: t.Logf,
		Hold: func(cluster string, pod *corev1.Pod) bool {
			return cluster == east && pod.Namespace == "raw" && s.held.Load()
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("logs: %s", s.LogDir)
			return
		}
		if err := s.RemoveLogs(); err != nil {
			t.Error(err)
		}
	})
	images := map[string]any{
		"image":      map[string]any{"repository": "rancher/fleet", "tag": "dev"},
		"agentImage": map[string]any{"repository": "rancher/fleet-agent", "tag": "dev"},
	}
	if err := s.InstallHub(t.Context(), images); err != nil {
		t.Fatal(err)
	}
	return s
}

// installAgent installs the agent on west with the token's values.
func (s *situation) installAgent(t *testing.T) *fleet.Cluster {
	t.Helper()
	secret, err := client.Until(t.Context(), client.Await{
		From: s.Hub.Kube.CoreV1().RESTClient(), Resource: "secrets", Namespace: framework.Workspace, Name: "swarm", For: "the token's values", Within: framework.Patience,
	}, func(s *corev1.Secret) bool { return s.Type == protocol.SecretTypeValues })
	if err != nil {
		t.Fatal(err)
	}
	values, err := helm.ParseValues(secret.Data[protocol.ValuesKey])
	if err != nil {
		t.Fatal(err)
	}
	values["labels"] = map[string]any{"env": "prod"}
	values["image"] = map[string]any{"repository": "rancher/fleet-agent", "tag": "dev"}
	if err := s.InstallAgent(t.Context(), west, values); err != nil {
		t.Fatal(err)
	}
	cluster, err := s.Joined(t.Context(), framework.Workspace, west, func(c *fleet.Cluster) bool { return c.Labels["env"] == "prod" })
	if err != nil {
		t.Fatal(err)
	}
	return cluster
}

// make creates a user's objects from the recorded ones.
func (s *situation) make(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		i := slices.IndexFunc(s.recorded, func(o parity.Object) bool { return o.String() == hub+" "+name })
		if i < 0 {
			t.Fatalf("%s was not recorded", name)
		}
		object := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(s.recorded[i].Fields)}
		for _, ours := range [][]string{{"status"}, {"metadata", "uid"}, {"metadata", "finalizers"}, {"spec", "clientID"}} {
			unstructured.RemoveNestedField(object.Object, ours...)
		}
		if text, found, _ := unstructured.NestedString(object.Object, "decodedData", protocol.KubeconfigValueKey); found {
			delete(object.Object, "decodedData")
			object.Object["stringData"] = map[string]any{protocol.KubeconfigValueKey: s.kubeconfig(text)}
		}
		if _, err := s.dynamic(t, hub).Resource(resources[object.GetKind()]).Namespace(object.GetNamespace()).Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
			t.Fatalf("creating %s: %v", name, err)
		}
	}
}

// kubeconfig replaces the recorded cluster east in the kubeconfig by ours.
func (s *situation) kubeconfig(text string) string {
	cluster := s.Cluster(east)
	return strings.NewReplacer(
		recordedEast, cluster.URL,
		"<base64 PEM>", base64.StdEncoding.EncodeToString(cluster.CA)+"}}]",
		"<admin token>", cluster.Config().BearerToken,
	).Replace(text)
}

// letGo releases the held pods of Bundle raw, and waits until they are running.
func (s *situation) letGo(t *testing.T) {
	t.Helper()
	s.held.Store(false)
	pods := s.On(east).Kube.CoreV1().Pods("raw")
	list, err := pods.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range list.Items {
		if _, err := pods.Patch(t.Context(), pod.Name, types.MergePatchType, []byte(`{"metadata":{"annotations":{"let":"go"}}}`), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	_, err = client.Until(t.Context(), client.Await{
		From: s.On(east).Kube.AppsV1().RESTClient(), Resource: "deployments", Namespace: "raw", Name: "pause", For: "its pod", Within: framework.Patience,
	}, func(d *appsv1.Deployment) bool { return d.Status.AvailableReplicas == 1 })
	if err != nil {
		t.Fatal(err)
	}
}
