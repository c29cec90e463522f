package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"time"
)

// Pair is a certificate, or a public key, with its private key. Both are PEM.
type Pair struct {
	Certificate, Key []byte
}

// Authority is a CA that signs certificates.
type Authority struct {
	Pair

	certificate *x509.Certificate
	key         crypto.Signer
}

// Client describes the client certificate of a user.
type Client struct {
	User   string
	Groups []string
	// Lifetime is how long the certificate is valid.
	Lifetime time.Duration
}

// NewAuthority returns a new CA with this common name, valid for one year.
func NewAuthority(name string, now time.Time) (Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Authority{}, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(1, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	pair, err := sign(template, Authority{certificate: template, key: key}, key)
	if err != nil {
		return Authority{}, err
	}
	return ParseAuthority(pair)
}

// ParseAuthority returns the CA of this certificate and key. They must belong together, and the certificate must
// be one of a CA.
func ParseAuthority(pair Pair) (Authority, error) {
	loaded, err := tls.X509KeyPair(pair.Certificate, pair.Key)
	if err != nil {
		return Authority{}, fmt.Errorf("parsing the CA: %w", err)
	}
	key, isSigner := loaded.PrivateKey.(crypto.Signer)
	if !loaded.Leaf.IsCA || !isSigner {
		return Authority{}, errors.New("parsing the CA: the certificate does not belong to a CA")
	}
	return Authority{Pair: pair, certificate: loaded.Leaf, key: key}, nil
}

// Serving returns an API server's certificate for loopback, Service kubernetes and the given addresses, valid for
// one year.
func (a Authority) Serving(now time.Time, addresses ...net.IP) (Pair, error) {
	return a.issue(&x509.Certificate{
		Subject:   pkix.Name{CommonName: "kube-apiserver"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(1, 0, 0),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IPAddresses: append([]net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(10, 43, 0, 1)}, addresses...),
		DNSNames:    []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"},
	})
}

// Client returns a user's certificate.
func (a Authority) Client(now time.Time, of Client) (Pair, error) {
	return a.issue(&x509.Certificate{
		Subject:   pkix.Name{CommonName: of.User, Organization: of.Groups},
		NotBefore: now.Add(-5 * time.Minute), NotAfter: now.Add(of.Lifetime), // clocks differ by minutes
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

// issue signs a certificate of a new key.
func (a Authority) issue(template *x509.Certificate) (Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, err
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)); err != nil {
		return Pair{}, err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	return sign(template, a, key)
}

func sign(template *x509.Certificate, ca Authority, key *ecdsa.PrivateKey) (Pair, error) {
	raw, err := x509.CreateCertificate(rand.Reader, template, ca.certificate, key.Public(), ca.key)
	if err != nil {
		return Pair{}, err
	}
	private, err := privatePEM(key)
	return Pair{Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}), Key: private}, err
}

// NewAccountKey returns a key that signs ServiceAccount tokens. In place of a certificate it has the public key.
func NewAccountKey() (Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, err
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return Pair{}, err
	}
	private, err := privatePEM(key)
	return Pair{Certificate: pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}), Key: private}, err
}

func privatePEM(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encoding a private key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}
