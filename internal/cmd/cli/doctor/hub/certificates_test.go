package hub

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/fleet-hub/fleet/internal/config"
)

// pair returns a certificate that signs itself, for 127.0.0.1, with its key.
func pair(t *testing.T, expires time.Time) (certificate []byte, key *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "hub"}, NotBefore: expires.AddDate(-2, 0, 0), NotAfter: expires,
		IsCA: true, BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	certificate, err = x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return certificate, key
}

// certificate returns a certificate in PEM.
func certificate(t *testing.T, expires time.Time) []byte {
	t.Helper()
	der, _ := pair(t, expires)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// serve starts a TLS server and returns its address and its CA.
func serve(t *testing.T, expires time.Time) (address string, ca []byte) {
	t.Helper()
	der, key := pair(t, expires)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the probe sent a request") }))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.URL, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func TestProbe(t *testing.T) {
	good, ca := serve(t, noon().AddDate(1, 0, 0))
	other, _ := serve(t, noon().AddDate(1, 0, 0))
	expired, expiredCA := serve(t, noon().AddDate(0, 0, -1))
	soon, soonCA := serve(t, noon().AddDate(0, 0, 10))
	for name, test := range map[string]struct {
		config        config.Config
		verdict, want string
	}{
		"server of the CA":                  {config.Config{APIServerURL: good, APIServerCA: ca}, "ok", "expires in 365 days"},
		"server of another CA":              {config.Config{APIServerURL: other, APIServerCA: ca}, "failed", "is not signed by apiServerCA"},
		"server whose CA is unknown":        {config.Config{APIServerURL: good}, "failed", "is not signed by apiServerCA"},
		"certificate has expired":           {config.Config{APIServerURL: expired, APIServerCA: expiredCA}, "failed", "has expired or is not valid yet"},
		"certificate expires soon":          {config.Config{APIServerURL: soon, APIServerCA: soonCA}, "warning", "expires in 10 days"},
		"certificate is for another name":   {config.Config{APIServerURL: strings.Replace(good, "127.0.0.1", "localhost", 1), APIServerCA: ca}, "failed", "is for other names"},
		"no server":                         {config.Config{APIServerURL: "https://127.0.0.1:1", APIServerCA: ca}, "failed", "no TLS server answers"},
		"no URL: nothing is connected":      {config.Config{}, "ok", "not checked"},
		"invalid URL: nothing is connected": {config.Config{APIServerURL: "http://127.0.0.1:1"}, "ok", "not checked"},
	} {
		t.Run(name, func(t *testing.T) {
			f := &Facts{Now: noon(), Config: Configuration{Config: test.config}, Address: probe(t.Context(), test.config, time.Minute, noon)}
			rows := checkCertificate(f)
			if len(rows) != 1 || string(rows[0].Verdict) != test.verdict || !strings.Contains(rows[0].Cause, test.want) {
				t.Errorf("rows %+v, error %v", rows, f.Address.Err)
			}
		})
	}
}

func encodeKey(t *testing.T, key *ecdsa.PrivateKey) []byte {
	t.Helper()
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
}
