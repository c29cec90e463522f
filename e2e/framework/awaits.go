package framework

import (
	"context"
	"fmt"
	"sort"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/fleet-hub/fleet/dev/plane"
	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Patience limits each wait of a story. It is long: the awaited events take a second or two, but the machine may
// be busy.
const Patience = 3 * time.Minute

// Joined waits until the hub has recorded a heartbeat of a Cluster in the workspace for which is returns true.
func (u *User) Joined(ctx context.Context, workspace, who string, is func(*fleet.Cluster) bool) (*fleet.Cluster, error) {
	return client.Until(ctx, client.Await{
		From: u.Hub.Fleet, Resource: client.Clusters, Namespace: workspace, For: "the first heartbeat of " + who, Within: Patience,
	}, func(c *fleet.Cluster) bool { return is(c) && !c.Status.Agent.LastSeen.IsZero() })
}

// Named returns a function that matches the Cluster with this name.
func Named(name string) func(*fleet.Cluster) bool {
	return func(c *fleet.Cluster) bool { return c.Name == name }
}

// SeenAfter waits for a heartbeat of a Cluster after the given time.
func (u *User) SeenAfter(ctx context.Context, cluster *fleet.Cluster, before time.Time, within time.Duration) (*fleet.Cluster, error) {
	return client.Until(ctx, client.Await{
		From: u.Hub.Fleet, Resource: client.Clusters, Namespace: cluster.Namespace, Name: cluster.Name, For: "a later heartbeat", Within: within,
	}, func(c *fleet.Cluster) bool { return c.Status.Agent.LastSeen.After(before) })
}

// Ready waits until a Cluster has this many Bundles in addition to its agent's Bundle, and all are ready.
func (u *User) Ready(ctx context.Context, cluster *fleet.Cluster, bundles int) (*fleet.Cluster, error) {
	return client.Until(ctx, client.Await{
		From: u.Hub.Fleet, Resource: client.Clusters, Namespace: cluster.Namespace, Name: cluster.Name,
		For: fmt.Sprintf("%d ready Bundles and the agent's own", bundles), Within: Patience,
	}, func(c *fleet.Cluster) bool {
		return c.Status.Summary.DesiredReady == bundles+1 && c.Status.Summary.Ready == bundles+1
	})
}

// ConfigMap waits for a ConfigMap on a downstream cluster for which is returns true.
func (u *User) ConfigMap(ctx context.Context, cluster, namespace, name string, is func(*corev1.ConfigMap) bool) (*corev1.ConfigMap, error) {
	return client.Until(ctx, client.Await{
		From: u.On(cluster).Kube.CoreV1().RESTClient(), Resource: "configmaps", Namespace: namespace, Name: name, For: "the content of the Bundle", Within: Patience,
	}, is)
}

// Registrations returns the sorted names of a client's ClusterRegistrations.
func (u *User) Registrations(ctx context.Context, workspace, clientID string) ([]string, error) {
	var list fleet.ClusterRegistrationList
	if err := u.Hub.List(ctx, client.ClusterRegistrations, workspace, &list); err != nil {
		return nil, err
	}
	var found []string
	for _, request := range list.Items {
		if request.Spec.ClientID == clientID {
			found = append(found, request.Name)
		}
	}
	sort.Strings(found)
	return found, nil
}

// AgentPod returns the only pod of a cluster's agent.
func (u *User) AgentPod(ctx context.Context, cluster string) (*corev1.Pod, error) {
	pods, err := u.On(cluster).Kube.CoreV1().Pods(names.SystemNamespace).List(ctx, metav1.ListOptions{LabelSelector: "app=" + names.Agent})
	if err != nil {
		return nil, err
	}
	if len(pods.Items) != 1 {
		return nil, fmt.Errorf("finding the agent of %s: want one pod, found %d", cluster, len(pods.Items))
	}
	return &pods.Items[0], nil
}

// Restarts returns how often the processes of a pod were restarted.
func Restarts(pod *corev1.Pod) int32 {
	var sum int32
	for _, container := range pod.Status.ContainerStatuses {
		sum += container.RestartCount
	}
	return sum
}

// Describe returns the state of the hub for a failed story: conditions without secrets, and where the logs are.
func (u *User) Describe(ctx context.Context) string {
	var text strings.Builder
	for _, resource := range []struct {
		name string
		list runtime.Object
	}{
		{client.Clusters, &fleet.ClusterList{}}, {client.Tokens, &fleet.ClusterRegistrationTokenList{}},
		{client.ClusterRegistrations, &fleet.ClusterRegistrationList{}}, {client.Bundles, &fleet.BundleList{}},
		{client.BundleDeployments, &fleet.BundleDeploymentList{}},
	} {
		if err := u.Hub.List(ctx, resource.name, "", resource.list); err != nil {
			fmt.Fprintf(&text, "%s: %v\n", resource.name, err)
			continue
		}
		describe(&text, resource.name, resource.list)
	}
	fmt.Fprintf(&text, "logs: %s\n", u.logs)
	return text.String()
}

func describe(text *strings.Builder, resource string, list runtime.Object) {
	switch found := list.(type) {
	case *fleet.ClusterList:
		for _, c := range found.Items {
			fmt.Fprintf(text, "%s %s/%s seen %v %s %+v\n", resource, c.Namespace, c.Name, c.Status.Agent.LastSeen, c.Status.Display.ReadyBundles, c.Status.Conditions)
		}
	case *fleet.ClusterRegistrationTokenList:
		for _, t := range found.Items {
			fmt.Fprintf(text, "%s %s/%s secret %q %+v\n", resource, t.Namespace, t.Name, t.Status.SecretName, t.Status.Conditions)
		}
	case *fleet.ClusterRegistrationList:
		for _, r := range found.Items {
			fmt.Fprintf(text, "%s %s/%s cluster %q granted %v %+v\n", resource, r.Namespace, r.Name, r.Status.ClusterName, r.Status.Granted, r.Status.Conditions)
		}
	case *fleet.BundleList:
		for _, b := range found.Items {
			fmt.Fprintf(text, "%s %s/%s %s %+v\n", resource, b.Namespace, b.Name, b.Status.Display.ReadyClusters, b.Status.Conditions)
		}
	case *fleet.BundleDeploymentList:
		for _, d := range found.Items {
			fmt.Fprintf(text, "%s %s/%s %s %+v\n", resource, d.Namespace, d.Name, d.Status.Display.State, d.Status.Conditions)
		}
	}
}

// HubName is the name of the hub's cluster.
const HubName = plane.HubName
