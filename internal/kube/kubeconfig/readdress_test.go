package kubeconfig

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// stored is a kubeconfig as agents keep it.
func stored(t *testing.T, changes ...func(*api.Config)) []byte {
	t.Helper()
	cfg := api.NewConfig()
	cfg.Clusters["cluster"] = &api.Cluster{Server: "https://old", CertificateAuthorityData: []byte("old CA")}
	cfg.AuthInfos["user"] = &api.AuthInfo{Token: "token"}
	cfg.Contexts["default"] = &api.Context{Cluster: "cluster", AuthInfo: "user", Namespace: "cluster-east"}
	cfg.CurrentContext = "default"
	for _, change := range changes {
		change(cfg)
	}
	encoded, err := clientcmd.Write(*cfg)
	if err != nil {
		t.Fatal(err)
	}
	return encoded
}

func TestReaddress(t *testing.T) {
	address := func(server, ca string) func(*api.Config) {
		return func(c *api.Config) {
			for _, cluster := range c.Clusters {
				cluster.Server, cluster.CertificateAuthorityData = server, nil
				if ca != "" {
					cluster.CertificateAuthorityData = []byte(ca)
				}
			}
		}
	}
	noCurrent := func(c *api.Config) { c.CurrentContext = "" }
	serverName := func(c *api.Config) { c.Clusters["cluster"].TLSServerName = "old" }
	tests := map[string]struct {
		kubeconfig []byte
		server, ca string
		want       []byte
		is         error
	}{
		"another server and CA: credential and namespace stay": {stored(t), "https://new", "new CA", stored(t, address("https://new", "new CA")), nil},
		"another CA":                      {stored(t), "https://old", "new CA", stored(t, address("https://old", "new CA")), nil},
		"no CA: the system's roots":       {stored(t), "https://old", "", stored(t, address("https://old", "")), nil},
		"tls-server-name is removed":      {stored(t, serverName), "https://new", "new CA", stored(t, address("https://new", "new CA")), nil},
		"one context that is not current": {stored(t, noCurrent), "https://new", "new CA", stored(t, noCurrent, address("https://new", "new CA")), nil},
		"same address: the same bytes":    {append(stored(t), "# a comment\n"...), "https://old", "old CA", append(stored(t), "# a comment\n"...), nil},
		"invalid kubeconfig":              {[]byte("token: secret"), "https://new", "", nil, ErrKubeconfigContext},
		"missing user: an error":          {stored(t, func(c *api.Config) { c.AuthInfos = nil }), "https://new", "", nil, ErrKubeconfigContext},
		"exec plugin: an error": {stored(t, func(c *api.Config) {
			c.AuthInfos["user"].Exec = &api.ExecConfig{Command: "rm", APIVersion: "client.authentication.k8s.io/v1", InteractiveMode: api.NeverExecInteractiveMode}
		}), "https://new", "", nil, ErrKubeconfigExec},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var ca []byte
			if test.ca != "" {
				ca = []byte(test.ca)
			}
			got, err := Readdress(test.kubeconfig, test.server, ca)
			if !errors.Is(err, test.is) {
				t.Fatalf("error %v; want %v", err, test.is)
			}
			if diff := cmp.Diff(string(test.want), string(got)); diff != "" {
				t.Errorf("the kubeconfig differs (-want +got):\n%s", diff)
			}
			if err != nil {
				return
			}
			server, read, err := AddressOf(got)
			if err != nil || server != test.server || string(read) != test.ca {
				t.Errorf("it leads to %q with CA %q, %v", server, read, err)
			}
		})
	}
	if _, _, err := AddressOf([]byte("{")); !errors.Is(err, ErrKubeconfigMalformed) {
		t.Errorf("error %v", err)
	}
}

func TestAddressHash(t *testing.T) {
	hash := func(changes ...func(*api.Config)) [32]byte { return AddressHash(stored(t, changes...)) }
	renewed := hash(func(c *api.Config) {
		for _, user := range c.AuthInfos {
			user.Token = "another"
		}
	})
	elsewhere := hash(func(c *api.Config) {
		for _, cluster := range c.Clusters {
			cluster.Server = "https://elsewhere.example"
		}
	})
	if hash() != renewed || hash() == elsewhere || AddressHash([]byte("x: [")) == AddressHash([]byte("y: [")) {
		t.Error("the hash is not that of server and CA")
	}
}
