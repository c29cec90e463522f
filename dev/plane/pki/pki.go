// Package pki creates the keys and certificates of a cluster on this machine: a CA, a serving certificate, a key
// for ServiceAccount tokens and an admin's token. They are files that an API server reads.
package pki

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
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
	FileCAKey      = "ca.key" // New does not write it
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
	ca, err := NewAuthority("plane-"+name, now)
	if err != nil {
		return Identity{}, fmt.Errorf("creating the CA of %s: %w", name, err)
	}
	serving, err := ca.Serving(now, addresses...)
	if err != nil {
		return Identity{}, fmt.Errorf("creating the serving certificate of %s: %w", name, err)
	}
	accounts, err := NewAccountKey()
	if err != nil {
		return Identity{}, fmt.Errorf("creating the ServiceAccount key of %s: %w", name, err)
	}
	id := Identity{CA: ca.Certificate, Token: randomToken()}
	err = errors.Join(
		Write(dir, FileCA, id.CA),
		Write(dir, FileServing, serving.Certificate),
		Write(dir, FileServingKey, serving.Key),
		Write(dir, FileAccounts, accounts.Key),
		Write(dir, FileTokens, []byte(id.Token+`,admin,admin,"system:masters"`+"\n")),
		Write(dir, FileAudit, []byte(auditPolicy)),
	)
	return id, err
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
