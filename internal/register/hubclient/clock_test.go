package hubclient

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/fleet-hub/fleet/internal/rules/registering"
)

// valid is a hub whose certificate is valid in this time only.
func valid(t *testing.T, from, until time.Time) Access {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "hub"}, NotBefore: from, NotAfter: until,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"apiVersion":"fleet.cattle.io/v1alpha1","kind":"BundleDeploymentList","items":[]}`))
	}))
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	server.Config.ErrorLog = quiet()
	server.StartTLS()
	t.Cleanup(server.Close)
	return Access{Server: server.URL, CA: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), Token: "account-0"}
}

// The clock of this cluster may be wrong, so the identity is kept and the error says what to check.
func TestCertificateOutsideItsValidity_ErrorNamesTheClocks(t *testing.T) {
	tests := map[string]struct {
		from, until time.Duration
		want        registering.Answer
		says        string
	}{
		"valid":                      {-time.Hour, time.Hour, registering.Accepted, ""},
		"valid since a minute ago":   {-time.Minute, time.Hour, registering.Accepted, ""},
		"agent's clock is behind":    {time.Hour, 2 * time.Hour, registering.Unanswered, "is before"},
		"agent's clock is far ahead": {-2 * time.Hour, -time.Hour, registering.Unanswered, "is after"},
		"expired certificate":        {-48 * time.Hour, -time.Hour, registering.Unanswered, "is after"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			now := time.Now()
			err := hubAt(t, valid(t, now.Add(test.from), now.Add(test.until))).Prove(t.Context(), "ns")
			if got := AnswerOf(err); got != test.want {
				t.Errorf("answer %s of %v, want %s", got, err, test.want)
			}
			if test.says == "" {
				return
			}
			if !errors.Is(err, errValidity) || !strings.Contains(err.Error(), "check the clocks of this cluster's nodes") || !strings.Contains(err.Error(), test.says) {
				t.Errorf("it says %v", err)
			}
		})
	}
}
