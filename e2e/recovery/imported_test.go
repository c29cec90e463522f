package recovery_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// importAgents creates Clusters with a kubeconfig, for each of which the hub installs an agent in a namespace of its own.
// It waits until they have reported.
func (h *hub) importAgents(t *testing.T, from, to int) []*agent {
	t.Helper()
	kubeconfig := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: framework.Workspace, Name: h.prefix + "-kubeconfig"},
		Data:       map[string][]byte{protocol.KubeconfigValueKey: wests.Plane(t).Hub.Kubeconfig},
	}
	if _, err := h.Hub.Kube.CoreV1().Secrets(framework.Workspace).Create(t.Context(), kubeconfig, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	var imported []*agent
	for i := from; i < to; i++ {
		a, err := h.newAgent(h.agentName(i))
		if err == nil {
			err = h.Hub.Create(t.Context(), client.Clusters, &fleet.Cluster{
				ObjectMeta: metav1.ObjectMeta{Namespace: framework.Workspace, Name: a.name, Labels: map[string]string{agentLabel: a.name}},
				Spec: fleet.ClusterSpec{
					KubeConfigSecret: kubeconfig.Name, AgentNamespace: a.name,
					AgentEnvVars: []corev1.EnvVar{{Name: "CHECKIN_INTERVAL", Value: beatInterval.String()}}, // the hub knows when it is late
				},
			})
		}
		if err != nil {
			t.Fatal(err)
		}
		imported = append(imported, a)
	}
	h.runPodsOf(t, imported)
	h.awaitJoined(t, imported)
	return imported
}

// runPodsOf runs an agent as long as its Deployment has a pod, as a node does. The pods of this control plane have no
// processes of their own.
func (h *hub) runPodsOf(t *testing.T, agents []*agent) {
	t.Helper()
	factory := informers.NewSharedInformerFactoryWithOptions(h.west, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.LabelSelector = "app=" + names.Agent
	}))
	pods := factory.Core().V1().Pods()
	running := map[*agent]types.UID{}
	follow := func(any) { // one call at a time
		for _, a := range agents {
			// Cannot fail: the informer indexes by namespace.
			found, _ := pods.Informer().GetIndexer().ByIndex(cache.NamespaceIndex, a.name)
			wanted := oldestPod(found)
			if running[a] == wanted {
				continue
			}
			if running[a] != "" {
				a.stop()
			}
			if running[a] = wanted; wanted != "" {
				a.start()
			}
		}
	}
	_, err := pods.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: follow, DeleteFunc: follow})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	factory.Start(ctx.Done())
	h.stopPods = func() { cancel(); factory.Shutdown() }
}

// oldestPod returns the UID of the pod that was created first, or "".
func oldestPod(pods []any) types.UID {
	slices.SortFunc(pods, func(a, b any) int {
		x, y := a.(*corev1.Pod), b.(*corev1.Pod)
		if before := x.CreationTimestamp.Compare(y.CreationTimestamp.Time); before != 0 {
			return before
		}
		return strings.Compare(x.Name, y.Name)
	})
	if len(pods) == 0 {
		return ""
	}
	return pods[0].(*corev1.Pod).UID
}

// deleteNamespace deletes the namespace of an agent with everything in it.
func (h *hub) deleteNamespace(ctx context.Context, a *agent) error {
	return h.west.CoreV1().Namespaces().Delete(ctx, a.name, metav1.DeleteOptions{})
}
