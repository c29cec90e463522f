// Package framework is what the user stories need: the product's own binaries, a hub and downstream
// clusters that run them, and the few things a user does.
//
//	Start ─► plane ─► charts installed ─► the story ─► Stop
package framework

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/e2e/framework/helm"
	"github.com/fleet-hub/fleet/internal/handshake"
	"github.com/fleet-hub/fleet/internal/names"
	"github.com/fleet-hub/fleet/internal/plane"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Workspaces of the stories.
const (
	Workspace      = "fleet-default"
	LocalWorkspace = "fleet-local"
)

// World is a hub with the product installed, and downstream clusters on which nothing is.
type World struct {
	*plane.Plane
	// Hub reaches the hub as an admin.
	Hub *client.Client

	built  string // folder of the binaries that Start has built; empty if it has not
	admins map[string]*client.Client
}

// Options of Start.
type Options struct {
	// Downstreams are the clusters beside the hub.
	Downstreams []string
	// Binaries are the product's executables by name; nil builds them.
	Binaries map[string]string
	// Progress receives a line for what takes long; nil drops it.
	Progress func(format string, args ...any)
}

// Start builds the product where it has to, and starts the planes; on the hub are the CRDs, and else
// nothing (InstallHub).
func Start(ctx context.Context, o Options) (*World, error) {
	w := &World{admins: map[string]*client.Client{}}
	if o.Binaries == nil {
		var err error
		if w.built, err = os.MkdirTemp("", "fleet-e2e-"); err != nil {
			return nil, err
		}
		if o.Binaries, err = Build(ctx, w.built); err != nil {
			return nil, errors.Join(err, w.Stop())
		}
	}
	var err error
	w.Plane, err = plane.Start(ctx, plane.Options{
		Downstreams: o.Downstreams, Binaries: o.Binaries, Progress: o.Progress, BeforeControllers: installCRDs,
	})
	if err != nil {
		return nil, errors.Join(err, w.Stop())
	}
	for _, cluster := range append([]*plane.Cluster{w.Plane.Hub}, w.Downstreams...) {
		if w.admins[cluster.Name], err = client.New(cluster.Config()); err != nil {
			return nil, errors.Join(err, w.Stop())
		}
	}
	w.Hub = w.admins[plane.HubName]
	return w, nil
}

// Stop ends everything and removes all but the logs.
func (w *World) Stop() error {
	var err error
	if w.Plane != nil {
		err = w.Plane.Stop()
	}
	if w.built != "" {
		err = errors.Join(err, os.RemoveAll(w.built))
	}
	return err
}

// On reaches a downstream cluster as an admin.
func (w *World) On(cluster string) *client.Client { return w.admins[cluster] }

// Build makes the product's two binaries in a folder, and says where they are.
func Build(ctx context.Context, folder string) (map[string]string, error) {
	binaries := map[string]string{}
	for name, source := range map[string]string{"fleetcontroller": "cmd/controller", "fleetagent": "cmd/agent"} {
		binaries[name] = filepath.Join(folder, name)
		if err := goBuild(ctx, binaries[name], source); err != nil {
			return nil, err
		}
	}
	return binaries, nil
}

// installCRDs runs before the hub's controller-manager: its garbage collector learns of later CRDs only
// every half minute.
func installCRDs(ctx context.Context, cluster *plane.Cluster) error {
	if cluster.Name != plane.HubName {
		return nil
	}
	return helm.Release{Config: cluster.Config(), Chart: "fleet-crd", Name: "fleet-crd", Namespace: names.SystemNamespace}.Install(ctx)
}

// InstallHub is `helm install fleet` on the hub, with these values beside the hub's address; and the
// workspace for clusters that join.
func (w *World) InstallHub(ctx context.Context, values map[string]any) error {
	if err := w.Hub.EnsureNamespace(ctx, Workspace); err != nil {
		return err
	}
	hub := w.Plane.Hub
	all := map[string]any{"apiServerURL": hub.URL, "apiServerCA": string(hub.CA)}
	maps.Copy(all, values)
	return helm.Release{Config: hub.Config(), Chart: "fleet", Name: "fleet", Namespace: names.SystemNamespace, Values: all}.Install(ctx)
}

// Import does what an admin does who has a kubeconfig of a cluster: a Secret, and a Cluster that names it.
func (w *World) Import(ctx context.Context, cluster string, labels map[string]string) error {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: Workspace, Name: cluster + "-kubeconfig"},
		Data:       map[string][]byte{handshake.KubeconfigValueKey: w.Cluster(cluster).Kubeconfig},
	}
	if _, err := w.Hub.Kube.CoreV1().Secrets(Workspace).Create(ctx, secret, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating the kubeconfig secret of %s: %w", cluster, err)
	}
	return w.Hub.Create(ctx, client.Clusters, &fleet.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: Workspace, Name: cluster, Labels: labels},
		Spec:       fleet.ClusterSpec{KubeConfigSecret: secret.Name},
	})
}

// TokenValues makes a token on the hub, and waits for the values that its Secret hands out.
func (w *World) TokenValues(ctx context.Context, token string) (map[string]any, error) {
	if err := w.Hub.Create(ctx, client.Tokens, &fleet.ClusterRegistrationToken{
		ObjectMeta: metav1.ObjectMeta{Namespace: Workspace, Name: token},
		Spec:       fleet.ClusterRegistrationTokenSpec{TTL: &metav1.Duration{Duration: time.Hour}},
	}); err != nil {
		return nil, err
	}
	secret, err := client.Until(ctx, client.Await{
		From: w.Hub.Kube.CoreV1().RESTClient(), Resource: "secrets", Namespace: Workspace, Name: token, For: "the token's values", Within: time.Minute,
	}, func(s *corev1.Secret) bool { return s.Type == handshake.SecretTypeValues })
	if err != nil {
		return nil, err
	}
	return helm.ParseValues(secret.Data[handshake.ValuesKey])
}

// InstallAgent is `helm upgrade --install fleet-agent` on a downstream cluster.
func (w *World) InstallAgent(ctx context.Context, cluster string, values map[string]any) error {
	return helm.Release{
		Config: w.Cluster(cluster).Config(), Chart: "fleet-agent", Name: names.Agent, Namespace: names.SystemNamespace, Values: values,
	}.Install(ctx)
}
