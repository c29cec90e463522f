// Package pki creates the keys and certificates of a cluster on this machine: a CA, a serving certificate, a key
// for ServiceAccount tokens and an admin's token. They are files that an API server reads.
package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// ServiceCIDR is the range of Service addresses in every cluster. The first address, 10.43.0.1, is the API
// server's.
const ServiceCIDR = "10.43.0.0/16"

// Files of a cluster's directory. Certificates and keys are PEM.
const (
	FileCA         = "ca.crt"
	FileServing    = "serving.crt"
	FileServingKey = "serving.key"
	FileAccounts   = "service-accounts.key"
	FileTokens     = "tokens.csv"
	FileKubeconfig = "kubeconfig"
	FileAudit      = "audit-policy.yaml"
)

// Identity holds a cluster's CA and its admin's token.
type Identity struct {
	// CA is the cluster's own CA in PEM.
	CA []byte
	// Token authenticates user admin in group system:masters.
	Token string
}

// New writes a new CA, a serving certificate signed by it, a key for ServiceAccount tokens and the admin's token
// into dir. Every cluster has its own CA, so that trust in one cluster does not include another. The CA's key is
// not kept. The certificate is valid for loopback, Service kubernetes and the given addresses.
func New(dir, name string, now time.Time, addresses ...net.IP) (Identity, error) {
	ca, caKey, err := authority(name, now)
	if err != nil {
		return Identity{}, fmt.Errorf("creating the CA of %s: %w", name, err)
	}
	serving, servingKey, err := servingCertificate(ca, caKey, now, addresses)
	if err != nil {
		return Identity{}, fmt.Errorf("creating the serving certificate of %s: %w", name, err)
	}
	accounts, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Identity{}, fmt.Errorf("creating the ServiceAccount key of %s: %w", name, err)
	}
	id := Identity{CA: certificatePEM(ca.Raw), Token: randomToken()}
	err = errors.Join(
		Write(dir, FileCA, id.CA),
		Write(dir, FileServing, certificatePEM(serving)),
		writeKey(dir, FileServingKey, servingKey),
		writeKey(dir, FileAccounts, accounts),
		Write(dir, FileTokens, []byte(id.Token+`,admin,admin,"system:masters"`+"\n")),
		Write(dir, FileAudit, []byte(auditPolicy)),
	)
	return id, err
}

func authority(name string, now time.Time) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "plane-" + name},
		NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(1, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, nil, err
	}
	ca, err := x509.ParseCertificate(raw)
	return ca, key, err
}

func servingCertificate(ca *x509.Certificate, caKey *ecdsa.PrivateKey, now time.Time, addresses []net.IP) ([]byte, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "kube-apiserver"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(1, 0, 0),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IPAddresses: append([]net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(10, 43, 0, 1)}, addresses...),
		DNSNames:    []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"},
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, ca, key.Public(), caKey)
	return raw, key, err
}

func certificatePEM(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func writeKey(dir, file string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return fmt.Errorf("encoding %s: %w", file, err)
	}
	return Write(dir, file, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}))
}

// Write writes a file that only the user can read, because it may contain a key or a token.
func Write(dir, file string, content []byte) error {
	if err := os.WriteFile(filepath.Join(dir, file), content, 0o600); err != nil {
		return fmt.Errorf("writing %s: %w", file, err)
	}
	return nil
}

// randomToken returns 128 random bits in hexadecimal.
func randomToken() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails: crypto/rand ends the process instead
	return hex.EncodeToString(b[:])
}

// auditPolicy logs one line per request, without bodies.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: Metadata
`
