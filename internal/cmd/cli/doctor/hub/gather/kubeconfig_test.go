package gather

import (
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/fleet-hub/fleet/internal/cmd/cli/clitest"
	"github.com/fleet-hub/fleet/internal/cmd/cli/doctor/check"
	"github.com/fleet-hub/fleet/internal/kube/foreign"
	kubeconfigs "github.com/fleet-hub/fleet/internal/kube/kubeconfig"
)

func kubeconfig(t *testing.T, server string, user *clientcmdapi.AuthInfo) map[string][]byte {
	t.Helper()
	all := clientcmdapi.NewConfig()
	all.Clusters["c"], all.AuthInfos["u"] = &clientcmdapi.Cluster{Server: server}, user
	all.Contexts["c"], all.CurrentContext = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}, "c"
	document, err := clientcmd.Write(*all)
	if err != nil {
		t.Fatal(err)
	}
	return map[string][]byte{"value": document}
}

// jwt returns a token with these claims.
func jwt(claims string) string {
	return "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".CANARY"
}

func encodeKey(t *testing.T, key *ecdsa.PrivateKey) []byte {
	t.Helper()
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
}

func TestReadKubeconfig(t *testing.T) {
	expires := clitest.Noon().Add(90 * time.Minute).Truncate(time.Second)
	der, key := clitest.Certificate(t, expires)
	keyPEM := encodeKey(t, key)
	client := &clientcmdapi.AuthInfo{ClientCertificateData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), ClientKeyData: keyPEM}
	const server = "https://192.0.2.1:6443"
	withToken := func(claims string) map[string][]byte {
		return kubeconfig(t, server, &clientcmdapi.AuthInfo{Token: jwt(claims)})
	}
	options := foreign.Options{Now: clitest.Noon(), Refused: []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24")}}
	for name, test := range map[string]struct {
		data    map[string][]byte
		exists  bool
		err     error
		expires time.Time
	}{
		"no Secret":                    {},
		"Secret without the key":       {data: map[string][]byte{"config": nil}},
		"client certificate":           {kubeconfig(t, server, client), true, nil, expires},
		"token that expires":           {withToken(fmt.Sprintf(`{"exp":%d}`, expires.Unix())), true, nil, expires},
		"token that does not expire":   {withToken(`{}`), true, nil, time.Time{}},
		"token with an odd expiry":     {withToken(`{"exp":1e300}`), true, nil, time.Time{}},
		"token with claims of text":    {withToken(`"x"`), true, nil, time.Time{}},
		"token that is not a JWT":      {kubeconfig(t, server, &clientcmdapi.AuthInfo{Token: "CANARY"}), true, nil, time.Time{}},
		"token that is too long":       {withToken(`{"exp":1,"a":"` + strings.Repeat("a", check.MaxToken) + `"}`), true, nil, time.Time{}},
		"not a kubeconfig":             {map[string][]byte{"value": []byte("{")}, true, kubeconfigs.ErrKubeconfigMalformed, time.Time{}},
		"kubeconfig that is too long":  {map[string][]byte{"value": make([]byte, check.MaxKubeconfig+1)}, true, kubeconfigs.ErrKubeconfigMalformed, time.Time{}},
		"kubeconfig that reads a file": {kubeconfig(t, server, &clientcmdapi.AuthInfo{TokenFile: "/token"}), true, kubeconfigs.ErrKubeconfigFile, time.Time{}},
		"address that the hub refuses": {kubeconfig(t, "https://198.51.100.7", client), true, foreign.ErrKubeconfigAddress, time.Time{}},
		"address that means the hub":   {kubeconfig(t, "https://127.0.0.1", client), true, foreign.ErrKubeconfigAddress, time.Time{}},
		"address without TLS":          {kubeconfig(t, "http://192.0.2.1", &clientcmdapi.AuthInfo{Token: "t"}), true, foreign.ErrKubeconfigPlain, time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			got := readKubeconfig(test.data, options)
			if got.Exists != test.exists || !errors.Is(got.Err, test.err) || !got.Expires.Equal(test.expires) {
				t.Errorf("%+v", got)
			}
			if strings.Contains(fmt.Sprint(got.Err), "CANARY") {
				t.Error("the error contains a part of the kubeconfig")
			}
		})
	}
	options.Now = expires.Add(time.Hour)
	if got := readKubeconfig(kubeconfig(t, server, client), options); got.Err != nil || !got.Expires.Equal(expires) {
		t.Errorf("an expired certificate is refused instead of reported: %+v", got)
	}
}
