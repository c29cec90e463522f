package labmachine

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/fleet-hub/fleet/internal/kube/kubeconfig"
)

const (
	usable = `{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a, user: a}}],
clusters: [{name: a, cluster: {server: "https://example.com"}}], users: [{name: a, user: {token: t}}]}`
	executing = `{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a, user: a}}],
clusters: [{name: a, cluster: {server: "https://example.com"}}], users: [{name: a, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: sh}}}]}`
)

func kubeconfigSecret(text string) *corev1.Secret {
	return &corev1.Secret{Type: clusterv1.ClusterSecretType, Data: map[string][]byte{"value": []byte(text)},
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c-kubeconfig", Labels: map[string]string{clusterv1.ClusterNameLabel: "c"}}}
}

func TestAccessOf_UsesTheEndpointOfTheCluster(t *testing.T) {
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c"},
		Spec: clusterv1.ClusterSpec{ControlPlaneEndpoint: clusterv1.APIEndpoint{Host: "127.0.0.1", Port: 4000}}}
	config, err := accessOf(cluster, kubeconfigSecret(usable))
	if err != nil {
		t.Fatal(err)
	}
	if config.Host != "https://127.0.0.1:4000" || config.BearerToken != "t" || config.Timeout != nodeTimeout {
		t.Errorf("host %s, timeout %s", config.Host, config.Timeout)
	}
}

func TestAccessOf_RefusesOtherSecrets(t *testing.T) {
	endpoint := clusterv1.APIEndpoint{Host: "127.0.0.1", Port: 4000}
	for _, c := range []struct {
		name     string
		endpoint clusterv1.APIEndpoint
		secret   *corev1.Secret
		is       error
		says     string
	}{
		{"no Secret", endpoint, nil, nil, "does not exist"},
		{"another type", endpoint, func() *corev1.Secret { s := kubeconfigSecret(usable); s.Type = corev1.SecretTypeOpaque; return s }(), nil, "needs type"},
		{"without label", endpoint, func() *corev1.Secret { s := kubeconfigSecret(usable); s.Labels = nil; return s }(), nil, "label"},
		{"of another cluster", endpoint, func() *corev1.Secret {
			s := kubeconfigSecret(usable)
			s.Labels[clusterv1.ClusterNameLabel] = "d"
			return s
		}(), nil, "label"},
		{"Cluster without endpoint", clusterv1.APIEndpoint{}, kubeconfigSecret(usable), nil, "no endpoint"},
		{"empty", endpoint, kubeconfigSecret(""), kubeconfig.ErrKubeconfigContext, ""},
		{"with a command", endpoint, kubeconfigSecret(executing), kubeconfig.ErrKubeconfigExec, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Spec: clusterv1.ClusterSpec{ControlPlaneEndpoint: c.endpoint}}
			_, err := accessOf(cluster, c.secret)
			switch {
			case err == nil:
				t.Fatal("accepted")
			case c.is != nil && !errors.Is(err, c.is):
				t.Errorf("error %v, want %v", err, c.is)
			case !strings.Contains(err.Error(), c.says):
				t.Errorf("error %v, want one about %q", err, c.says)
			}
		})
	}
}

func FuzzAccessOf(f *testing.F) {
	f.Add([]byte(usable))
	f.Add([]byte(executing))
	f.Add([]byte(strings.Replace(usable, "token: t", "tokenFile: /etc/passwd", 1)))
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c"},
		Spec: clusterv1.ClusterSpec{ControlPlaneEndpoint: clusterv1.APIEndpoint{Host: "127.0.0.1", Port: 4000}}}
	f.Fuzz(func(t *testing.T, text []byte) {
		config, err := accessOf(cluster, kubeconfigSecret(string(text)))
		if err != nil {
			return
		}
		files := config.BearerTokenFile + config.CAFile + config.CertFile + config.KeyFile
		if config.Host != "https://127.0.0.1:4000" || config.ExecProvider != nil || config.AuthProvider != nil || files != "" || config.Impersonate.UserName != "" {
			t.Errorf("the provider would use %+v", config)
		}
	})
}
