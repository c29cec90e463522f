package pki

import (
	"crypto/tls"
	"crypto/x509"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"k8s.io/client-go/tools/clientcmd"
)

func authorityOf(t *testing.T, name string) Authority {
	t.Helper()
	ca, err := NewAuthority(name, someDay)
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

func TestParseAuthority_RejectsOtherPairs(t *testing.T) {
	ca, other := authorityOf(t, "east"), authorityOf(t, "west")
	serving, err := ca.Serving(someDay)
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		pair Pair
		want bool
	}{
		"certificate and key of a CA":     {ca.Pair, true},
		"key of another CA":               {Pair{ca.Certificate, other.Key}, false},
		"certificate that signs no other": {serving, false},
		"no key":                          {Pair{Certificate: ca.Certificate}, false},
		"no PEM":                          {Pair{[]byte("x"), []byte("y")}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if _, err := ParseAuthority(test.pair); (err == nil) != test.want {
				t.Errorf("error %v, want a CA: %t", err, test.want)
			}
		})
	}
}

func TestClient_IsValidForItsLifetimeAndUserOnly(t *testing.T) {
	ca := authorityOf(t, "east")
	pair, err := ca.Client(someDay, Client{User: "admin", Groups: []string{"system:masters"}, Lifetime: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := tls.X509KeyPair(pair.Certificate, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"admin", "system:masters"}, append([]string{loaded.Leaf.Subject.CommonName}, loaded.Leaf.Subject.Organization...)); diff != "" {
		t.Errorf("user and groups (-want +got):\n%s", diff)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca.Certificate)
	tests := map[string]struct {
		at    time.Duration
		usage x509.ExtKeyUsage
		want  bool
	}{
		"a minute before: clocks differ": {-time.Minute, x509.ExtKeyUsageClientAuth, true},
		"within the hour":                {59 * time.Minute, x509.ExtKeyUsageClientAuth, true},
		"after the hour: expired":        {61 * time.Minute, x509.ExtKeyUsageClientAuth, false},
		"as a server: rejected":          {0, x509.ExtKeyUsageServerAuth, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := loaded.Leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: someDay.Add(test.at), KeyUsages: []x509.ExtKeyUsage{test.usage}})
			if (err == nil) != test.want {
				t.Errorf("error %v, want it valid: %t", err, test.want)
			}
		})
	}
}

func TestKubeconfig_HasTheClientCertificate(t *testing.T) {
	content, err := Access{Name: "east", URL: "https://127.0.0.1:1", Client: Pair{[]byte("crt"), []byte("key")}}.Kubeconfig()
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(content)
	if err != nil || string(config.CertData) != "crt" || string(config.KeyData) != "key" || config.BearerToken != "" {
		t.Errorf("config %v, %v", config, err)
	}
}
