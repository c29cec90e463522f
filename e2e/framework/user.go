package framework

import (
	"context"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/e2e/framework/helm"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Site is a cluster, wherever it runs, as an admin knows it.
type Site struct {
	// Name is HubName for the hub.
	Name string
	// URL is the API server's as other clusters reach it, CA what signs its certificate, PEM.
	URL string
	CA  []byte
	// Kubeconfig is an admin's, Config the same.
	Kubeconfig []byte
	Config     *rest.Config
}

// User does what users do, with a hub and other clusters.
type User struct {
	// Hub reaches the hub as an admin.
	Hub *client.Client

	sites  map[string]Site
	admins map[string]*client.Client
	logs   string // where they are, for messages
}

// NewUser is a user with these clusters, the hub among them. logs says where the clusters' logs are.
func NewUser(logs string, sites ...Site) (*User, error) {
	u := &User{sites: map[string]Site{}, admins: map[string]*client.Client{}, logs: logs}
	for _, site := range sites {
		admin, err := client.New(site.Config)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", site.Name, err)
		}
		u.sites[site.Name], u.admins[site.Name] = site, admin
	}
	u.Hub = u.admins[HubName]
	return u, nil
}

// On reaches a cluster as an admin.
func (u *User) On(cluster string) *client.Client { return u.admins[cluster] }

// InstallHub is `helm install fleet` on the hub, with these values beside the hub's address; and the
// workspace for clusters that join.
func (u *User) InstallHub(ctx context.Context, values map[string]any) error {
	if err := u.Hub.EnsureNamespace(ctx, Workspace); err != nil {
		return err
	}
	hub := u.sites[HubName]
	all := map[string]any{"apiServerURL": hub.URL, "apiServerCA": string(hub.CA), "allowLocalKubeconfigs": true} // all run here
	maps.Copy(all, values)
	return helm.Release{Config: hub.Config, Chart: "fleet", Name: "fleet", Namespace: names.SystemNamespace, Values: all}.Install(ctx)
}

// Import does what an admin does who has a kubeconfig of a cluster: a Secret, and a Cluster that names it.
func (u *User) Import(ctx context.Context, cluster string, labels map[string]string) error {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: Workspace, Name: cluster + "-kubeconfig"},
		Data:       map[string][]byte{protocol.KubeconfigValueKey: u.sites[cluster].Kubeconfig},
	}
	if _, err := u.Hub.Kube.CoreV1().Secrets(Workspace).Create(ctx, secret, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating the kubeconfig secret of %s: %w", cluster, err)
	}
	return u.Hub.Create(ctx, client.Clusters, &fleet.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: Workspace, Name: cluster, Labels: labels},
		Spec:       fleet.ClusterSpec{KubeConfigSecret: secret.Name},
	})
}

// TokenValues makes a token on the hub, and waits for the values that its Secret hands out.
func (u *User) TokenValues(ctx context.Context, token string) (map[string]any, error) {
	if err := u.Hub.Create(ctx, client.Tokens, &fleet.ClusterRegistrationToken{
		ObjectMeta: metav1.ObjectMeta{Namespace: Workspace, Name: token},
		Spec:       fleet.ClusterRegistrationTokenSpec{TTL: &metav1.Duration{Duration: time.Hour}},
	}); err != nil {
		return nil, err
	}
	secret, err := client.Until(ctx, client.Await{
		From: u.Hub.Kube.CoreV1().RESTClient(), Resource: "secrets", Namespace: Workspace, Name: token, For: "the token's values", Within: Patience,
	}, func(s *corev1.Secret) bool { return s.Type == protocol.SecretTypeValues })
	if err != nil {
		return nil, err
	}
	return helm.ParseValues(secret.Data[protocol.ValuesKey])
}

// InstallAgent is `helm upgrade --install fleet-agent` on a downstream cluster.
func (u *User) InstallAgent(ctx context.Context, cluster string, values map[string]any) error {
	return helm.Release{
		Config: u.sites[cluster].Config, Chart: "fleet-agent", Name: names.Agent, Namespace: names.SystemNamespace, Values: values,
	}.Install(ctx)
}
