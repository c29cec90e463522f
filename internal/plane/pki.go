package plane

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

// serviceCIDR is every cluster's range of Service addresses; nothing answers at them.
const serviceCIDR = "10.43.0.0/16"

// Files of a cluster's folder. Certificates and keys are PEM.
const (
	fileCA         = "ca.crt"
	fileServing    = "serving.crt"
	fileServingKey = "serving.key"
	fileAccounts   = "service-accounts.key"
	fileTokens     = "tokens.csv"
	fileKubeconfig = "kubeconfig"
	fileAudit      = "audit-policy.yaml"
)

// identity is what a cluster is trusted by and what its admin is known by.
type identity struct {
	ca    []byte // PEM
	token string // of user admin, group system:masters
}

// newIdentity writes a new CA, a serving certificate signed by it, a key for service account tokens
// and the admin's token into dir. Every cluster has a CA of its own, so that trusting one of them
// proves nothing about another. The CA's key is not kept.
func newIdentity(dir, name string, now time.Time) (identity, error) {
	ca, caKey, err := authority(name, now)
	if err != nil {
		return identity{}, fmt.Errorf("making the CA of %s: %w", name, err)
	}
	serving, servingKey, err := servingCertificate(ca, caKey, now)
	if err != nil {
		return identity{}, fmt.Errorf("making the serving certificate of %s: %w", name, err)
	}
	accounts, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return identity{}, fmt.Errorf("making the service account key of %s: %w", name, err)
	}
	id := identity{ca: certificatePEM(ca.Raw), token: randomToken()}
	err = errors.Join(
		write(dir, fileCA, id.ca),
		write(dir, fileServing, certificatePEM(serving)),
		writeKey(dir, fileServingKey, servingKey),
		writeKey(dir, fileAccounts, accounts),
		write(dir, fileTokens, []byte(id.token+`,admin,admin,"system:masters"`+"\n")),
		write(dir, fileAudit, []byte(auditPolicy)),
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

func servingCertificate(ca *x509.Certificate, caKey *ecdsa.PrivateKey, now time.Time) ([]byte, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "kube-apiserver"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(1, 0, 0),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(10, 43, 0, 1)},
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
	return write(dir, file, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}))
}

// write writes a file only the user can read: it may hold a key or a token.
func write(dir, file string, content []byte) error {
	if err := os.WriteFile(filepath.Join(dir, file), content, 0o600); err != nil {
		return fmt.Errorf("writing %s: %w", file, err)
	}
	return nil
}

// randomToken is 128 bits in hexadecimal.
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
