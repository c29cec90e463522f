package framework

import (
	"context"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/e2e/framework/helm"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Site describes how an admin reaches a cluster.
type Site struct {
	// Name is HubName for the hub.
	Name string
	// URL is the API server's URL for other clusters. CA is the CA of its certificate in PEM.
	URL string
	CA  []byte
	// Kubeconfig is a kubeconfig of the admin. Config has the same access.
	Kubeconfig []byte
	Config     *rest.Config
}

// User performs the actions of users on a hub and other clusters.
type User struct {
	// Hub is the admin's client of the hub.
	Hub *client.Client

	sites  map[string]Site
	admins map[string]*client.Client
	logs   string // the directory of the logs, used in messages
}

// NewUser returns a user of these clusters, which include the hub. logs is the directory of the clusters' logs.
func NewUser(logs string, sites ...Site) (*User, error) {
	u := &User{sites: map[string]Site{}, admins: map[string]*client.Client{}, logs: logs}
	for _, site := range sites {
		admin, err := client.New(site.Config)
		if err != nil {
			return nil, fmt.Errorf("creating a client for cluster %s: %w", site.Name, err)
		}
		u.sites[site.Name], u.admins[site.Name] = site, admin
	}
	u.Hub = u.admins[HubName]
	return u, nil
}

// On returns the admin's client of a cluster.
func (u *User) On(cluster string) *client.Client { return u.admins[cluster] }

// Logs returns the directory of the clusters' logs.
func (u *User) Logs() string { return u.logs }

// Kubeconfig returns a kubeconfig with a context for each cluster, which has the cluster's name. The hub's is the current
// one.
func (u *User) Kubeconfig() ([]byte, error) {
	all := clientcmdapi.NewConfig()
	for name, site := range u.sites {
		own, err := clientcmd.Load(site.Kubeconfig)
		if err != nil {
			return nil, fmt.Errorf("reading the kubeconfig of cluster %s: %w", name, err)
		}
		current := own.Contexts[own.CurrentContext]
		all.Clusters[name], all.AuthInfos[name] = own.Clusters[current.Cluster], own.AuthInfos[current.AuthInfo]
		all.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	}
	all.CurrentContext = HubName
	return clientcmd.Write(*all)
}

// InstallHub installs chart fleet on the hub with these values and the hub's address. It also creates the
// workspace of the clusters.
func (u *User) InstallHub(ctx context.Context, values map[string]any) error {
	return u.InstallHubOn(ctx, HubName, values)
}

// InstallHubOn is InstallHub for another cluster, which has the CRDs.
func (u *User) InstallHubOn(ctx context.Context, cluster string, values map[string]any) error {
	if err := u.admins[cluster].EnsureNamespace(ctx, Workspace); err != nil {
		return err
	}
	hub := u.sites[cluster]
	all := map[string]any{"apiServerURL": hub.URL, "apiServerCA": string(hub.CA), "allowLocalKubeconfigs": true} // all clusters run on this machine
	maps.Copy(all, values)
	return helm.Release{Config: hub.Config, Chart: "fleet", Name: "fleet", Namespace: names.SystemNamespace, Values: all}.Install(ctx)
}

// Import registers a cluster manager-initiated. It creates a Secret with a kubeconfig, and a Cluster that refers
// to it.
func (u *User) Import(ctx context.Context, cluster string, labels map[string]string) error {
	return u.ImportInto(ctx, Workspace, cluster, labels)
}

// ImportInto is Import for another workspace, which exists.
func (u *User) ImportInto(ctx context.Context, workspace, cluster string, labels map[string]string) error {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: workspace, Name: cluster + "-kubeconfig"},
		Data:       map[string][]byte{protocol.KubeconfigValueKey: u.sites[cluster].Kubeconfig},
	}
	if _, err := u.Hub.Kube.CoreV1().Secrets(workspace).Create(ctx, secret, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating the kubeconfig secret of %s: %w", cluster, err)
	}
	return u.Hub.Create(ctx, client.Clusters, &fleet.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: workspace, Name: cluster, Labels: labels},
		Spec:       fleet.ClusterSpec{KubeConfigSecret: secret.Name},
	})
}

// TokenValues creates a token on the hub and returns the chart values from the token's Secret.
func (u *User) TokenValues(ctx context.Context, token string) (map[string]any, error) {
	return u.TokenValuesOf(ctx, Workspace, token)
}

// TokenValuesOf is TokenValues for a token of another workspace, which exists.
func (u *User) TokenValuesOf(ctx context.Context, workspace, token string) (map[string]any, error) {
	if err := u.Hub.Create(ctx, client.Tokens, &fleet.ClusterRegistrationToken{
		ObjectMeta: metav1.ObjectMeta{Namespace: workspace, Name: token},
		Spec:       fleet.ClusterRegistrationTokenSpec{TTL: &metav1.Duration{Duration: time.Hour}},
	}); err != nil {
		return nil, err
	}
	secret, err := client.Until(ctx, client.Await{
		From: u.Hub.Kube.CoreV1().RESTClient(), Resource: "secrets", Namespace: workspace, Name: token, For: "the token's values", Within: Patience,
	}, func(s *corev1.Secret) bool { return s.Type == protocol.SecretTypeValues })
	if err != nil {
		return nil, err
	}
	return helm.ParseValues(secret.Data[protocol.ValuesKey])
}

// InstallAgent installs or upgrades chart fleet-agent on a downstream cluster.
func (u *User) InstallAgent(ctx context.Context, cluster string, values map[string]any) error {
	return helm.Release{
		Config: u.sites[cluster].Config, Chart: "fleet-agent", Name: names.Agent, Namespace: names.SystemNamespace, Values: values,
	}.Install(ctx)
}
