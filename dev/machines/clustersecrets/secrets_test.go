package clustersecrets

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/fleet-hub/fleet/dev/machines/api"
	"github.com/fleet-hub/fleet/dev/plane/pki"
)

const url = "https://127.0.0.1:20001"

// someDay is the time of the tests.
var someDay = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func owner() Owner {
	controlPlane := &api.LabControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "east-cp", UID: "1"}}
	return OwnerOf(controlPlane, "east")
}

// must returns a value, or ends the test.
func must[T any](value T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func authority(t *testing.T) pki.Authority {
	t.Helper()
	secret := must(owner().NewCA(someDay))(t)
	return must(owner().ReadCA(secret))(t)
}

func kubeconfig(t *testing.T, ca pki.Authority) *corev1.Secret {
	t.Helper()
	return must(owner().NewKubeconfig(ca, url, someDay))(t)
}

// TestClusterCertificateManagement is named after the rule of Cluster API.
func TestClusterCertificateManagement(t *testing.T) {
	for purpose, secret := range map[Purpose]*corev1.Secret{
		CA: must(owner().NewCA(someDay))(t), Accounts: must(owner().NewAccounts())(t),
	} {
		if secret.Namespace != "team" || secret.Name != "east-"+string(purpose) || secret.Type != "cluster.x-k8s.io/secret" || secret.Labels["cluster.x-k8s.io/cluster-name"] != "east" {
			t.Errorf("%s: %s/%s, type %s, labels %v", purpose, secret.Namespace, secret.Name, secret.Type, secret.Labels)
		}
		if len(secret.Data["tls.crt"]) == 0 || len(secret.Data["tls.key"]) == 0 || len(secret.Data) != 2 {
			t.Errorf("%s: wrong keys", purpose)
		}
	}
}

// TestClusterKubeconfigManagement is named after the rule of Cluster API.
func TestClusterKubeconfigManagement(t *testing.T) {
	ca := authority(t)
	secret := kubeconfig(t, ca)
	want := &corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "team", Name: "east-kubeconfig", Labels: map[string]string{"cluster.x-k8s.io/cluster-name": "east"},
			OwnerReferences: []metav1.OwnerReference{owner().Reference},
		},
		Type: "cluster.x-k8s.io/secret", Data: map[string][]byte{"value": secret.Data["value"]},
	}
	if diff := cmp.Diff(want, secret); diff != "" {
		t.Errorf("Secret (-want +got):\n%s", diff)
	}
	config, err := ParseKubeconfig(secret.Data["value"])
	if err != nil || config.Host != url || string(config.CAData) != string(ca.Certificate) || validFor(config, ca, someDay) != time.Hour {
		t.Errorf("kubeconfig for %v, %v", config, err)
	}
}

func TestReading_RejectsSecretsOfOthers(t *testing.T) {
	tests := map[string]struct {
		change func(*corev1.Secret)
		want   string
	}{
		"ours":                                   {func(*corev1.Secret) {}, ""},
		"CA of the user, without an owner: used": {func(s *corev1.Secret) { s.OwnerReferences = nil }, ""},
		"of another control plane":               {func(s *corev1.Secret) { s.OwnerReferences[0].UID = "2" }, "the Secret team/east-ca belongs to another object: delete it, then it is created again"},
		"other type":                             {func(s *corev1.Secret) { s.Type = "Opaque" }, `the Secret team/east-ca has the type "Opaque", not cluster.x-k8s.io/secret: delete it, then it is created again`},
		"other label":                            {func(s *corev1.Secret) { s.Labels[clusterv1.ClusterNameLabel] = "west" }, "the Secret team/east-ca has the label cluster.x-k8s.io/cluster-name=west, not east: delete it, then it is created again"},
		"no label":                               {func(s *corev1.Secret) { s.Labels = nil }, "the Secret team/east-ca has the label cluster.x-k8s.io/cluster-name=, not east: delete it, then it is created again"},
		"no certificate":                         {func(s *corev1.Secret) { delete(s.Data, "tls.crt") }, "the Secret team/east-ca contains no CA: write a PEM certificate of a CA to tls.crt and its key to tls.key"},
		"too large":                              {func(s *corev1.Secret) { s.Data["tls.crt"] = make([]byte, 1<<20) }, "the Secret team/east-ca is too large: a certificate and a key may have 65536 bytes each"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			secret := must(owner().NewCA(someDay))(t)
			test.change(secret)
			_, err := owner().ReadCA(secret)
			if test.want == "" && err != nil || test.want != "" && (err == nil || err.Error() != test.want) {
				t.Errorf("error %v, want %s", err, test.want)
			}
		})
	}
	accounts := must(owner().NewAccounts())(t)
	if _, err := owner().ReadAccounts(accounts); err != nil {
		t.Error(err)
	}
	accounts.Data["tls.key"] = []byte("no key")
	if _, err := owner().ReadAccounts(accounts); err == nil || strings.Contains(err.Error(), "no key") {
		t.Errorf("error %v, want one without the content", err)
	}
}

func TestRenewIn_RenewsWhenHalfOfTheHourHasPassed(t *testing.T) {
	ca := authority(t)
	tests := map[string]struct {
		change  func(*corev1.Secret)
		ca      pki.Authority
		url     string
		passed  time.Duration
		want    time.Duration
		foreign bool
	}{
		"new: in 30 minutes":                 {ca: ca, url: url, want: 30 * time.Minute},
		"after 10 minutes: in 20 minutes":    {ca: ca, url: url, passed: 10 * time.Minute, want: 20 * time.Minute},
		"after 30 minutes: now":              {ca: ca, url: url, passed: 30 * time.Minute},
		"expired: now":                       {ca: ca, url: url, passed: 2 * time.Hour},
		"other CA: now":                      {ca: authority(t), url: url},
		"other endpoint: now":                {ca: ca, url: "https://127.0.0.1:20002"},
		"empty: now":                         {change: func(s *corev1.Secret) { s.Data = nil }, ca: ca, url: url},
		"damaged: now":                       {change: func(s *corev1.Secret) { s.Data[KeyValue] = []byte("kind: Config") }, ca: ca, url: url},
		"without a controller: not ours":     {change: func(s *corev1.Secret) { s.OwnerReferences = nil }, ca: ca, url: url, foreign: true},
		"of another control plane: not ours": {change: func(s *corev1.Secret) { s.OwnerReferences[0].UID = "2" }, ca: ca, url: url, foreign: true},
		"other type: not ours":               {change: func(s *corev1.Secret) { s.Type = "Opaque" }, ca: ca, url: url, foreign: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			secret := kubeconfig(t, ca)
			if test.change != nil {
				test.change(secret)
			}
			got, err := owner().RenewIn(secret, test.ca, test.url, someDay.Add(test.passed))
			if got != test.want || (err != nil) != test.foreign {
				t.Errorf("renewal in %v, %v; want %v", got, err, test.want)
			}
		})
	}
}

func TestParseKubeconfig_RejectsProgramsAndFiles(t *testing.T) {
	good := string(kubeconfig(t, authority(t)).Data[KeyValue])
	tests := map[string]struct {
		change func(string) string
		want   string
	}{
		"ours": {func(text string) string { return text }, ""},
		"no context": {func(text string) string {
			return strings.Replace(text, "current-context: east", "current-context: west", 1)
		}, "parsing a kubeconfig: it has no complete current context"},
		"http": {func(text string) string { return strings.Replace(text, "https://", "http://", 1) }, "parsing a kubeconfig: it needs an https URL, a CA, a client certificate and its key, all embedded"},
		"program instead of a certificate": {func(text string) string {
			before, _, _ := strings.Cut(text, "    client-certificate-data:")
			return before + "    exec: {apiVersion: client.authentication.k8s.io/v1, command: /bin/false, interactiveMode: Never}\n"
		}, "parsing a kubeconfig: it needs an https URL, a CA, a client certificate and its key, all embedded"},
		"file instead of a key": {func(text string) string { return strings.Replace(text, "client-key-data:", "client-key:", 1) }, "parsing a kubeconfig: it needs an https URL, a CA, a client certificate and its key, all embedded"},
		"empty":                 {func(string) string { return "" }, "parsing a kubeconfig: it has 0 bytes; 1 to 65536 are accepted"},
		"no YAML":               {func(string) string { return "\t" }, "parsing a kubeconfig: it is not valid YAML of kind Config"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := ParseKubeconfig([]byte(test.change(good)))
			if test.want == "" && err != nil || test.want != "" && (err == nil || err.Error() != test.want) {
				t.Errorf("error %v, want %s", err, test.want)
			}
		})
	}
}

func FuzzParseKubeconfig(f *testing.F) {
	f.Add([]byte("apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{name: a, context: {cluster: a, user: a}}]\nclusters: [{name: a, cluster: {server: 'https://a'}}]\nusers: [{name: a, user: {}}]\n"))
	f.Add([]byte("kind: Config\nusers: [{name: a, user: {exec: {command: sh}}}]"))
	f.Fuzz(func(t *testing.T, content []byte) {
		config, err := ParseKubeconfig(content)
		if err == nil && (config.ExecProvider != nil || config.AuthProvider != nil || config.CAFile != "" || config.CertFile != "" || config.KeyFile != "" || config.BearerTokenFile != "" || config.Insecure) {
			t.Errorf("accepted a kubeconfig with %+v", config)
		}
	})
}
