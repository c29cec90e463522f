package check

import (
	"crypto/x509"
	"encoding/pem"
	"time"

	utilversion "k8s.io/apimachinery/pkg/util/version"
)

// LastExpiry returns when the last of some certificates in PEM expires. One that is valid suffices.
func LastExpiry(bundle []byte) (last time.Time, found bool) {
	for rest := bundle; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return last, found
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if block.Type != "CERTIFICATE" || err != nil {
			continue
		}
		if found = true; certificate.NotAfter.After(last) {
			last = certificate.NotAfter
		}
	}
}

// IsOlder reports whether a release is older than another one. Versions that are not semantic ones are never older.
func IsOlder(a, b string) bool {
	parsed, err := utilversion.ParseSemantic(a)
	if err != nil {
		return false
	}
	order, err := parsed.Compare(b)
	return err == nil && order < 0
}
