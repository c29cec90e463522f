package kubeconfig

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"math/big"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd/api"
)

func TestValidityOf(t *testing.T) {
	from, until := time.Unix(1_700_000_000, 0), time.Unix(1_700_003_600, 0)
	certificate := clientCertificate(t, from, until)
	jwt := func(claims string) string {
		return "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln"
	}
	user := func(modify func(*api.AuthInfo)) []byte {
		return stored(t, func(c *api.Config) {
			c.AuthInfos["user"].Token = ""
			modify(c.AuthInfos["user"])
		})
	}
	token := func(text string) []byte { return user(func(u *api.AuthInfo) { u.Token = text }) }
	none := time.Time{}
	for name, test := range map[string]struct {
		kubeconfig  []byte
		from, until time.Time
	}{
		"a certificate":                     {user(func(u *api.AuthInfo) { u.ClientCertificateData = certificate }), from, until},
		"a token":                           {token(jwt(`{"iat":1700000000,"exp":1700003600}`)), from, until},
		"a token with an end only":          {token(jwt(`{"exp":1700003600}`)), none, until},
		"a token without an end":            {token(jwt(`{}`)), none, none},
		"both: the certificate ends first":  {user(func(u *api.AuthInfo) { u.ClientCertificateData, u.Token = certificate, jwt(`{"exp":1800000000}`) }), from, until},
		"both: the token ends first":        {user(func(u *api.AuthInfo) { u.ClientCertificateData, u.Token = certificate, jwt(`{"exp":1700000001}`) }), none, time.Unix(1_700_000_001, 0)},
		"both: the token has no end":        {user(func(u *api.AuthInfo) { u.ClientCertificateData, u.Token = certificate, jwt(`{}`) }), from, until},
		"a token that is not a JWT":         {token("a.b"), none, none},
		"one that is not base64":            {token("a.*.c"), none, none},
		"one that is not JSON":              {token("e30.e30e30.c2ln"), none, none},
		"an end before time, and far after": {token(jwt(`{"iat":-1,"exp":1e300}`)), none, none},
		"an invalid certificate": {user(func(u *api.AuthInfo) {
			u.ClientCertificateData = []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
		}), none, none},
		"not a kubeconfig":            {[]byte("x: ["), none, none},
		"a kubeconfig without a user": {[]byte("{}"), none, none},
	} {
		t.Run(name, func(t *testing.T) {
			gotFrom, gotUntil := ValidityOf(test.kubeconfig)
			if !gotFrom.Equal(test.from) || !gotUntil.Equal(test.until) {
				t.Errorf("from %s until %s, want %s until %s", gotFrom, gotUntil, test.from, test.until)
			}
		})
	}
}

func clientCertificate(t *testing.T, from, until time.Time) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: from, NotAfter: until}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// FuzzValidityOf reads any text without a panic, and returns only times that can be written.
func FuzzValidityOf(f *testing.F) {
	f.Add([]byte("{current-context: x, contexts: [{name: x, context: {cluster: c, user: u}}], clusters: [{name: c, cluster: {server: 'https://a'}}], users: [{name: u, user: {token: e30.e30.e30}}]}"))
	f.Add([]byte("x: ["))
	f.Fuzz(func(t *testing.T, kubeconfig []byte) {
		from, until := ValidityOf(kubeconfig)
		for _, claim := range []time.Time{from, until} {
			if _, err := claim.MarshalJSON(); err != nil {
				t.Error(err)
			}
		}
		if AddressHash(kubeconfig) != AddressHash(bytes.Clone(kubeconfig)) {
			t.Error("one kubeconfig has two addresses")
		}
	})
}
