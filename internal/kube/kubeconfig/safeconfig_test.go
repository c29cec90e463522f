package kubeconfig

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/internal/kube"
	"github.com/fleet-hub/fleet/internal/kube/kubetest"
)

func TestSafeConfig(t *testing.T) {
	tests := map[string]struct {
		in       []byte
		insecure bool
		want     error
		change   func(*rest.Config)
	}{
		"server, CA and token": {in: kubetest.Kubeconfig()},
		"client certificate": {
			in: kubetest.Kubeconfig("token: SECRET", "{client-certificate-data: Y2VydA==, client-key-data: a2V5}"),
			change: func(c *rest.Config) {
				c.BearerToken, c.CertData, c.KeyData = "", []byte("cert"), []byte("key")
			},
		},
		"name and password": {
			in:     kubetest.Kubeconfig("token: SECRET", "{username: u, password: p}"),
			change: func(c *rest.Config) { c.BearerToken, c.Username, c.Password = "", "u", "p" },
		},
		"no current context: the only context": {in: kubetest.Kubeconfig("current-context: east", "")},
		"no user": {
			in:     kubetest.Kubeconfig("user: admin}", "}"),
			change: func(c *rest.Config) { c.BearerToken = "" },
		},
		"exec plugin in another context: ignored": {
			in: kubetest.Kubeconfig("users:", "users:\n- name: other\n  user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: rm}}"),
		},
		"not YAML":                   {in: []byte("{"), want: ErrKubeconfigMalformed},
		"list":                       {in: []byte("- a"), want: ErrKubeconfigMalformed},
		"empty":                      {in: nil, want: ErrKubeconfigContext},
		"a cluster without a server": {in: kubetest.Kubeconfig("server: https://10.99.0.3:6443", "server: ''"), want: ErrKubeconfigMalformed},
		"server that is not a URL":   {in: kubetest.Kubeconfig("https://10.99.0.3:6443", "https://%zz"), want: ErrKubeconfigMalformed},
		"missing current context":    {in: kubetest.Kubeconfig("current-context: east", "current-context: west"), want: ErrKubeconfigContext},
		"missing cluster":            {in: kubetest.Kubeconfig("cluster: east,", "cluster: west,"), want: ErrKubeconfigContext},
		"missing user":               {in: kubetest.Kubeconfig("user: admin}", "user: nobody}"), want: ErrKubeconfigContext},
		"two contexts, none current": {
			in:   kubetest.Kubeconfig("current-context: east", "- name: west\n  context: {cluster: east, user: admin}"),
			want: ErrKubeconfigContext,
		},
		"exec plugin":          {in: kubetest.Kubeconfig("token: SECRET", "exec: {apiVersion: client.authentication.k8s.io/v1, command: id}"), want: ErrKubeconfigExec},
		"auth provider":        {in: kubetest.Kubeconfig("token: SECRET", "auth-provider: {name: oidc}"), want: ErrKubeconfigAuthProvider},
		"a token in a file":    {in: kubetest.Kubeconfig("token: SECRET", "tokenFile: /etc/passwd"), want: ErrKubeconfigFile},
		"a token and a file":   {in: kubetest.Kubeconfig("token: SECRET", "token: SECRET\n    tokenFile: /etc/passwd"), want: ErrKubeconfigFile},
		"a certificate's file": {in: kubetest.Kubeconfig("token: SECRET", "{client-certificate: /c, client-key-data: a2V5}"), want: ErrKubeconfigFile},
		"a key's file":         {in: kubetest.Kubeconfig("token: SECRET", "{client-certificate-data: Y2VydA==, client-key: /k}"), want: ErrKubeconfigFile},
		"a CA's file":          {in: kubetest.Kubeconfig("certificate-authority-data: Y2E=", "certificate-authority: /ca"), want: ErrKubeconfigFile},
		"CA data win over a CA file": {
			in: kubetest.Kubeconfig("certificate-authority-data: Y2E=", "certificate-authority-data: Y2E=\n    certificate-authority: /ca"),
		},
		"insecure-skip-tls-verify": {
			in: kubetest.Kubeconfig("certificate-authority-data: Y2E=", "insecure-skip-tls-verify: true"), want: ErrKubeconfigInsecure,
		},
		"insecure-skip-tls-verify, allowed by the operator": {
			in:       kubetest.Kubeconfig("certificate-authority-data: Y2E=", "insecure-skip-tls-verify: true"),
			insecure: true,
			change:   func(c *rest.Config) { c.CAData, c.Insecure = nil, true },
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := SafeOrInsecure(test.in, test.insecure)
			if !errors.Is(err, test.want) {
				t.Fatalf("got %v, want %v", err, test.want)
			}
			if err != nil {
				if strings.Contains(err.Error(), "SECRET") || strings.Contains(err.Error(), "/etc/passwd") {
					t.Errorf("the error tells too much: %v", err)
				}
				return
			}
			want := &rest.Config{
				Host: "https://10.99.0.3:6443", BearerToken: "SECRET",
				TLSClientConfig: rest.TLSClientConfig{CAData: []byte("ca")}, QPS: -1, Timeout: kube.RequestTimeout,
			}
			if test.change != nil {
				test.change(want)
			}
			if diff := cmp.Diff(summary(want), summary(got)); diff != "" {
				t.Errorf("the configuration differs (-want +got):\n%s", diff)
			}
		})
	}
}

// summary is what of a configuration matters here, comparable.
func summary(c *rest.Config) map[string]any {
	return map[string]any{
		"host": c.Host, "token": c.BearerToken, "tokenFile": c.BearerTokenFile, "user": c.Username + ":" + c.Password,
		"ca": string(c.CAData), "caFile": c.CAFile, "cert": string(c.CertData), "key": string(c.KeyData), "insecure": c.Insecure,
		"qps": c.QPS, "timeout": c.Timeout, "exec": c.ExecProvider != nil, "provider": c.AuthProvider != nil,
	}
}

func FuzzSafeConfig(f *testing.F) {
	f.Add(kubetest.Kubeconfig())
	f.Add(kubetest.Kubeconfig("token: SECRET", "exec: {command: id}"))
	f.Add([]byte("{}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		cfg, err := Safe(data)
		if err != nil {
			return
		}
		if cfg.Host == "" || cfg.ExecProvider != nil || cfg.AuthProvider != nil || cfg.BearerTokenFile != "" ||
			cfg.CAFile != "" || cfg.CertFile != "" || cfg.KeyFile != "" || cfg.Insecure {
			t.Errorf("an unsafe configuration: %+v", cfg)
		}
	})
}

func TestLoadOwn(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	dir := t.TempDir()
	file, broken := filepath.Join(dir, "config"), filepath.Join(dir, "broken")
	write(t, file, kubetest.Kubeconfig())
	write(t, broken, kubetest.Kubeconfig("certificate-authority-data: Y2E=", "certificate-authority: missing"))
	tests := map[string]struct {
		path, variable string
		fails          bool
	}{
		"named file":                          {path: file},
		"default file":                        {variable: file},
		"the file named wins":                 {path: file, variable: broken},
		"default file is missing":             {variable: file + ".missing", fails: true},
		"named file is missing":               {path: file + ".missing", variable: file, fails: true},
		"named file refers to a missing file": {path: broken, fails: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Setenv("KUBECONFIG", test.variable)
			own, err := kube.LoadOwn(test.path)
			if (err != nil) != test.fails {
				t.Fatalf("error %v", err)
			}
			if err != nil {
				return
			}
			if own.Config.Host != "https://10.99.0.3:6443" || own.Config.QPS != -1 {
				t.Errorf("got %+v", summary(own.Config))
			}
			again, err := Safe(own.Raw)
			if err != nil || again.BearerToken != "SECRET" {
				t.Errorf("the raw kubeconfig is not usable: %v", err)
			}
		})
	}
}

func write(t *testing.T, file string, content []byte) {
	t.Helper()
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestTune(t *testing.T) {
	in := &rest.Config{Host: "h", QPS: 5, Timeout: 3}
	out := kube.Tune(in)
	if out.QPS != -1 || out.Timeout != 3 || in.QPS != 5 {
		t.Errorf("in %+v, out %+v", summary(in), summary(out))
	}
	if kube.Tune(&rest.Config{}).Timeout != kube.RequestTimeout {
		t.Error("no timeout")
	}
	if kube.Watching(out).Timeout != 0 || out.Timeout != 3 {
		t.Error("a watch must not time out, and the original must stay")
	}
}

// A client without a CA must not share net/http's default transport, whose connections are not checked. HTTP/2 is
// used unless it is disabled.
func TestTune_HasItsOwnTransportAndHTTP2(t *testing.T) {
	rooted, err := rest.TransportFor(&rest.Config{Host: "https://hub.example", TLSClientConfig: kube.Tune(&rest.Config{}).TLSClientConfig})
	if err != nil {
		t.Fatal(err)
	}
	if rooted == http.DefaultTransport {
		t.Error("without a CA a client has net/http's own transport")
	}
	spoken := make(chan string, 1)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { spoken <- r.Proto }))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	for forbidden, want := range map[string]string{"": "HTTP/2.0", "1": "HTTP/1.1"} {
		t.Setenv("DISABLE_HTTP2", forbidden)
		client, err := rest.HTTPClientFor(kube.Tune(&rest.Config{TLSClientConfig: rest.TLSClientConfig{CAData: kubetest.CAOf(server)}}))
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Get(server.URL)
		if err != nil {
			t.Fatalf("with DISABLE_HTTP2=%q: %v", forbidden, err)
		}
		_ = response.Body.Close()
		if got := <-spoken; got != want {
			t.Errorf("with DISABLE_HTTP2=%q it is %s, want %s", forbidden, got, want)
		}
	}
}

func TestCA(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ca")
	if err := os.WriteFile(file, []byte("from file"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		in   rest.TLSClientConfig
		want string
		err  bool
	}{
		"data":                    {in: rest.TLSClientConfig{CAData: []byte("data")}, want: "data"},
		"data win over a file":    {in: rest.TLSClientConfig{CAData: []byte("data"), CAFile: file}, want: "data"},
		"a file is read":          {in: rest.TLSClientConfig{CAFile: file}, want: "from file"},
		"neither means the roots": {},
		"a missing file":          {in: rest.TLSClientConfig{CAFile: file + "x"}, err: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := kube.CA(&rest.Config{TLSClientConfig: test.in})
			if string(got) != test.want || (err != nil) != test.err {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}
