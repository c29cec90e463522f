package pki

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"k8s.io/client-go/tools/clientcmd"
)

// names returns the sorted names of a directory's files.
func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, entry := range entries {
		found = append(found, entry.Name())
	}
	return found
}

// someDay is the time at which the tests create certificates.
var someDay = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func identityIn(t *testing.T, dir string) Identity {
	t.Helper()
	id, err := New(dir, "east", someDay, net.IPv4(10, 99, 0, 2))
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestNew_WritesFilesOnlyTheUserCanRead(t *testing.T) {
	dir := t.TempDir()
	id := identityIn(t, dir)
	if diff := cmp.Diff([]string{FileAudit, FileCA, FileAccounts, FileServing, FileServingKey, FileTokens}, names(t, dir)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	for _, file := range names(t, dir) {
		info, err := os.Stat(filepath.Join(dir, file))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", file, info, err)
		}
	}
	tokens, err := os.ReadFile(filepath.Join(dir, FileTokens))
	if err != nil || string(tokens) != id.Token+`,admin,admin,"system:masters"`+"\n" || len(id.Token) != 32 {
		t.Errorf("tokens %q, %v", tokens, err)
	}
	if _, err := New("/no/such/folder", "east", someDay); err == nil {
		t.Error("want an error for a missing directory")
	}
}

func TestServingCertificate_IsValidForTheServersNamesOnly(t *testing.T) {
	dir := t.TempDir()
	id := identityIn(t, dir)
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, FileServing), filepath.Join(dir, FileServingKey))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(id.CA)
	for name, want := range map[string]bool{
		"127.0.0.1": true, "10.43.0.1": true, "localhost": true, "kubernetes.default.svc": true, "10.99.0.2": true, "10.99.0.3": false, "example.com": false, "127.0.0.2": false,
	} {
		_, err := pair.Leaf.Verify(x509.VerifyOptions{DNSName: name, Roots: roots, CurrentTime: someDay})
		if (err == nil) != want {
			t.Errorf("for %s: %v", name, err)
		}
	}
	if block, rest := pem.Decode(id.CA); block == nil || len(rest) != 0 {
		t.Errorf("CA %s", id.CA)
	}
}

func TestTwoClusters_ShareNoTokenAndNoCA(t *testing.T) {
	one, two := identityIn(t, t.TempDir()), identityIn(t, t.TempDir())
	if one.Token == two.Token || string(one.CA) == string(two.CA) {
		t.Errorf("both clusters have token %s and CA\n%s", one.Token, one.CA)
	}
}

func TestKubeconfig_HasOneContext(t *testing.T) {
	const url = "https://127.0.0.1:20001"
	tests := map[string]struct {
		as                          Access
		token, tokenFile, namespace string
	}{
		"token":                    {Access{Token: "t"}, "t", "", "default"},
		"token file and namespace": {Access{TokenFile: "/data/token", Namespace: "ns"}, "", "/data/token", "ns"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			test.as.Name, test.as.URL, test.as.CA = "east", url, []byte("ca")
			content, err := test.as.Kubeconfig()
			if err != nil {
				t.Fatal(err)
			}
			loaded, err := clientcmd.Load(content)
			if err != nil {
				t.Fatal(err)
			}
			client := clientcmd.NewDefaultClientConfig(*loaded, nil)
			namespace, _, err := client.Namespace()
			if err != nil || namespace != test.namespace {
				t.Errorf("namespace %q, %v", namespace, err)
			}
			user := loaded.AuthInfos[loaded.Contexts[loaded.CurrentContext].AuthInfo]
			server := loaded.Clusters[loaded.Contexts[loaded.CurrentContext].Cluster]
			got := []string{user.Token, user.TokenFile, server.Server, string(server.CertificateAuthorityData), loaded.CurrentContext}
			if diff := cmp.Diff([]string{test.token, test.tokenFile, url, "ca", "east"}, got); diff != "" {
				t.Errorf("kubeconfig (-want +got):\n%s", diff)
			}
		})
	}
}
