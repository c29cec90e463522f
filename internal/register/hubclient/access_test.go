package hubclient

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fleet-hub/fleet/internal/kube/kubeconfig"
	"github.com/fleet-hub/fleet/internal/protocol"
)

// recorded is the kubeconfig of the recorded Secret fleet-agent, with this CA and token in the places of the
// notes that stand there.
func recorded(ca []byte, token string) string {
	return "apiVersion: v1\nclusters:\n- cluster:\n    certificate-authority-data: " + base64.StdEncoding.EncodeToString(ca) +
		"\n    server: https://10.99.0.2:6443\n  name: cluster\ncontexts:\n- context:\n    cluster: cluster\n" +
		"    namespace: cluster-fleet-default-east-0f0350029557\n    user: user\n  name: default\ncurrent-context: default\n" +
		"kind: Config\nusers:\n- name: user\n  user:\n    token: " + token + "\n"
}

func recordedAccess(ca []byte) Access {
	return Access{Server: "https://10.99.0.2:6443", CA: ca, Token: "a.b.c", Namespace: "cluster-fleet-default-east-0f0350029557"}
}

func TestKubeconfig_MatchesTheRecording(t *testing.T) {
	ca := newCA(t)
	got, err := recordedAccess(ca).Kubeconfig()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(recorded(ca, "a.b.c"), string(got)); diff != "" {
		t.Errorf("kubeconfig (-want +got):\n%s", diff)
	}
}

func TestParseKubeconfig(t *testing.T) {
	ca := newCA(t)
	whole := recorded(ca, "a.b.c")
	caLine := "    certificate-authority-data: " + base64.StdEncoding.EncodeToString(ca) + "\n"
	change := func(old, replacement string) string {
		if !strings.Contains(whole, old) {
			t.Fatalf("%q is not in the kubeconfig", old)
		}
		return strings.Replace(whole, old, replacement, 1)
	}
	tests := map[string]struct {
		kubeconfig string
		want       Access
		err        error
	}{
		"the recorded one": {kubeconfig: whole, want: recordedAccess(ca)},
		"without a CA, the system's roots are trusted": {
			kubeconfig: change(caLine, ""),
			want:       Access{Server: "https://10.99.0.2:6443", Token: "a.b.c", Namespace: "cluster-fleet-default-east-0f0350029557"},
		},
		"other names of cluster, user and context": {
			kubeconfig: strings.NewReplacer("name: cluster\n", "name: hub\n", "cluster: cluster\n", "cluster: hub\n", "name: user\n", "name: me\n", "user: user\n", "user: me\n").Replace(whole),
			want:       recordedAccess(ca),
		},
		"one context, none current": {kubeconfig: change("current-context: default\n", ""), want: recordedAccess(ca)},
		"without a namespace": {
			kubeconfig: change("    namespace: cluster-fleet-default-east-0f0350029557\n", ""),
			want:       Access{Server: "https://10.99.0.2:6443", CA: ca, Token: "a.b.c"},
		},
		"empty":                      {kubeconfig: "", err: kubeconfig.ErrKubeconfigContext},
		"not YAML":                   {kubeconfig: "{", err: kubeconfig.ErrKubeconfigMalformed},
		"missing context":            {kubeconfig: change("current-context: default", "current-context: other"), err: kubeconfig.ErrKubeconfigContext},
		"no server":                  {kubeconfig: change("    server: https://10.99.0.2:6443\n", ""), err: kubeconfig.ErrKubeconfigMalformed},
		"server is not a URL":        {kubeconfig: change("https://10.99.0.2:6443", `"ht tp://x"`), err: kubeconfig.ErrKubeconfigMalformed},
		"a server without a scheme":  {kubeconfig: change("https://", ""), err: protocol.ErrHubURL},
		"server with another scheme": {kubeconfig: change("https://", "ftp://"), err: protocol.ErrHubURL},
		"a server without TLS":       {kubeconfig: change("https://", "http://"), err: protocol.ErrHubURL},
		"CA is not a certificate":    {kubeconfig: change(base64.StdEncoding.EncodeToString(ca), "bm8="), err: errCA},
		"no token":                   {kubeconfig: change("    token: a.b.c\n", "    username: a\n"), err: kubeconfig.ErrKubeconfigMalformed},
		"a token in a file":          {kubeconfig: change("token: a.b.c", "tokenFile: /var/run/token"), err: kubeconfig.ErrKubeconfigFile},
		"exec plugin":                {kubeconfig: change("    token: a.b.c\n", "    exec: {apiVersion: client.authentication.k8s.io/v1, command: sh}\n"), err: kubeconfig.ErrKubeconfigExec},
		"insecure-skip-tls-verify":   {kubeconfig: change(caLine, "    insecure-skip-tls-verify: true\n"), err: kubeconfig.ErrKubeconfigInsecure},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := ParseKubeconfig([]byte(test.kubeconfig))
			if !errors.Is(err, test.err) {
				t.Fatalf("error %v, want %v", err, test.err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("access (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAccessConfig(t *testing.T) {
	ca := newCA(t)
	cfg := recordedAccess(ca).Config()
	type summary struct {
		Host, Token string
		CA          []byte
		Timeout     int64
		QPS         float32
		Insecure    bool
	}
	want := summary{Host: "https://10.99.0.2:6443", Token: "a.b.c", CA: ca, QPS: -1}
	got := summary{cfg.Host, cfg.BearerToken, cfg.CAData, int64(cfg.Timeout), cfg.QPS, cfg.Insecure}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("configuration (-want +got):\n%s", diff)
	}
}

// Any data is rejected, or parsed so that encoding it again gives the same access. Errors contain no data.
func FuzzParseKubeconfig(f *testing.F) {
	f.Add([]byte(""))
	f.Add([]byte("{"))
	f.Add([]byte(recorded(nil, "a.b.c")))
	f.Add([]byte(recorded([]byte("-----BEGIN CERTIFICATE-----\n"), "a.b.c")))
	f.Add([]byte("clusters: [{name: a, cluster: {server: 'https://a'}}]\ncontexts: [{name: a, context: {cluster: a, user: a}}]\nusers: [{name: a, user: {token: t0ps3cret}}]"))
	f.Add([]byte("clusters: [{name: a, cluster: {server: 'x://t0ps3cret'}}]\ncontexts: [{name: a, context: {cluster: a, user: a}}]\nusers: [{name: a, user: {token: t0ps3cret}}]"))
	f.Fuzz(func(t *testing.T, kubeconfig []byte) {
		access, err := ParseKubeconfig(kubeconfig)
		if err != nil {
			if strings.Contains(err.Error(), "t0ps3cret") {
				t.Errorf("the error shows the kubeconfig: %v", err)
			}
			return
		}
		again, err := access.Kubeconfig()
		if err != nil {
			t.Fatal(err)
		}
		reread, err := ParseKubeconfig(again)
		if err != nil {
			t.Fatalf("%v, of\n%s", err, again)
		}
		if diff := cmp.Diff(access, reread); diff != "" {
			t.Errorf("read again (-first +second):\n%s", diff)
		}
	})
}
