package check

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"
	utilversion "k8s.io/apimachinery/pkg/util/version"
)

// Times until a certificate expires. Certificates of API servers are often renewed by hand.
const (
	certificateWarning = 30 * 24 * time.Hour
	certificateFailure = 3 * 24 * time.Hour
)

// Certificate returns the row for a certificate that expires.
func Certificate(target Object, name string, expires, now time.Time, fix string) Row {
	left, on := expires.Sub(now), expires.UTC().Format(time.DateOnly)
	switch {
	case left <= 0:
		return Fail(target, fmt.Sprintf("%s expired on %s", name, on), fix)
	case left < certificateFailure:
		return Fail(target, fmt.Sprintf("%s expires in %s", name, duration.HumanDuration(left)), fix)
	case left < certificateWarning:
		return Warn(target, fmt.Sprintf("%s expires in %s", name, duration.HumanDuration(left)), fix)
	}
	return Ok(target, fmt.Sprintf("%s expires on %s", name, on))
}

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
