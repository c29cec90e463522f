package kubeconfig

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"strings"
	"time"
)

// ValidityOf returns the time in which the client certificate or the token of a kubeconfig's current context is valid.
// If it has both, the one that ends first counts. A zero time means that the kubeconfig does not say it, or cannot be
// parsed.
func ValidityOf(kubeconfig []byte) (from, until time.Time) {
	cfg, err := Load(kubeconfig)
	if err != nil {
		return time.Time{}, time.Time{}
	}
	_, user, err := inUse(cfg)
	if err != nil {
		return time.Time{}, time.Time{}
	}
	from, until = certificateValidity(user.ClientCertificateData)
	if issued, ends := tokenValidity(user.Token); until.IsZero() || !ends.IsZero() && ends.Before(until) {
		from, until = issued, ends
	}
	return from, until
}

func certificateValidity(data []byte) (from, until time.Time) {
	block, _ := pem.Decode(data)
	if block == nil {
		return time.Time{}, time.Time{}
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return time.Time{}, time.Time{}
	}
	return certificate.NotBefore, certificate.NotAfter
}

// tokenValidity reads the claims of a token without verifying it. Tokens other than JWTs have no claims.
func tokenValidity(token string) (from, until time.Time) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return time.Time{}, time.Time{}
	}
	document, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return time.Time{}, time.Time{}
	}
	var claims struct {
		Issued  float64 `json:"iat"`
		Expires float64 `json:"exp"`
	}
	if json.Unmarshal(document, &claims) != nil {
		return time.Time{}, time.Time{}
	}
	return claimTime(claims.Issued), claimTime(claims.Expires)
}

// maxClaim is the last second that is formatted with four digits of a year. A claim beyond it counts as missing.
const maxClaim = 253402300799

func claimTime(seconds float64) time.Time {
	if !(seconds > 0 && seconds <= maxClaim) {
		return time.Time{}
	}
	return time.Unix(int64(seconds), 0)
}
