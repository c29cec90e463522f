package labmachine

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/fleet-hub/fleet/dev/machines/contract"
	"github.com/fleet-hub/fleet/internal/kube/kubeconfig"
	"github.com/fleet-hub/fleet/internal/reconcile"
)

// nodeTimeout limits each request to a workload cluster.
const nodeTimeout = 5 * time.Second

// Nodes reads and patches Nodes of a workload cluster.
type Nodes interface {
	// Node returns the Node, or nil if it does not exist.
	Node(ctx context.Context, cluster *clusterv1.Cluster, name string) (*corev1.Node, error)
	PatchNode(ctx context.Context, cluster *clusterv1.Cluster, name string, patch []byte) error
}

// workload reads and patches Nodes with the kubeconfig of the cluster.
type workload struct {
	secret func(namespace, name string) (*corev1.Secret, error)
}

func (w workload) Node(ctx context.Context, cluster *clusterv1.Cluster, name string) (*corev1.Node, error) {
	client, err := w.client(cluster)
	if err != nil {
		return nil, err
	}
	return reconcile.Optional(client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{}))
}

func (w workload) PatchNode(ctx context.Context, cluster *clusterv1.Cluster, name string, patch []byte) error {
	client, err := w.client(cluster)
	if err != nil {
		return err
	}
	_, err = client.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

func (w workload) client(cluster *clusterv1.Cluster) (kubernetes.Interface, error) {
	name := contract.KubeconfigSecret(cluster.Name)
	secret, err := reconcile.Optional(w.secret(cluster.Namespace, name))
	if err != nil {
		return nil, err
	}
	config, err := accessOf(cluster, secret)
	if err != nil {
		return nil, fmt.Errorf("using the kubeconfig in Secret %s/%s: %w", cluster.Namespace, name, err)
	}
	return kubernetes.NewForConfig(config)
}

// accessOf returns how to reach a workload cluster: with the credentials of its kubeconfig, at the endpoint of the Cluster.
// The address in the kubeconfig is for clients elsewhere, and must not lead the provider to other servers.
func accessOf(cluster *clusterv1.Cluster, secret *corev1.Secret) (*rest.Config, error) {
	switch {
	case secret == nil:
		return nil, errors.New("it does not exist yet")
	case secret.Type != clusterv1.ClusterSecretType || secret.Labels[clusterv1.ClusterNameLabel] != cluster.Name:
		return nil, fmt.Errorf("it is not the kubeconfig of Cluster %s: it needs type %s and label %s=%s", cluster.Name, clusterv1.ClusterSecretType, clusterv1.ClusterNameLabel, cluster.Name)
	case cluster.Spec.ControlPlaneEndpoint.IsZero():
		return nil, fmt.Errorf("there is no endpoint of Cluster %s yet", cluster.Name)
	}
	config, err := kubeconfig.Safe(secret.Data["value"])
	if err != nil {
		return nil, err
	}
	config.Host = "https://" + cluster.Spec.ControlPlaneEndpoint.String()
	config.Timeout = nodeTimeout
	return config, nil
}
