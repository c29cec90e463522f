package check_test

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

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/fleet-hub/fleet/internal/cmd/cli/clitest"
	"github.com/fleet-hub/fleet/internal/cmd/cli/doctor/check"
	"github.com/fleet-hub/fleet/internal/kube/foreign"
	kubeconfigs "github.com/fleet-hub/fleet/internal/kube/kubeconfig"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

func kubeconfig(t *testing.T, server string, user *clientcmdapi.AuthInfo) *corev1.Secret {
	t.Helper()
	all := clientcmdapi.NewConfig()
	all.Clusters["c"], all.AuthInfos["u"] = &clientcmdapi.Cluster{Server: server}, user
	all.Contexts["c"], all.CurrentContext = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}, "c"
	document, err := clientcmd.Write(*all)
	if err != nil {
		t.Fatal(err)
	}
	return secretWith("value", document)
}

// secretWith returns a Secret with one key, and with what Clusters may set besides a kubeconfig.
func secretWith(key string, value []byte) *corev1.Secret {
	s := &corev1.Secret{Data: map[string][]byte{key: value, "apiServerURL": []byte("https://hub.example.com"), "apiServerCA": []byte("CA")}}
	s.Annotations = map[string]string{annotation.AllowedWorkspaces: "a,b"}
	return s
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
	withToken := func(claims string) *corev1.Secret {
		return kubeconfig(t, server, &clientcmdapi.AuthInfo{Token: jwt(claims)})
	}
	options := foreign.Options{Now: clitest.Noon(), Refused: []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24")}}
	for name, test := range map[string]struct {
		secret  *corev1.Secret
		exists  bool
		err     error
		expires time.Time
	}{
		"no Secret":                    {},
		"Secret without the key":       {secret: secretWith("config", nil)},
		"client certificate":           {kubeconfig(t, server, client), true, nil, expires},
		"token that expires":           {withToken(fmt.Sprintf(`{"exp":%d}`, expires.Unix())), true, nil, expires},
		"token that does not expire":   {withToken(`{}`), true, nil, time.Time{}},
		"token with an odd expiry":     {withToken(`{"exp":1e300}`), true, nil, time.Time{}},
		"token with claims of text":    {withToken(`"x"`), true, nil, time.Time{}},
		"token that is not a JWT":      {kubeconfig(t, server, &clientcmdapi.AuthInfo{Token: "CANARY"}), true, nil, time.Time{}},
		"not a kubeconfig":             {secretWith("value", []byte("{")), true, kubeconfigs.ErrKubeconfigMalformed, time.Time{}},
		"kubeconfig that is too long":  {secretWith("value", make([]byte, check.MaxKubeconfig+1)), true, kubeconfigs.ErrKubeconfigMalformed, time.Time{}},
		"kubeconfig that reads a file": {kubeconfig(t, server, &clientcmdapi.AuthInfo{TokenFile: "/token"}), true, kubeconfigs.ErrKubeconfigFile, time.Time{}},
		"address that the hub refuses": {kubeconfig(t, "https://198.51.100.7", client), true, foreign.ErrKubeconfigAddress, time.Time{}},
		"address that means the hub":   {kubeconfig(t, "https://127.0.0.1", client), true, foreign.ErrKubeconfigAddress, time.Time{}},
		"address without TLS":          {kubeconfig(t, "http://192.0.2.1", &clientcmdapi.AuthInfo{Token: "t"}), true, foreign.ErrKubeconfigPlain, time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			got := check.ReadKubeconfig(test.secret, options)
			if got.Exists != test.exists || !errors.Is(got.Err, test.err) || !got.Expires.Equal(test.expires) {
				t.Errorf("%+v", got)
			}
			if test.secret != nil && (got.URL != "https://hub.example.com" || string(got.CA) != "CA" || got.Allowed != "a,b") {
				t.Errorf("%+v", got)
			}
			if strings.Contains(fmt.Sprint(got.Err), "CANARY") {
				t.Error("the error contains a part of the kubeconfig")
			}
		})
	}
	options.Now = expires.Add(time.Hour)
	if got := check.ReadKubeconfig(kubeconfig(t, server, client), options); got.Err != nil || !got.Expires.Equal(expires) {
		t.Errorf("an expired certificate is refused instead of reported: %+v", got)
	}
}
